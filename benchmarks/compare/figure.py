"""The plot of BLEU against speed-up. It needs matplotlib, but no display."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

try:
    from matplotlib import ticker
except ImportError as error:
    raise ImportError(
        "no plot without matplotlib: pip install 'fastdec-runtime[viz]' (or pip install matplotlib)"
    ) from error
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .results import MethodResult

DPI = 140
# Consecutive methods differ in both; colours repeat after 16 methods.
COLORS = (
    "#1f5fbf", "#e6550d", "#2ca02c", "#7b3fb3", "#d6278a", "#00a5b5", "#8c4f2b", "#000000",
    "#d62728", "#9aa800", "#86b8ff", "#f5a800", "#6b6b6b", "#00614d", "#c49cf2", "#ff9896",
)  # fmt: skip
MARKERS = ("o", "s", "D", "^", "v", "P", "*", "X", "<", ">", "p", "h", "d")
# In inches.
PANEL_WIDTH, LEGEND_WIDTH, HEIGHT, ENTRY_HEIGHT = 5.0, 2.4, 4.2, 0.24


def save(results: Sequence[MethodResult], reference: str, path: Path) -> None:
    """Write a picture with a panel for each batch size.

    Args:
        reference: the name of the reference method.
        path: the file; its suffix determines the format, such as ``.png``.
    """
    batch_sizes = list(dict.fromkeys(result.batch_size for result in results))
    width = PANEL_WIDTH * len(batch_sizes) + LEGEND_WIDTH
    names = list(dict.fromkeys(result.method for result in results))
    height = max(HEIGHT, ENTRY_HEIGHT * (len(names) + 1))
    figure = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(batch_sizes), squeeze=False, sharey=True)[0]
    for panel, batch_size in zip(panels, batch_sizes):
        shown = [result for result in results if result.batch_size == batch_size]
        _draw(panel, shown, names)
        panel.set_title(f"batch size {batch_size}")
        panel.set_xlabel(f"speed-up over {reference}")
    panels[0].set_ylabel("BLEU")
    # A method may be missing in a panel, if it has failed with that batch size.
    legend: dict[str, Any] = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        legend.update(zip(labels, handles))
    figure.legend(list(legend.values()), list(legend), loc="outside right upper", frameon=False)
    figure.savefig(path)


def style(number: int) -> tuple[str, str, bool]:
    """The marker and colour of a method, and whether the marker is filled.

    Args:
        number: the number of the method, from 0.
    """
    return MARKERS[number % len(MARKERS)], COLORS[number % len(COLORS)], number % 2 == 0


def _draw(panel: Axes, results: Sequence[MethodResult], names: Sequence[str]) -> None:
    for result in results:
        least, greatest = result.time_ratio_range
        marker, color, filled = style(names.index(result.method))
        panel.errorbar(
            result.speed_up,
            result.bleu,
            xerr=[[result.speed_up - 1 / greatest], [1 / least - result.speed_up]],
            fmt=marker,
            color=color,
            markerfacecolor=color if filled else "white",
            markersize=7,
            label=result.method,
            capsize=3,
        )
    # Logarithmic, so that factors 2 and 1/2 have the same distance from 1.
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(ticker.LogLocator(base=2, subs=(1, 1.5)))
    panel.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    panel.axvline(1, color="#8a8a8a", linewidth=0.8, zorder=0)
    panel.margins(0.12)
    panel.grid(alpha=0.25)
