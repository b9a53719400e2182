"""Formats the lines of the output: text, columns or JSON.

Lines that cannot be translated are also written or counted.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional, Union

from ..translating.results import Problem
from .chunks import Chunk, Translated
from .filters import Filters

PLAIN, TSV, JSONL = "plain", "tsv", "jsonl"
FORMATS = (PLAIN, TSV, JSONL)
KEEP_SOURCE, EMPTY, STOP = "keep-source", "empty", "stop"
ON_ERROR = (STOP, KEEP_SOURCE, EMPTY)
TRANSLATED = "translated"
NOT_UTF8 = Problem(
    "not UTF-8", "the line is not valid UTF-8; convert the file, for example with iconv"
)


class TextHypothesis(NamedTuple):
    """One translation of a line.

    Attributes:
        text: detokenised.
        score: in base 2, as printed by fairseq.
        n_tokens: subwords, without EOS.
    """

    text: str
    score: float
    n_tokens: int


class Outcome(NamedTuple):
    """The translations of a line.

    Attributes:
        n_source_tokens: subwords, without EOS.
        hypotheses: best first, ``--nbest`` of them; one for an empty line.
    """

    n_source_tokens: int
    hypotheses: list[TextHypothesis]


LineResult = Union[Outcome, Problem]
# A model would translate an empty line to some text.
EMPTY_LINE = Outcome(0, [TextHypothesis("", 0.0, 0)])


class UntranslatedLine(ValueError):
    """Raised with ``--on-error stop`` for a line that cannot be translated.

    Attributes:
        number: among all lines of the input, from 0.
    """

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(number, problem)
        self.number = number
        self.problem = problem

    def __str__(self) -> str:
        return (
            f"{self.problem}; with --on-error keep-source or --on-error empty the same command "
            "continues, and counts such lines"
        )


@dataclass(frozen=True)
class OutputRules:
    """The format of the output and the lines to leave out.

    Attributes:
        format: ``plain``, one line of text per input line; ``tsv``, one line per hypothesis: the
            number of the source line from 1, the score, the translation; ``jsonl``, one object per
            line.
        with_source: whether ``tsv`` and ``jsonl`` have the source.
        on_error: how to handle a line that cannot be translated.
        filters: the translations to leave out of ``tsv`` and ``jsonl``.
    """

    format: str = PLAIN
    with_source: bool = False
    on_error: str = STOP
    filters: Filters = Filters()

    def render(self, chunk: Chunk, results: Sequence[LineResult]) -> Translated:
        """The output of a chunk.

        Args:
            results: one for each line.

        Raises:
            UntranslatedLine: with ``--on-error stop``, for the first line without a translation.
        """
        counts: Counter[str] = Counter()
        written: list[bytes] = []
        for number, (source, result) in enumerate(zip(chunk.lines, results), chunk.first):
            if isinstance(result, Problem):
                if self.on_error == STOP:
                    raise UntranslatedLine(number, str(result))
                counts[result.kind] += 1
                written.append(self._untranslated(number, source, result))
                continue
            reason = self._reason(result)
            counts[reason or TRANSLATED] += 1
            if reason is None:
                written.append(self._translated(number, source, result))
        return Translated(b"".join(written), dict(counts))

    def _reason(self, outcome: Outcome) -> Optional[str]:
        """The reason why a line is left out, from its best hypothesis."""
        reason = self.filters.reason_of_lengths(
            outcome.n_source_tokens, outcome.hypotheses[0].n_tokens
        )
        return None if reason is None else f"left out: {reason}"

    def _translated(self, number: int, source: bytes, outcome: Outcome) -> bytes:
        if self.format == PLAIN:
            return _in_one_line(outcome.hypotheses[0].text).encode("utf-8") + b"\n"
        if self.format == TSV:
            return b"".join(
                self._columns(number, source, f"{hypo.score:.4f}", _in_one_column(hypo.text))
                for hypo in outcome.hypotheses
            )
        hypotheses = [
            {"text": hypo.text, "score": round(hypo.score, 4)} for hypo in outcome.hypotheses
        ]
        return self._object(number, source, hypotheses=hypotheses)

    def _untranslated(self, number: int, source: bytes, problem: Problem) -> bytes:
        kept = source if self.on_error == KEEP_SOURCE else b""
        if self.format == PLAIN:
            return kept + b"\n"
        if self.format == TSV:
            text = _in_one_column(kept.decode("utf-8", "surrogateescape"))
            return self._columns(number, source, "", text)
        hypotheses = [{"text": _readable(kept)}] if self.on_error == KEEP_SOURCE else []
        return self._object(number, source, hypotheses=hypotheses, error=problem.kind)

    def _columns(self, number: int, source: bytes, score: str, text: str) -> bytes:
        columns = [str(number + 1), score]
        if self.with_source:
            columns.append(_in_one_column(source.decode("utf-8", "surrogateescape")))
        return "\t".join([*columns, text]).encode("utf-8", "surrogateescape") + b"\n"

    def _object(self, number: int, source: bytes, **rest: object) -> bytes:
        with_source = {"source": _readable(source)} if self.with_source else {}
        line = {"line": number + 1, **with_source, **rest}
        return json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n"


def _in_one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _in_one_column(text: str) -> str:
    return _in_one_line(text).replace("\t", " ")


def _readable(source: bytes) -> str:
    """Text for JSON; invalid UTF-8 is replaced by marks."""
    return source.decode("utf-8", "replace")
