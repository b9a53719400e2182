"""Filters that leave out bad translations."""

import argparse
from dataclasses import dataclass
from typing import Any, Optional

EMPTY, TOO_LONG = "empty", "too long"


@dataclass(frozen=True)
class Filters:
    """Rules, each of which is off by default.

    Attributes:
        drop_empty: leave out translations without a token.
        longer_a, longer_b: leave out translations of more than a·x + b tokens, where x is the
            number of source tokens, such as repetitive output. ``None`` for both is off; if one is
            given, the other is 0.
    """

    drop_empty: bool = False
    longer_a: Optional[float] = None
    longer_b: Optional[float] = None

    @classmethod
    def of(cls, args: argparse.Namespace) -> "Filters":
        """The rules of the options of :func:`add_filter_options`."""
        return cls(args.drop_empty, args.drop_longer_a, args.drop_longer_b)

    def reason(self, source: str, translation: str) -> Optional[str]:
        """The reason why a pair is left out; ``None`` if it is kept.

        Args:
            source, translation: tokens separated by spaces.
        """
        return self.reason_of_lengths(len(source.split()), len(translation.split()))

    def reason_of_lengths(self, n_source_tokens: int, n_tokens: int) -> Optional[str]:
        """Same as :meth:`reason`, from the numbers of tokens."""
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
        units: what is left out, in the plural, for the help.
        excepted: a case in which the options are not possible, for the help.
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
