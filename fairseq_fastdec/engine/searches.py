"""The options of the compiled searches, and decoding of single sentences.

This module imports neither torch nor fairseq.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Optional, Union

import numpy as np

from .kernels import loading
from .rules import SearchRules

Arguments = dict[str, Any]


class BlockOptions(NamedTuple):
    """Options of greedy decoding and blockwise decoding.

    Attributes:
        n_heads: the number of heads, including p_1; 1 without proposals of heads.
        confidence: see ``--proposal-confidence``.
        by_time: no proposals while they make decoding slower.
        acceptance: the arguments of ``_engine.Acceptance``.
        window: the length of a block with drafts, including the next token; 1 without drafts.
        drafts: the arguments of ``_engine.Drafts``.
        records_blocks: whether the statistics include the number of tokens kept in each step.
    """

    n_heads: int = 1
    confidence: float = 0.0
    by_time: bool = False
    acceptance: Arguments = {}
    window: int = 1
    drafts: Arguments = {}
    records_blocks: bool = True

    @property
    def is_exact(self) -> bool:
        """Return True if the output is that of greedy decoding with p_1."""
        given = self.acceptance
        return given.get("kind", "exact") == "exact" and given.get("min_block", 1) == 1

    def search(self, models: list[Any], rules: Any) -> Any:
        """A search of ``_engine`` for any number of sentences, with an ensemble and rules."""
        module = loading.library()
        return module.block_search(
            acceptance=module.Acceptance(**self.acceptance),
            proposals=module.Proposals(
                n_heads=self.n_heads,
                confidence=self.confidence,
                by_time=self.by_time,
                window=loading.bounded(self.window),
                drafts=module.Drafts(**self.drafts),
            ),
            capacity=module.ALL_STEPS,
            models=models,
            rules=rules,
        )


class JacobiOptions(NamedTuple):
    """Options of Jacobi decoding.

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

    def search(self, models: list[Any], rules: Any) -> Any:
        """A search of ``_engine`` for any number of sentences, with an ensemble and rules."""
        module = loading.library()
        return module.jacobi_search(
            block_size=loading.bounded(self.block_size),
            ends_inside_blocks=self.ends_inside_blocks,
            waits_behind_eos=self.waits_behind_eos,
            drafts=module.Drafts(**self.drafts),
            capacity=module.ALL_STEPS,
            models=models,
            rules=rules,
        )


class BeamOptions(NamedTuple):
    """Options of beam search, the arguments of ``_engine.BeamOptions``.

    Attributes:
        width: the maximum number of candidates of a beam.
        threshold: of log-probabilities, see ``--prune-threshold``.
        n_per_entry: the maximum number of extensions of a candidate; ``None`` for no limit.
        lets_wait: see ``--finalize``.
        sampling: the arguments of ``_engine.Sampling``; ``None`` without sampling.
    """

    width: int
    threshold: float
    n_per_entry: Optional[int]
    lets_wait: bool
    sampling: Optional[Sequence[float]] = None

    def search(self, models: list[Any], rules: Any) -> Any:
        """A search of ``_engine`` for any number of sentences, with an ensemble and rules."""
        module = loading.library()
        return module.BeamSearch(
            options=module.BeamOptions(
                width=self.width,
                threshold=self.threshold,
                n_per_entry=loading.bounded(self.n_per_entry),
                lets_wait=self.lets_wait,
                sampling=None if self.sampling is None else module.Sampling(*self.sampling),
            ),
            models=models,
            rules=rules,
        )


class PairOptions(NamedTuple):
    """Options of double-token decoding, the arguments of ``_engine.PairOptions``.

    Attributes:
        width: W, the maximum number of hypotheses of a beam.
        right_bos: the right token of the pair before the first step.
    """

    width: int
    right_bos: int

    def search(self, models: list[Any], rules: Any) -> Any:
        """A search of ``_engine`` for any number of sentences, with an ensemble and rules."""
        module = loading.library()
        options = module.PairOptions(self.width, self.right_bos, capacity=module.ALL_STEPS)
        return module.PairSearch(options=options, models=models, rules=rules)


SearchOptions = Union[BlockOptions, JacobiOptions, BeamOptions, PairOptions]


class Output(NamedTuple):
    """A hypothesis.

    Attributes:
        tokens: int64 ``[m]``, ending in EOS.
        positional_scores: fp32 ``[m]``, natural logarithms.
        score: the score of the hypothesis.
    """

    tokens: np.ndarray
    positional_scores: np.ndarray
    score: float


# The tokens int64 [m] of a hypothesis, their log-probabilities fp32 [m], and in beams their sum.
RawHypothesis = tuple[np.ndarray, np.ndarray, float]


@dataclass(eq=False)
class Recipe:
    """All settings that determine the outputs. Sentences with the same recipe share batches.

    Attributes:
        models: the ``_engine.Model`` objects of the ensemble.
        rules: the rules for lengths and scores.
        options: the search and its options.
        temperature: the divisor of logits.
        bos: the decoder's first input token.
        prefix: forced first tokens of the output.
    """

    models: list[Any]
    rules: SearchRules
    options: SearchOptions
    temperature: float
    bos: int
    prefix: tuple[int, ...] = ()

    def new_search(self) -> Any:
        """Create a search without sentences."""
        return self.options.search(self.models, self.rules.compiled(self.temperature))

    @cached_property
    def search(self) -> Any:
        """A search without sentences, for ``_engine.Service``."""
        return self.new_search()

    @cached_property
    def _idle(self) -> "deque[Any]":
        """Searches for single sentences that are not in use by a thread."""
        return deque()

    @property
    def verifies_drafts(self) -> bool:
        """Return True if drafts can be verified without changing the output."""
        options = self.options
        return isinstance(options, BlockOptions) and options.is_exact

    def decoded(
        self, tokens: np.ndarray, n_threads: int, draft: Optional[np.ndarray] = None
    ) -> list[Output]:
        """Decode one sentence in the calling thread.

        Args:
            tokens: the source tokens, int64 ``[n]`` with EOS.
            n_threads: the maximum number of the engine's threads to use.
            draft: tokens of earlier translations, int64 ``[D]``.

        Returns:
            the outputs, best first.

        Raises:
            IndexError: for tokens that are not in the dictionary.
            ValueError: if --min-len exceeds the maximum length.
        """
        try:
            search = self._idle.pop()
        except IndexError:
            search = self.new_search()
        max_len = self.rules.max_len(len(tokens))
        found = search.decode(tokens[None], self.bos, max_len, self.forced, draft, n_threads)
        # Not reached after an error: such a search is not reused.
        self._idle.append(search)
        (hypotheses,) = hypotheses_of(found)
        return self.outputs(hypotheses)

    @cached_property
    def forced(self) -> Optional[np.ndarray]:
        """The prefix, int64 ``[1, P]``; ``None`` if it is empty."""
        return np.array([self.prefix], dtype=np.int64) if self.prefix else None

    def outputs(self, hypotheses: list[RawHypothesis]) -> list[Output]:
        """Score the hypotheses of a sentence, and sort them, best first."""
        found = []
        for tokens, scores, total in hypotheses:
            if isinstance(self.options, BeamOptions):
                score = self.rules.normalized(total, len(tokens))
            else:
                score = self.rules.score(scores.tolist())
            found.append(Output(tokens, scores, float(np.float32(score))))
        return sorted(found, key=lambda output: output.score, reverse=True)


def outputs_of(outputs: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The tokens int64 ``[m]`` and log-probabilities fp32 ``[m]`` of each output of the engine."""
    ends = np.cumsum(outputs.lengths)[:-1]
    return zip(np.split(outputs.tokens, ends), np.split(outputs.scores, ends))


def hypotheses_of(collected: Any) -> Iterator[list[RawHypothesis]]:
    """The hypotheses of each sentence that the engine has returned."""
    parts = zip(outputs_of(collected.outputs), collected.totals.tolist())
    hypotheses = ((tokens, scores, total) for (tokens, scores), total in parts)
    for n in collected.n_hypotheses:
        yield list(islice(hypotheses, n))
