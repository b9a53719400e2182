"""The plot of speed-up against BLEU."""

import sys
from dataclasses import replace

import pytest

from benchmarks.compare.results import summarize
from benchmarks.compare.scoring import Scorer
from tests.support import skips


def test_the_picture(contest, tmp_path):
    skips.needs("matplotlib")
    from benchmarks.compare import figure

    figure.save(summarize(contest, "slow", Scorer()), "slow", tmp_path / "plot.svg")
    picture = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert "<!-- speed-up over slow -->" in picture
    for text in ("batch size 1", "batch size 8", "BLEU", "fast", "wide 2"):
        assert f"<!-- {text} -->" in picture


def test_thirteen_methods_look_different(contest, tmp_path):
    """In marker and in colour, each alone; and their names stand one below the other."""
    skips.needs("matplotlib")
    from matplotlib.colors import to_rgb

    from benchmarks.compare import figure

    markers, colors, _ = zip(*map(figure.style, range(13)))
    assert len(set(markers)) == 13
    for n, color in enumerate(colors):
        for other in colors[:n]:
            # Of the channels' differences; the two nearest are two blues.
            assert sum(abs(a - b) for a, b in zip(to_rgb(color), to_rgb(other))) > 0.3
    assert len({figure.style(number) for number in range(60)}) == 60


def test_the_legend_has_room_for_many_names(contest, tmp_path, monkeypatch):
    skips.needs("matplotlib")
    from matplotlib.figure import Figure

    from benchmarks.compare import figure

    drawn = []
    savefig = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda own, path: drawn.append(own) or savefig(own, path)
    )
    first = summarize(contest, "slow", Scorer())[0]
    results = [replace(first, method=f"blockwise, int8, chain of {n}") for n in range(24)]
    figure.save(results, first.method, tmp_path / "plot.png")
    (legend,) = drawn[0].legends
    boxes = [text.get_window_extent() for text in legend.get_texts()]
    assert len(boxes) == 24
    assert all(above.y0 >= below.y1 for above, below in zip(boxes, boxes[1:]))
    assert boxes[-1].y0 >= 0 and max(box.x1 for box in boxes) <= drawn[0].bbox.x1
    assert drawn[0].axes[0].get_window_extent().x1 <= min(box.x0 for box in boxes)


def test_no_picture_without_matplotlib(monkeypatch):
    monkeypatch.delitem(sys.modules, "benchmarks.compare.figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install 'fastdec-runtime.viz.'"):
        import benchmarks.compare.figure  # noqa: F401
