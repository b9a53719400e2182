"""The picture of one sentence as PNG or SVG: the dependency graph above, the matrix below.

Santilli et al. (2023), Figures 4 and 6. Rows are decoder invocations, columns output tokens. The
module requires matplotlib, but no display.
"""

import textwrap
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

try:
    import matplotlib
except ImportError as error:
    raise ImportError(
        "pictures need matplotlib: pip install 'fastdec-runtime[viz]' (or pip install matplotlib); "
        "HTML and JSON do not need it"
    ) from error
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path as Curve

from . import fonts, graph, layout
from .graph import Cell
from .layout import Panel
from .subwords import Spelling
from .trace import SentenceTrace

DPI = 140
MAX_PIXELS = 30000
# Inches.
MARGIN, LEFT, TITLE_LINE = 0.3, 0.75, 0.2
ARC_BASE, ARC_PER_TOKEN, MAX_ARC = 0.16, 0.11, 1.1
LABEL_HEIGHT, WORD_HEIGHT, ROW, GAP_ROW, PANEL_GAP, MIN_WIDTH = 0.42, 0.22, 0.36, 0.2, 0.35, 6.5
# Points.
TITLE_SIZE, LABEL_SIZE, CELL_SIZE, SMALL_SIZE = 10, 8.5, 7.5, 6

SEQUENTIAL, PARALLEL, FAILED, INK, FAINT = "#4a7fb5", "#f2b134", "#b3261e", "#1b1b1b", "#8a8a8a"
Look = tuple[str, bool]  # a cell's kind, and whether its token was decoded in parallel
FILLS = {
    ("found", False): "#8fb8de",
    ("found", True): "#f7c95c",
    ("guessed", False): "#9ccf9c",
    ("kept", False): "#dce9f5",
    ("kept", True): "#fdf0cf",
    ("wrong", False): "#f3f3f3",
    ("unused", False): "#e9e4ee",
}
RIGHT = ("found", "guessed", "kept")
FRONTIER = ("frontier", False)
FAILURE = ("failure", False)
MEANINGS = {
    "final token, found after all tokens before it": [("found", False)],
    "final token, found early: a token before it was still missing": [("found", True)],
    "final token, guessed in advance and confirmed in this step": [("guessed", False)],
    "final token, found in an earlier step": [("kept", False), ("kept", True)],
    "not the final token": [("wrong", False)],
    "proposed, and rejected": [FAILURE],
    "not used: after a rejected proposal": [("unused", False)],
    "all tokens left of the line are final": [FRONTIER],
}


def save(trace: SentenceTrace, path: Path) -> None:
    """Write the picture of one sentence. The output is deterministic.

    Args:
        trace: the trace, with tokens as strings.
        path: ends in ``.png`` or ``.svg``. SVG contains its text as text, not as curves.
    """
    is_svg = path.suffix == ".svg"
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "ddgviz", "font.size": LABEL_SIZE}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # fonts.families logs this once for all characters.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font")
        picture = _Picture(trace, fonts.for_svg if is_svg else fonts.for_png)
        figure = picture.draw()
        if is_svg:
            FigureCanvasSVG(figure)
            figure.savefig(path, format="svg", metadata={"Date": None})
        else:
            dpi = min(DPI, MAX_PIXELS / max(figure.get_size_inches()))
            figure.savefig(path, format="png", dpi=dpi)


class _Picture:
    """One figure with axes in inches; y points down."""

    def __init__(self, trace: SentenceTrace, direct: Callable[[str], str]) -> None:
        """
        Args:
            direct: reorders a text for drawing from left to right.
        """
        self.trace = trace
        self.direct = direct
        self.found = graph.decoded(trace)
        self.settled = graph.frontiers(trace)
        self.cells = graph.cells(trace)
        self.edges = graph.edges(self.found)
        self.spelling = Spelling.from_trace(trace)
        self.words = self.spelling.joined(trace.tokens)
        self.label_height = LABEL_HEIGHT + (WORD_HEIGHT if self.words else 0)
        self.labels = [layout.label(self._readable(token)) for token in trace.tokens]
        answers = "".join("".join(step.drafts + step.answers) for step in trace.steps)
        self.families = fonts.families(
            fonts.drawable("".join(trace.source + trace.tokens) + answers)
        )
        self.measure = _ruler(tuple(self.families))
        self.panels = layout.panels(trace, [self.measure(t, LABEL_SIZE) for t in self.labels])
        self.width = LEFT + max(MIN_WIDTH, *(panel.width for panel in self.panels)) + MARGIN

    def draw(self) -> Figure:
        title, legend = self._title(), self._legend_lines()
        heights = [self._panel_height(panel) for panel in self.panels]
        height = 2 * MARGIN + TITLE_LINE * (len(title) + len(legend)) + sum(heights)
        figure = Figure(figsize=(self.width, height), facecolor="white")
        FigureCanvasAgg(figure)
        self.axes = figure.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=(0, self.width), ylim=(height, 0))
        self.axes.axis("off")
        y = MARGIN
        for n, line in enumerate(title):
            if n == 0:
                style = dict(weight="bold", family=fonts.DEFAULT_FAMILY)
                self._text(MARGIN, y, line, TITLE_SIZE, **style)
            else:
                self._text(MARGIN, y, line, LABEL_SIZE)
            y += TITLE_LINE
        for panel, panel_height in zip(self.panels, heights):
            self._panel(panel, y)
            y += panel_height
        for entries in legend:
            for x, meaning in entries:
                self._legend_entry(x, y, meaning)
            y += TITLE_LINE
        return figure

    def _title(self) -> list[str]:
        n_tokens, n_steps = len(self.trace.tokens), len(self.trace.steps)
        n_parallel = sum(token is not None and token.parallel for token in self.found)
        head = (
            f"Sentence {self.trace.id + 1}, {self.trace.method}: {n_tokens} tokens in {n_steps} "
            f"decoder invocations, {n_parallel} decoded in parallel"
        )
        if self.trace.blocks:
            mean = n_tokens / len(self.trace.blocks)
            head += f", {self.trace.block_name} {mean:.2f}"
        n_guessed = sum(token is not None and token.guessed for token in self.found)
        if n_guessed:
            head += f", {n_guessed} guessed"
        source = fonts.drawable(self.spelling.text(self.trace.source[:-1]))
        if not source:
            return [head]
        letter = self.measure(source, LABEL_SIZE) / len(source)
        n_letters = int((self.width - 2 * MARGIN) / letter)
        return [head, *textwrap.wrap(source, n_letters, break_on_hyphens=False)]

    def _panel_height(self, panel: Panel) -> float:
        rows = ROW * len(panel.rows) + GAP_ROW * len(_gaps(panel))
        return self._arc_height(panel) + self.label_height + rows + PANEL_GAP

    def _arc_height(self, panel: Panel) -> float:
        spans = [j - i for i, j in self.edges if panel.start <= j < panel.end]
        # The top of a cubic relative to its controls.
        return 0.15 + 0.75 * _height(max(spans, default=1))

    def _panel(self, panel: Panel, top: float) -> None:
        base = top + self._arc_height(panel) + 0.1
        self._arcs(panel, base)
        matrix = base + self.label_height - 0.1
        self._words(panel, matrix)
        self._labels(panel, base, matrix - self.label_height + LABEL_HEIGHT)
        self._matrix(panel, matrix)

    def _arcs(self, panel: Panel, base: float) -> None:
        stub = LEFT - 0.3
        for i, j in self.edges:
            if not panel.start <= j < panel.end:
                continue
            token = self.found[j]
            parallel = token is not None and token.parallel
            x = stub if i < panel.start else LEFT + panel.center(i)
            end = LEFT + panel.center(j)
            top = base - _height(j - i)
            curve = Curve([(x, base), (x, top), (end, top), (end, base)], [1, 4, 4, 4])
            style = dict(edgecolor=PARALLEL, lw=1.5) if parallel else dict(edgecolor=SEQUENTIAL)
            self.axes.add_patch(PathPatch(curve, facecolor="none", **style))
        origin = "x" if panel.start == 0 else "…"
        self._dot(stub, base)
        self._text(stub - 0.08, base, origin, LABEL_SIZE, ha="right", style="italic")
        for position in range(panel.start, panel.end):
            self._dot(LEFT + panel.center(position), base)

    def _labels(self, panel: Panel, base: float, matrix: float) -> None:
        for position in range(panel.start, panel.end):
            x, label = LEFT + panel.center(position), self.labels[position]
            token = self.found[position]
            if token is not None and token.parallel:
                width = self.measure(label, LABEL_SIZE)
                box = FancyBboxPatch(
                    (x - width / 2, matrix - 0.18),
                    width,
                    0.13,
                    boxstyle="round,pad=0.03",
                    facecolor=FILLS["found", True],
                    edgecolor="none",
                )
                self.axes.add_patch(box)
            self._text(x, matrix - 0.115, label, LABEL_SIZE, ha="center")
            self._text(
                x, base + 0.09, str(position + 1), SMALL_SIZE - 0.5, ha="center", color=FAINT
            )

    def _words(self, panel: Panel, matrix: float) -> None:
        """Draw whole words below their pieces, with a line."""
        for start, end, word in self.words:
            first, last = max(start, panel.start), min(end, panel.end)
            if first >= last:
                continue
            left = LEFT + panel.edges[first - panel.start] + 0.05
            right = LEFT + panel.edges[last - panel.start] - 0.05
            y = matrix - WORD_HEIGHT
            self.axes.plot([left, right], [y, y], color=FAINT, lw=0.8)
            text = layout.shortened(  # called immediately
                fonts.drawable(word),
                lambda text: self.measure(text, LABEL_SIZE) <= right - left,  # noqa: B023
            )
            self._text((left + right) / 2, matrix - 0.115, text, LABEL_SIZE, ha="center")

    def _readable(self, token: str) -> str:
        return fonts.drawable(self.spelling.label(token))

    def _matrix(self, panel: Panel, top: float) -> None:
        y, gaps = top, _gaps(panel)
        self._text(
            LEFT - 0.12,
            top - self.label_height + LABEL_HEIGHT - 0.115,
            "step",
            SMALL_SIZE,
            ha="right",
            color=FAINT,
        )
        frontier: list[Any] = []
        for n in panel.rows:
            if n in gaps:
                note = f"⋮  {gaps[n]} more"
                self._text(LEFT + 0.05, y + GAP_ROW / 2, note, SMALL_SIZE, color=FAINT)
                y += GAP_ROW
                frontier.append((frontier[-1][0], y))
            self._text(LEFT - 0.12, y + ROW / 2, str(n + 1), CELL_SIZE, ha="right", color=FAINT)
            for position in range(panel.start, panel.end):
                cell = self.cells[n][position]
                if cell is not None:
                    self._cell(panel, position, cell, y)
            x = LEFT + panel.edges[min(max(self.settled[n], panel.start), panel.end) - panel.start]
            frontier += [(x, y), (x, y + ROW)]
            y += ROW
        if frontier:
            self.axes.plot(*zip(*frontier), color=INK, lw=1.8, solid_joinstyle="miter", zorder=4)

    def _cell(self, panel: Panel, position: int, cell: Cell, y: float) -> None:
        column = position - panel.start
        x, end = LEFT + panel.edges[column], LEFT + panel.edges[column + 1]
        self._box(x, y, end - x, ROW, self._choose_look(position, cell))
        right = cell.kind in RIGHT
        if cell.failed is not None:
            note, color = "✗ " + self._readable(cell.failed), FAILED
        else:
            note, color = {"wrong": cell.answer, "unused": cell.draft}.get(cell.kind) or "", FAINT
            note = self._readable(note)
        # Probabilities after a failed proposal depend on a wrong prefix.
        number = "" if cell.kind == "unused" else f"{cell.probability:.2f}"
        center, room = (x + end) / 2, end - x - 0.04
        note = layout.shortened(note, lambda text: self.measure(text, SMALL_SIZE) <= room)
        number_y, note_y = (y + 0.12, y + 0.26) if note and number else (y + ROW / 2, y + ROW / 2)
        ink = INK if right else FAINT
        self._text(center, number_y, number, CELL_SIZE, ha="center", color=ink)
        self._text(center, note_y, note, SMALL_SIZE, ha="center", color=color)

    def _choose_look(self, position: int, cell: Cell) -> Look:
        token = self.found[position]
        shows_parallel = cell.kind in ("found", "kept")
        return cell.kind, shows_parallel and token is not None and token.parallel

    def _legend_lines(self) -> list[list[tuple[float, str]]]:
        """The legend below the picture: the entries of each line, with their places."""
        present = {FRONTIER}
        for row in self.cells:
            for position, cell in enumerate(row):
                if cell is not None:
                    present.add(self._choose_look(position, cell))
                    if cell.failed is not None:
                        present.add(FAILURE)
        lines: list[list[tuple[float, str]]] = [[]]
        x = LEFT
        for meaning, looks in MEANINGS.items():
            if not present.intersection(looks):
                continue
            width = 0.26 * len(looks) + self.measure(meaning, SMALL_SIZE) + 0.25
            if x + width > self.width and lines[-1]:
                lines.append([])
                x = LEFT
            lines[-1].append((x, meaning))
            x += width
        return lines

    def _legend_entry(self, x: float, y: float, meaning: str) -> None:
        for look in MEANINGS[meaning]:
            if look == FRONTIER:
                self.axes.plot([x + 0.15, x + 0.15], [y - 0.08, y + 0.08], color=INK, lw=1.8)
            elif look == FAILURE:
                self._text(x + 0.1, y, "✗", CELL_SIZE, ha="center", color=FAILED)
            else:
                self._box(x, y - 0.07, 0.22, 0.14, look)
            x += 0.26
        self._text(x + 0.02, y, meaning, SMALL_SIZE)

    def _box(self, x: float, y: float, width: float, height: float, look: Look) -> None:
        style: dict[str, Any] = dict(facecolor=FILLS[look], edgecolor="white", lw=0.8)
        self.axes.add_patch(Rectangle((x, y), width, height, **style))

    def _dot(self, x: float, y: float) -> None:
        self.axes.plot([x], [y], "o", ms=3.2, color=INK, zorder=5)

    def _text(self, x: float, y: float, text: str, size: float, **style) -> None:
        self.axes.text(
            x,
            y,
            self.direct(text),
            fontsize=size,
            va="center",
            parse_math=False,
            zorder=6,
            **{"color": INK, "family": self.families, **style},
        )


def _height(span: int) -> float:
    return min(ARC_BASE + ARC_PER_TOKEN * span, MAX_ARC)


def _gaps(panel: Panel) -> dict[int, int]:
    """The number of steps omitted before each row, for rows with such a gap."""
    pairs = zip(panel.rows, panel.rows[1:])
    return {after: after - before - 1 for before, after in pairs if after - before > 1}


@lru_cache(maxsize=8)
def _ruler(families: Sequence[str]) -> Callable[[str, float], float]:
    """A function that returns the width of a text in inches at a size in points."""
    figure = Figure(dpi=72)
    renderer = FigureCanvasAgg(figure).get_renderer()

    @lru_cache(maxsize=100_000)
    def measure(text: str, size: float) -> float:
        font = FontProperties(family=list(families), size=size)
        return renderer.get_text_width_height_descent(text, font, False)[0] / 72

    return measure
