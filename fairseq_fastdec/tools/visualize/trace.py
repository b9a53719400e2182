"""The beliefs of a decoder, step by step: the data behind DDGviz."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Optional, TypeVar

from torch import Tensor

Token = TypeVar("Token", int, str)


@dataclass
class TraceStep(Generic[Token]):
    """One decoder invocation, as one sentence saw it.

    Attributes:
        first: the 0-based position of the first answer.
        drafts: the tokens fed at positions ``first``, ``first + 1``, ...: what was believed
            before the step. One fewer than the answers.
        answers: the model's best token for each position from ``first`` on, given the settled
            tokens before ``first`` and the drafts.
        probabilities: of the answers, 0 to 1.
        settled: how many of the answers are final from this step on.
    """

    first: int
    drafts: list[Token]
    answers: list[Token]
    probabilities: list[float]
    settled: int


@dataclass
class SentenceTrace(Generic[Token]):
    """All steps of one sentence.

    Tokens are the dictionary's numbers as generators know them, or after :meth:`named` its
    strings, which is what the rest of this package shows.

    Attributes:
        id: the sentence's number in its file, from 0.
        source: EOS included.
        tokens: the output, EOS included.
        method: the ``--decoding`` it came from. The drafts of ``blockwise`` are the heads'
            proposals; those of the other methods are guesses or the answers of the step before.
        subwords: how they are written, see :class:`~.subwords.Spelling`.
        blocks: the numbers of tokens that were accepted at once, as ``--decoding-stats`` counts
            them; empty for methods without blocks. The first token of a block is p_1's own answer,
            which is settled one step before the block that it begins is accepted.
    """

    id: int
    source: list[Token]
    tokens: list[Token]
    steps: list[TraceStep[Token]] = field(default_factory=list)
    method: str = "jacobi"
    subwords: str = "show"
    blocks: list[int] = field(default_factory=list)

    def named(
        self: "SentenceTrace[int]",
        source_symbol: Callable[[int], str],
        target_symbol: Callable[[int], str],
        subwords: str = "show",
    ) -> "SentenceTrace[str]":
        """The same trace with strings for numbers, without what lies behind the output's end.

        Args:
            source_symbol: a token's string on the source side, for instance
                ``task.source_dictionary.__getitem__``; target_symbol: on the target side.
            subwords: how to write them.
        """

        def names(tokens: Sequence[int]) -> list[str]:
            return [target_symbol(token) for token in tokens]

        def named(step: TraceStep) -> TraceStep[str]:
            # Before the end is known, windows reach as far as --max-len-b: mostly nothing.
            n = max(1, len(self.tokens) - step.first)
            return TraceStep(
                step.first,
                names(step.drafts[: n - 1]),
                names(step.answers[:n]),
                step.probabilities[:n],
                min(step.settled, n),
            )

        steps = [named(step) for step in self.steps]
        source = [source_symbol(token) for token in self.source]
        return SentenceTrace(
            self.id, source, names(self.tokens), steps, self.method, subwords, self.blocks
        )


class Recorder:
    """Listens to a generator: ``generator.observer = Recorder()``.

    Generators call it once for each decoder invocation, for all rows of the batch at once.
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
            sentences: int64 ``[R]``, each row's place in the batch.
            first: int64 ``[R]``; drafts: int64 ``[R, T - 1]``; answers: int64 ``[R, T]``.
            scores: float32 ``[R, T]``, natural logarithms of the answers' probabilities.
            settled: int64 ``[R]``.
            widths: int64 ``[R]``, how many of the T answers are the row's own (default: all).
        """
        n_answers = [answers.size(1)] * len(sentences) if widths is None else widths.tolist()
        columns = (sentences, first, drafts, answers, scores.exp(), settled)
        rows = zip(*(column.tolist() for column in columns), n_answers)
        for sentence, start, draft, answer, probability, n_settled, n in rows:
            step = TraceStep(start, draft[: n - 1], answer[:n], probability[:n], min(n_settled, n))
            self._steps.setdefault(sentence, []).append(step)

    def take(self, sentence: int) -> list[TraceStep[int]]:
        """The steps of one sentence of the last batch, which the recorder then forgets."""
        return self._steps.pop(sentence, [])
