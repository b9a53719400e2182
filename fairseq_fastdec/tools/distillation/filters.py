"""Leaves out translations that are not worth learning from."""

from dataclasses import dataclass
from typing import Optional

EMPTY, TOO_LONG = "empty", "too long"


@dataclass(frozen=True)
class Filters:
    """Rules, each of which is off unless it was asked for.

    Attributes:
        drop_empty: leave out translations without a token.
        longer_a, longer_b: leave out translations of more than a·x + b tokens, where x is the
            number of source tokens: models that go in circles. ``None`` for both is off; one of
            them alone means 0 for the other.
    """

    drop_empty: bool = False
    longer_a: Optional[float] = None
    longer_b: Optional[float] = None

    def reason(self, source: str, translation: str) -> Optional[str]:
        """Why a pair is left out, or ``None`` if it is kept.

        Args:
            source, translation: tokens separated by spaces.
        """
        return self.reason_of_lengths(len(source.split()), len(translation.split()))

    def reason_of_lengths(self, n_source_tokens: int, n_tokens: int) -> Optional[str]:
        """The same, of a source and a translation of so many tokens."""
        if self.drop_empty and n_tokens == 0:
            return EMPTY
        if (self.longer_a, self.longer_b) != (None, None):
            most = (self.longer_a or 0) * n_source_tokens + (self.longer_b or 0)
            if n_tokens > most:
                return TOO_LONG
        return None
