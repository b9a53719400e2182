"""The compiled searches: their options, and sentences that join and leave them one by one.

Neither torch nor fairseq is imported.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import ModuleType
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from .kernels import loading
from .rules import SearchRules

Arguments = dict[str, Any]


class BlockOptions(NamedTuple):
    """Greedy decoding and blocks.

    Attributes:
        n_heads: the number of heads that propose, p_1 among them; 1 for none.
        n_in_tree: the most proposals of a tree; 0 for chains.
        confidence: see ``--proposal-confidence``.
        acceptance: the arguments of ``_engine.Acceptance``.
        window: the tokens of a block of drafts, the next one among them; 1 for none.
        drafts: the arguments of ``_engine.Drafts``.
        records_blocks: whether the statistics have the tokens that were kept at once.
    """

    n_heads: int = 1
    n_in_tree: int = 0
    confidence: float = 0.0
    acceptance: Arguments = {}
    window: int = 1
    drafts: Arguments = {}
    records_blocks: bool = True

    @property
    def is_exact(self) -> bool:
        """Whether only tokens are kept that p_1 finds best."""
        given = self.acceptance
        return given.get("kind", "exact") == "exact" and given.get("min_block", 1) == 1

    def search(self, module: ModuleType, **shared: Any) -> Any:
        """A search of ``_engine`` over the models of ``shared``, for any number of sentences."""
        return module.block_search(
            acceptance=module.Acceptance(**self.acceptance),
            proposals=module.Proposals(
                n_heads=self.n_heads,
                n_in_tree=self.n_in_tree,
                confidence=self.confidence,
                window=loading.bounded(self.window),
                drafts=module.Drafts(**self.drafts),
            ),
            capacity=module.ALL_STEPS,
            **shared,
        )


class JacobiOptions(NamedTuple):
    """Jacobi decoding.

    Attributes:
        block_size: the paper's b; ``None`` for the whole output.
        ends_inside_blocks, waits_behind_eos: see ``cpp/jacobi.h``.
        drafts: the arguments of ``_engine.Drafts``.
        n_heads, records_blocks: see :class:`BlockOptions`.
    """

    block_size: Optional[int]
    ends_inside_blocks: bool
    waits_behind_eos: bool
    drafts: Arguments
    n_heads: int = 1
    records_blocks: bool = True

    def search(self, module: ModuleType, **shared: Any) -> Any:
        """A search of ``_engine`` over the models of ``shared``, for any number of sentences."""
        return module.jacobi_search(
            block_size=loading.bounded(self.block_size),
            ends_inside_blocks=self.ends_inside_blocks,
            waits_behind_eos=self.waits_behind_eos,
            drafts=module.Drafts(**self.drafts),
            capacity=module.ALL_STEPS,
            **shared,
        )


class BeamOptions(NamedTuple):
    """The rule for which candidates stay on a beam, the arguments of ``_engine.BeamOptions``.

    Attributes:
        width: the most candidates of a beam.
        threshold: of the log-probabilities, see ``--prune-threshold``.
        n_per_entry: the most extensions of a candidate; ``None`` for any number.
        lets_wait: see ``--finalize``.
        sampling: the arguments of ``_engine.Sampling``; ``None`` for no samples.
    """

    width: int
    threshold: float
    n_per_entry: Optional[int]
    lets_wait: bool
    sampling: Optional[Sequence[float]] = None

    def search(self, module: ModuleType, **shared: Any) -> Any:
        """A search of ``_engine`` over the models of ``shared``."""
        return module.BeamSearch(
            options=module.BeamOptions(
                width=self.width,
                threshold=self.threshold,
                n_per_entry=loading.bounded(self.n_per_entry),
                lets_wait=self.lets_wait,
                sampling=None if self.sampling is None else module.Sampling(*self.sampling),
            ),
            **shared,
        )


class PairOptions(NamedTuple):
    """Double-token decoding, the arguments of ``_engine.PairOptions``.

    Attributes:
        width: W, the most hypotheses of a beam.
        right_bos: the token beside the one before the first.
    """

    width: int
    right_bos: int

    def search(self, module: ModuleType, **shared: Any) -> Any:
        """A search of ``_engine`` over the models of ``shared``, for any number of sentences."""
        options = module.PairOptions(self.width, self.right_bos, capacity=module.ALL_STEPS)
        return module.PairSearch(options=options, **shared)


SearchOptions = Union[BlockOptions, JacobiOptions, BeamOptions, PairOptions]


class Output(NamedTuple):
    """A hypothesis.

    Attributes:
        tokens: int64 ``[m]``, ending in EOS.
        positional_scores: fp32 ``[m]``, natural logarithms.
        score: of the whole.
    """

    tokens: np.ndarray
    positional_scores: np.ndarray
    score: float


# Of a hypothesis: its tokens int64 [m], their log-probabilities fp32 [m], and of beams their sum.
RawHypothesis = tuple[np.ndarray, np.ndarray, float]


@dataclass(eq=False)
class Recipe:
    """Everything that decides which outputs a sentence gets. Its sentences share batches.

    Attributes:
        models: ``_engine.Model`` for each model.
        bos: the token before the first.
        prefix: forced first tokens.
    """

    models: list[Any]
    rules: SearchRules
    options: SearchOptions
    temperature: float
    bos: int
    prefix: tuple[int, ...] = ()

    def new_search(self) -> Any:
        """A search without sentences."""
        rules = self.rules.compiled(self.temperature)
        return self.options.search(loading.library(), models=self.models, rules=rules)

    @cached_property
    def search(self) -> Any:
        """A search without sentences, as ``_engine.Service`` takes it."""
        return self.new_search()

    @cached_property
    def _idle(self) -> "deque[Any]":
        """Searches that decode one sentence at a time, and that no thread uses now."""
        return deque()

    @property
    def verifies_drafts(self) -> bool:
        """Whether drafts can be given, which change no output."""
        options = self.options
        return isinstance(options, BlockOptions) and options.is_exact

    def decoded(
        self, tokens: np.ndarray, n_threads: int, draft: Optional[np.ndarray] = None
    ) -> list[Output]:
        """The outputs of one sentence, best first, decoded in the calling thread.

        Args:
            tokens: of the source, int64 ``[n]`` with EOS.
            draft: of the output, int64 ``[D]``.
            n_threads: the most threads of the engine that take part.

        Raises:
            IndexError: for tokens that are not in the dictionary.
            ValueError: if --min-len does not fit in.
        """
        try:
            search = self._idle.pop()
        except IndexError:
            search = self.new_search()
        max_len = self.rules.max_len(len(tokens))
        found = search.decode(tokens[None], self.bos, max_len, self.forced, draft, n_threads)
        # A search that has raised an error is not used again.
        self._idle.append(search)
        ((_, _, hypotheses),) = hypotheses_of(found)
        return self.outputs(hypotheses)

    @cached_property
    def forced(self) -> Optional[np.ndarray]:
        """The prefix, int64 ``[1, P]``; ``None`` if it is empty."""
        return np.array([self.prefix], dtype=np.int64) if self.prefix else None

    def outputs(self, hypotheses: list[RawHypothesis]) -> list[Output]:
        """Hypotheses of a sentence with their scores, best first."""
        found = []
        for tokens, scores, total in hypotheses:
            if isinstance(self.options, BeamOptions):
                score = self.rules.normalized_total(total, len(tokens))
            else:
                score = float(np.float32(self.rules.score(scores.tolist())))
            found.append(Output(tokens, scores, score))
        return sorted(found, key=lambda output: output.score, reverse=True)


def hypotheses_of(collected: Any) -> Iterator[tuple[int, str, list[RawHypothesis]]]:
    """The sentences that ``_engine.Service.collect`` returns: their numbers, errors, hypotheses."""
    outputs = collected.outputs
    ends = np.cumsum(outputs.lengths)[:-1]
    parts = (np.split(outputs.tokens, ends), np.split(outputs.scores, ends))
    hypotheses = zip(*parts, collected.totals.tolist())
    for number, error, n in zip(collected.ids, collected.errors, collected.n_hypotheses):
        yield number, error, list(islice(hypotheses, n))
