"""The layout of the columns and rows of a picture, with long sentences in several panels.

All lengths are in inches. A column is as wide as its label, so that labels are horizontal and
readable in every script.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

from . import graph
from .trace import SentenceTrace

PANEL_WIDTH = 8.9  # 1,400 pixels with margins
COLUMN_WIDTH = 0.46
COLUMN_GAP = 0.12
MAX_LABEL = 24


@dataclass(frozen=True)
class Panel:
    """A range of consecutive tokens and the steps that affect them.

    Attributes:
        start, end: the positions from ``start`` to before ``end``.
        edges: the x of each column's left edge, and of the last one's right edge, ``[n + 1]``; the
            first is 0.
        rows: the steps shown, ascending; other steps are omitted.
    """

    start: int
    end: int
    edges: list[float]
    rows: list[int]

    def center(self, position: int) -> float:
        """The x of a token's column."""
        column = position - self.start
        return (self.edges[column] + self.edges[column + 1]) / 2

    @property
    def width(self) -> float:
        return self.edges[-1]


def panels(
    trace: SentenceTrace, widths: Sequence[float], panel_width: float = PANEL_WIDTH
) -> list[Panel]:
    """Split a sentence into panels of at most ``panel_width``.

    Args:
        widths: of the labels, one for each output token.
    """
    columns = [max(COLUMN_WIDTH, width + COLUMN_GAP) for width in widths]
    found, settled = graph.decoded(trace), graph.frontiers(trace)
    result = []
    for start, end in _breaks(columns, panel_width):
        edges = [0.0]
        for width in columns[start:end]:
            edges.append(edges[-1] + width)
        result.append(Panel(start, end, edges, _rows(start, end, found, settled)))
    return result


def _breaks(columns: Sequence[float], panel_width: float) -> list[tuple[int, int]]:
    n_panels = max(1, -(-sum(columns) // panel_width))
    # Balance the widths of panels, to avoid a short last one.
    target = sum(columns) / n_panels
    breaks, start, width = [], 0, 0.0
    for position, column in enumerate(columns):
        full = width + column > panel_width or width >= target
        if full and position > start:
            breaks.append((start, position))
            start, width = position, 0.0
        width += column
    breaks.append((start, len(columns)))
    return breaks


def _rows(
    start: int, end: int, found: Sequence[Optional[graph.Decoded]], settled: Sequence[int]
) -> list[int]:
    """The steps that find one of the tokens, or in which the frontier passes them."""
    rows = {token.step for token in found[start:end] if token is not None}
    before = [0, *settled[:-1]]
    rows.update(n for n in range(len(settled)) if before[n] < end and settled[n] > start)
    return sorted(rows)


def shortened(text: str, fits: Callable[[str], bool]) -> str:
    """The text, shortened with an ellipsis if it does not fit."""
    if fits(text):
        return text
    n = len(text) - 1
    while n > 0 and not fits(text[:n] + "…"):
        n -= 1
    return text[:n] + "…"


def label(token: str) -> str:
    """A column's label: the token, shortened if it is very long."""
    return shortened(token, lambda text: len(text) <= MAX_LABEL)
