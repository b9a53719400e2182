"""The plot of speed-up against BLEU. The module needs matplotlib and draws without a display."""

from pathlib import Path
from typing import Sequence

try:
    from matplotlib import colormaps
except ImportError as error:
    raise ImportError(
        "no plot without matplotlib: pip install 'fairseq_fastdec[viz]' (or pip install matplotlib)"
    ) from error
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, StrMethodFormatter

from .results import Result

DPI = 140
COLORS = colormaps["tab10"].colors
MARKERS = "osD^vP*X"
# Inches.
PANEL_WIDTH, LEGEND_WIDTH, HEIGHT = 5.0, 2.4, 4.2


def save(results: Sequence[Result], reference: str, path: Path) -> None:
    """Write a picture with a panel for each batch size.

    Args:
        reference: the method that the speed-ups are over.
        path: its ending says the format, such as ``.png``.
    """
    batch_sizes = list(dict.fromkeys(result.batch_size for result in results))
    width = PANEL_WIDTH * len(batch_sizes) + LEGEND_WIDTH
    figure = Figure(figsize=(width, HEIGHT), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(batch_sizes), squeeze=False, sharey=True)[0]
    names = list(dict.fromkeys(result.method for result in results))
    for panel, batch_size in zip(panels, batch_sizes):
        shown = [result for result in results if result.batch_size == batch_size]
        _draw(panel, shown, names)
        panel.set_title(f"batch size {batch_size}")
        panel.set_xlabel(f"speed-up over {reference}")
    panels[0].set_ylabel("BLEU")
    # A method can have failed at one batch size.
    legend = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        legend.update(zip(labels, handles))
    figure.legend(legend.values(), legend.keys(), loc="outside right upper", frameon=False)
    figure.savefig(path)


def _draw(panel: Axes, results: Sequence[Result], names: Sequence[str]) -> None:
    for result in results:
        least, greatest = result.time_ratio_range
        number = names.index(result.method)
        panel.errorbar(
            result.speed_up,
            result.bleu,
            xerr=[[result.speed_up - 1 / greatest], [1 / least - result.speed_up]],
            fmt=MARKERS[number % len(MARKERS)],
            color=COLORS[number % len(COLORS)],
            label=result.method,
            capsize=3,
        )
    # Twice as fast is as far to the right as half as fast is to the left.
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(LogLocator(base=2, subs=(1, 1.5)))
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.axvline(1, color="#8a8a8a", linewidth=0.8, zorder=0)
    panel.margins(0.12)
    panel.grid(alpha=0.25)
