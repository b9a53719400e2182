"""Compiled searches, their results, and decoding of single sentences.

This module imports neither torch nor fairseq.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, Optional

import numpy as np

from .kernels import loading
from .rules import SearchRules

# Phrases, as lists of tokens.
Phrases = list[list[int]]


class Restrictions(NamedTuple):
    """The phrases that an output has to contain, and those that it may not.

    Attributes:
        constraints, forbidden: phrases of the target language.
    """

    constraints: Phrases = []
    forbidden: Phrases = []


NO_RESTRICTIONS = Restrictions()


def check_constraints(phrases: Phrases, n_forced: int, max_len: int) -> None:
    """
    Args:
        phrases: those that an output has to contain; n_forced: the number of its forced tokens.
        max_len: the maximum number of its tokens, without EOS.

    Raises:
        ValueError: if there is no room for them.
    """
    n_tokens = sum(map(len, phrases))
    if n_tokens > max_len - n_forced:
        raise ValueError(
            f"constraints: {n_tokens} tokens, and the output has room for {max_len - n_forced}; "
            "remove some, or raise --max-len-b"
        )


def with_phrases(
    types: Optional[list[np.ndarray]], phrases: Sequence[Phrases]
) -> Optional[list[np.ndarray]]:
    """The target types of a shortlist and those of each sentence's phrases; ``None`` for all.

    Args:
        types: int64 ``[K]`` for each sentence, sorted, as the result.
    """
    if types is None:
        return None
    tokens = ([token for phrase in own for token in phrase] for own in phrases)
    return [np.union1d(own, added).astype(np.int64) for own, added in zip(types, tokens)]


class SearchOptions(NamedTuple):
    """A compiled search and its options.

    Attributes:
        kind: ``blocks`` (greedy, blockwise and lookahead decoding), ``jacobi``, ``beam`` or
            ``pairs``.
        options: named as on the command line where they are options of commands; see ``each`` in
            ``blocks.h``, ``jacobi.h``, ``beams.h`` and ``pairs.h`` of ``engine/cpp``. ``None`` is
            no limit.
    """

    kind: str
    options: dict[str, Any]

    def search(self, models: list[Any], rules: Any) -> Any:
        """A search without sentences, with an ensemble and rules of ``_engine``."""
        return loading.library().Search(self.kind, models, rules, **self.options)

    @property
    def n_best(self) -> int:
        """The maximum number of hypotheses of a sentence."""
        return self.options.get("beam", 1)


class SourceSentence(NamedTuple):
    """The source of a sentence, and what the caller wants of its outputs.

    Attributes:
        tokens: the source tokens, int64 ``[n]`` with EOS.
        draft: tokens of earlier translations, int64 ``[D]``; ``None`` without drafts.
        return_attention: whether the outputs need their attention; only if :attr:`Recipe.aligns`.
        restrictions: what the output has to contain, and what it may not.
    """

    tokens: np.ndarray
    draft: Optional[np.ndarray] = None
    return_attention: bool = False
    restrictions: Restrictions = NO_RESTRICTIONS


class Output(NamedTuple):
    """A hypothesis.

    Attributes:
        tokens: int64 ``[m]``, ending in EOS.
        positional_scores: fp32 ``[m]``, natural logarithms.
        score: the score of the hypothesis, rounded to fp32; before :func:`ranked`, the sum of its
            log-probabilities.
        attention: fp32 ``[m, n]``, to the n tokens or frames of the source when each token was
            chosen, padding left out; ``None`` unless it was asked for.
    """

    tokens: np.ndarray
    positional_scores: np.ndarray
    score: float
    attention: Optional[np.ndarray] = None


class Result(NamedTuple):
    """A sentence that is done.

    Attributes:
        id: its number.
        hypotheses: best first, :class:`Output` objects or fairseq's dicts.
        steps: the number of decoder invocations for it.
        expansions: of beams: the number of rows over all of them.
        blocks: without beams: the number of tokens kept in each step.
        error: why there are no hypotheses.
    """

    id: int
    hypotheses: list[Any]
    steps: int
    expansions: int = 0
    blocks: list[int] = []
    error: str = ""


def results_of(found: Any) -> Iterator[Result]:
    """Read ``_engine.Results``; the hypotheses are in any order."""
    tokens, scores, end = found.tokens, found.scores, 0
    attention, attention_end = found.attention, 0
    of_hypotheses = zip(found.lengths, found.totals, found.n_attended)
    columns = (found.ids, found.n_hypotheses, found.steps, found.expansions, found.blocks)
    for number, n, steps, expansions, blocks, error in zip(*columns, found.errors):
        outputs = []
        for length, total, n_attended in islice(of_hypotheses, n):
            start, end = end, end + length
            attended = None
            if n_attended:
                first, attention_end = attention_end, attention_end + length * n_attended
                attended = attention[first:attention_end].reshape(length, n_attended)
            outputs.append(Output(tokens[start:end], scores[start:end], total, attended))
        yield Result(number, outputs, steps, expansions, blocks, error)


def ranked(outputs: list[Output], rules: SearchRules, n_best: int) -> list[Output]:
    """Score the hypotheses of a sentence, and return the ``n_best`` best ones, best first."""
    scored = []
    for tokens, scores, total, attention in outputs:
        score = float(np.float32(rules.normalized(total, len(tokens))))
        scored.append(Output(tokens, scores, score, attention))
    return sorted(scored, key=lambda own: own.score, reverse=True)[:n_best]


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
        shortlist: the target types of each sentence, an object with ``types_of``; ``None`` for all.
    """

    models: list[Any]
    rules: SearchRules
    options: SearchOptions
    temperature: float
    bos: int
    prefix: tuple[int, ...] = ()
    shortlist: Optional[Any] = None

    def beginning(self, bos: int, prefix: tuple[int, ...]) -> "Recipe":
        """A recipe with other first tokens, whose sentences share batches with this one's."""
        other = replace(self, bos=bos, prefix=prefix)
        vars(other).update(search=self.search, scoring=self.scoring, _idle=self._idle)
        return other

    @cached_property
    def scoring(self) -> "Recipe":
        """A recipe without rules, to score outputs that :meth:`of_target` forces."""
        own = self.rules
        rules = SearchRules(own.pad, own.unk, own.eos, max_positions=own.max_positions, min_len=0)
        return Recipe(self.models, rules, SearchOptions("blocks", {}), 1.0, self.bos)

    def of_target(self, bos: int, target: tuple[int, ...]) -> "Recipe":
        """A recipe with one possible output, which is scored in one decoder invocation.

        Args:
            target: its tokens without EOS, fewer than ``rules.max_positions``.
        """
        # EOS follows, since it is the only token at the maximum length.
        other = self.beginning(bos, target)
        other.rules = replace(self.rules, max_len_b=len(target))
        return other

    def new_search(self) -> Any:
        """Create a search without sentences."""
        return self.options.search(self.models, self.rules.compiled(self.temperature))

    @cached_property
    def search(self) -> Any:
        """A search without sentences; those of a service are like it."""
        return self.new_search()

    @cached_property
    def _idle(self) -> "deque[Any]":
        """Searches for single sentences that are not in use by a thread."""
        return deque()

    @property
    def aligns(self) -> bool:
        """Whether the models have attention that aligns subwords."""
        return all(model.aligns for model in self.models)

    @property
    def takes_constraints(self) -> bool:
        """Whether phrases can be prescribed."""
        return self.search.takes_constraints

    @property
    def forbids_phrases(self) -> bool:
        """Whether phrases can be forbidden."""
        return self.search.forbids_phrases

    @property
    def verifies_drafts(self) -> bool:
        """Return True if drafts can be verified without changing the output."""
        return self.search.verifies_drafts

    def admit(self, search: Any, number: int, sentence: SourceSentence, **service: Any) -> bool:
        """Add a sentence to a search, or with the arguments of a service to its queue.

        Args:
            number: the id of the result.
            service: ``service``, ``mailbox`` and ``most_waiting``.

        Returns:
            whether the queue has room

        Raises:
            IndexError: for tokens that are not in the dictionary.
            ValueError: if --min-len exceeds the maximum length.
        """
        sources = sentence.tokens[None]
        limits = self.rules.limits([sources.size], [len(self.prefix)])
        types = None if self.shortlist is None else self.shortlist.types_of(sources, self._forced)
        constraints, forbidden = ([own] if own else None for own in sentence.restrictions)
        if constraints:
            types = with_phrases(types, constraints)
        return search.admit(
            np.array([number]),
            self.bos,
            limits.max_lens,
            limits.waived,
            sources,
            prefix=self._forced,
            types=types,
            drafts=None if sentence.draft is None else [sentence.draft],
            return_attention=sentence.return_attention,
            constraints=constraints,
            forbidden=forbidden,
            **service,
        )

    def decoded(self, sentence: SourceSentence, n_threads: int) -> list[Output]:
        """Decode one sentence in the calling thread.

        Args:
            n_threads: the maximum number of the engine's threads to use.

        Returns:
            the outputs, best first.
        """
        try:
            search = self._idle.pop()
        except IndexError:
            search = self.new_search()
        self.admit(search, 0, sentence)
        search.advance(loading.library().ALL_STEPS, n_threads)
        (result,) = results_of(search.finished())
        # Not reached after an error: such a search is not reused.
        self._idle.append(search)
        return self.ranked(result)

    @cached_property
    def _forced(self) -> Optional[np.ndarray]:
        """The prefix, int64 ``[1, P]``; ``None`` if it is empty."""
        return np.array([self.prefix], dtype=np.int64) if self.prefix else None

    def ranked(self, result: Result) -> list[Output]:
        """The outputs of a sentence, best first."""
        return ranked(result.hypotheses, self.rules, self.options.n_best)
