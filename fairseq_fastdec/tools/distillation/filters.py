"""Leaves out translations that are not worth learning from."""

import argparse
from dataclasses import dataclass
from typing import Any, Optional

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

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Filters":
        """The rules that :func:`add_filter_options` has read."""
        return cls(args.drop_empty, args.drop_longer_a, args.drop_longer_b)

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


def add_filter_options(group: Any, units: str, excepted: str = "") -> None:
    """Add the options of :class:`Filters` to a group of a command's parser.

    Args:
        units: the things that are left out, in the plural.
        excepted: where the options are not possible, for their help.
    """
    group.add_argument(
        "--drop-empty", action="store_true",
        help=f"leave out {units} with empty translations" + (f" ({excepted})" if excepted else ""),
    )  # fmt: skip
    group.add_argument(
        "--drop-longer-a", type=float, metavar="A",
        help=f"leave out {units} with translations of more than ax + b tokens, where x is the "
        f"number of source tokens ({excepted + '; ' if excepted else ''}default: keep them)",
    )  # fmt: skip
    group.add_argument("--drop-longer-b", type=float, metavar="B", help="see --drop-longer-a")
