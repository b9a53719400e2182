"""The spelling of subwords in pictures.

Two conventions are supported: ``Rah@@ men@@ vorlage`` (subword-nmt, fastBPE) and
``▁Rahmen vorlage`` (SentencePiece). Only labels change; tokens with the same label stay separate.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .trace import SentenceTrace

CHOICES = ("show", "mark", "join")
SEAM = "·"
GOES_ON, BEGINS = "@@", "▁"
END = "</s>"


@dataclass(frozen=True)
class Spelling:
    """The spelling of one sentence's tokens.

    Attributes:
        how: ``show`` keeps the dictionary's strings, ``mark`` writes ``·`` where a word continues,
            ``join`` writes no marks, and adds whole words next to their pieces.
        prefixed: whether words begin with ``▁``, instead of continuing after ``@@``.
    """

    how: str
    prefixed: bool

    @classmethod
    def from_trace(cls, trace: SentenceTrace[str]) -> "Spelling":
        """The spelling of a trace, with the convention found in its tokens."""
        prefixed = any(token.startswith(BEGINS) for token in [*trace.source, *trace.tokens])
        return cls(trace.subwords, prefixed)

    def label(self, token: str) -> str:
        """The label of a single token."""
        if self.how == "show" or token == END:
            return token
        seam = SEAM if self.how == "mark" else ""
        if self.prefixed:
            return token[len(BEGINS) :] if token.startswith(BEGINS) else seam + token
        return token[: -len(GOES_ON)] + seam if token.endswith(GOES_ON) else token

    def labels(self, tokens: Sequence[str]) -> dict[str, str]:
        """The labels that differ from the tokens in the dictionary."""
        found = {token: self.label(token) for token in tokens}
        return {token: label for token, label in found.items() if label != token}

    def text(self, tokens: Sequence[str]) -> str:
        """A line of tokens, with subwords joined unless ``how`` is ``show``."""
        if self.how == "show":
            return " ".join(tokens)
        return " ".join(word for _, _, word in self._words(tokens))

    def joined(self, tokens: Sequence[str]) -> list[tuple[int, int, str]]:
        """Words of several pieces, as triples of first piece, last piece + 1, and word."""
        if self.how != "join":
            return []
        return [(start, end, word) for start, end, word in self._words(tokens) if end - start > 1]

    def _words(self, tokens: Sequence[str]) -> list[tuple[int, int, str]]:
        words: list[tuple[int, int, str]] = []
        bare = Spelling("join", self.prefixed)
        for position, token in enumerate(tokens):
            if words and self._continues(tokens[position - 1], token):
                start, _, word = words[-1]
                words[-1] = (start, position + 1, word + bare.label(token))
            else:
                words.append((position, position + 1, bare.label(token)))
        return words

    def _continues(self, before: str, token: str) -> bool:
        if token == END:
            return False
        return not token.startswith(BEGINS) if self.prefixed else before.endswith(GOES_ON)
