"""Traces of decoding, step by step: the data for DDGviz."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Optional, TypeVar

from torch import Tensor

from ...decoding.statistics import Statistics
from ...translating.registry import METHODS, generator_class

Token = TypeVar("Token", int, str)


@dataclass
class TraceStep(Generic[Token]):
    """One decoder invocation for one sentence.

    Attributes:
        first: the 0-based position of the first answer.
        drafts: the tokens fed at positions ``first``, ``first + 1``, ..., one fewer than the
            answers.
        answers: the model's best token for each position from ``first``, given the settled tokens
            before ``first`` and the drafts.
        probabilities: of the answers, 0 to 1.
        settled: the number of answers that are final from this step on.
    """

    first: int
    drafts: list[Token]
    answers: list[Token]
    probabilities: list[float]
    settled: int

    def shortened(self, n: int) -> "TraceStep[Token]":
        """The step with its first n answers."""
        return TraceStep(
            self.first,
            self.drafts[: n - 1],
            self.answers[:n],
            self.probabilities[:n],
            min(self.settled, n),
        )


@dataclass
class SentenceTrace(Generic[Token]):
    """All steps of one sentence.

    Tokens are dictionary indices, or strings after :meth:`named`, as the rest of this package
    expects.

    Attributes:
        id: the sentence's number in its file, from 0.
        source: EOS included.
        tokens: the output, EOS included.
        method: the value of ``--decoding``. The drafts of ``blockwise`` are the heads' proposals;
            those of other methods are guesses or the answers of the previous step.
        subwords: the spelling of subwords, see :class:`~.subwords.Spelling`.
        blocks: the numbers of tokens accepted per step, as in ``--decoding-stats``; empty for
            methods without blocks. The first token of a block is p_1's answer, which is settled one
            step before its block is accepted.
    """

    id: int
    source: list[Token]
    tokens: list[Token]
    steps: list[TraceStep[Token]] = field(default_factory=list)
    method: str = "jacobi"
    subwords: str = "show"
    blocks: list[int] = field(default_factory=list)

    @property
    def block_name(self) -> str:
        """The name of the mean of ``blocks``."""
        is_known = self.method in METHODS
        return generator_class(self.method).block_name if is_known else Statistics.block_name

    def named(
        self: "SentenceTrace[int]",
        source_symbol: Callable[[int], str],
        target_symbol: Callable[[int], str],
        subwords: str = "show",
    ) -> "SentenceTrace[str]":
        """Convert tokens to strings, and drop everything after the end of the output.

        Args:
            source_symbol: returns the string of a source token, such as
                ``task.source_dictionary.__getitem__``; target_symbol: likewise for the target.
            subwords: the spelling of subwords.
        """

        def names(tokens: Sequence[int]) -> list[str]:
            return [target_symbol(token) for token in tokens]

        def named(step: TraceStep) -> TraceStep[str]:
            # Before the end is known, windows can extend to --max-len-b.
            step = step.shortened(max(1, len(self.tokens) - step.first))
            return replace(step, drafts=names(step.drafts), answers=names(step.answers))

        steps = [named(step) for step in self.steps]
        source = [source_symbol(token) for token in self.source]
        return SentenceTrace(
            self.id, source, names(self.tokens), steps, self.method, subwords, self.blocks
        )


class Recorder:
    """Records the steps of a generator: ``generator.observer = Recorder()``.

    It is called once per decoder invocation, for all rows of the batch.
    """

    def __init__(self) -> None:
        self._steps: dict[int, list[TraceStep[int]]] = {}

    def __call__(
        self,
        sentences: Tensor,
        first: Tensor,
        drafts: Tensor,
        answers: Tensor,
        scores: Tensor,
        settled: Tensor,
        widths: Optional[Tensor] = None,
    ) -> None:
        """
        Args:
            sentences: int64 ``[R]``, the sentence of each row in the batch.
            first: int64 ``[R]``; drafts: int64 ``[R, T - 1]``; answers: int64 ``[R, T]``.
            scores: float32 ``[R, T]``, natural logarithms of the answers' probabilities.
            settled: int64 ``[R]``.
            widths: int64 ``[R]``, the number of answers that each row needed (default: T).
        """
        n_answers = [answers.size(1)] * len(sentences) if widths is None else widths.tolist()
        columns = (sentences, first, drafts, answers, scores.exp(), settled)
        rows = zip(*(column.tolist() for column in columns), n_answers)
        for sentence, start, draft, answer, probability, n_settled, n in rows:
            step = TraceStep(start, draft, answer, probability, n_settled).shortened(n)
            self._steps.setdefault(sentence, []).append(step)

    def take(self, sentence: int) -> list[TraceStep[int]]:
        """Remove and return the steps of one sentence of the last batch."""
        return self._steps.pop(sentence, [])
