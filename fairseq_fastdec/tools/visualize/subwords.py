"""The spelling of subwords in pictures, for people who read words.

Two conventions are known: ``Rah@@ men@@ vorlage`` (subword-nmt, fastBPE) and ``▁Rahmen vorlage``
(SentencePiece). Only what is shown changes: two tokens that look alike stay two tokens.
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
        how: ``show`` leaves the dictionary's strings as they are, ``mark`` writes ``·`` where a
            word goes on, ``join`` writes no marks, and whole words beside their pieces.
        prefixed: whether words begin with ``▁``, instead of going on after ``@@``.
    """

    how: str
    prefixed: bool

    @classmethod
    def from_trace(cls, trace: SentenceTrace[str]) -> "Spelling":
        """The spelling that the trace asks for, by the convention of its own tokens."""
        prefixed = any(token.startswith(BEGINS) for token in [*trace.source, *trace.tokens])
        return cls(trace.subwords, prefixed)

    def label(self, token: str) -> str:
        """One token on its own."""
        if self.how == "show" or token == END:
            return token
        seam = SEAM if self.how == "mark" else ""
        if self.prefixed:
            return token[len(BEGINS) :] if token.startswith(BEGINS) else seam + token
        return token[: -len(GOES_ON)] + seam if token.endswith(GOES_ON) else token

    def labels(self, tokens: Sequence[str]) -> dict[str, str]:
        """The labels of those tokens that are written otherwise than the dictionary has them."""
        found = {token: self.label(token) for token in tokens}
        return {token: label for token, label in found.items() if label != token}

    def text(self, tokens: Sequence[str]) -> str:
        """Several tokens in a line; words in one piece unless subwords are shown as they are."""
        if self.how == "show":
            return " ".join(tokens)
        return " ".join(word for _, _, word in self._words(tokens))

    def joined(self, tokens: Sequence[str]) -> list[tuple[int, int, str]]:
        """The words of several pieces to write beside these: first piece, behind the last, word."""
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
