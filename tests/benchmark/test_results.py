"""From rounds to rows, tables and pictures."""

import json
import sys
from dataclasses import replace

import pytest

from fairseq_fastdec.benchmark import report
from fairseq_fastdec.benchmark.contest import Contest, Entry
from fairseq_fastdec.benchmark.measurement import Round, Translation
from fairseq_fastdec.benchmark.methods import Division, Method, Settings
from fairseq_fastdec.benchmark.results import summarize
from fairseq_fastdec.benchmark.scoring import Scorer
from tests import skips

REFERENCES = {0: "The quick brown fox jumps .", 1: "Over the lazy dog it goes ."}
SETTINGS = Settings(("data",), "cpu", "fp32", 2)
ONE, TWO = Division(1, 2), Division(2, 1)
METHODS = [Method(name, ("--beam", "1")) for name in ("slow", "fast", "wide", "wide 2")]


def rounds(seconds, texts=REFERENCES, latencies=(), **counts):
    translations = {number: Translation(text.lower(), text) for number, text in texts.items()}
    return [
        Round(s, 10, dict(enumerate(latencies)), translations=translations, **counts)
        for s in seconds
    ]


@pytest.fixture()
def contest():
    """Two batch sizes; a beam of 4 that agrees with nobody but its twin."""
    result = Contest(METHODS, "slow", SETTINGS, bar=None)
    result.references = REFERENCES
    other = {0: "Something else entirely , I think .", 1: REFERENCES[1]}
    counts = {"invocations": 5, "row_invocations": 8}
    result.entries = [
        Entry(METHODS[0], ONE, 1, 1, 100.0, 150.0, rounds([2.0, 4.0, 6.0], latencies=(0.5, 0.1))),
        Entry(METHODS[0], TWO, 1, 1, 100.0, 250.0, rounds([3.0, 5.0, 4.5], latencies=(0.9, 0.7))),
        Entry(METHODS[1], ONE, 1, 1, 100.0, 155.0, rounds([2.0, 2.0, 2.0], other, **counts)),
        Entry(METHODS[1], TWO, 1, 1, 100.0, 160.0, rounds([1.0, 1.0, 6.0], other, **counts)),
        Entry(METHODS[2], ONE, 1, 4, 100.0, 170.0, rounds([4.0, 8.0, 12.0], other)),
        Entry(METHODS[3], ONE, 1, 4, 100.0, 170.0, rounds([4.0, 8.0, 12.0], other)),
        Entry(METHODS[0], ONE, 8, 1, 100.0, 190.0, rounds([1.0, 1.0, 1.0])),
    ]
    result.left_out = {"absent": "is not installed"}
    return result


def test_rows(contest):
    slow, fast, wide, wide_2, batched = summarize(contest, "slow", Scorer())
    assert slow.bleu == pytest.approx(100) and 0 < fast.bleu < 100
    assert (slow.time_ratio, slow.time_ratio_range, slow.speed_up) == (1, (1, 1), 1)
    assert (fast.time_ratio, fast.time_ratio_range, fast.speed_up) == (0.5, (0.25, 1), 2)
    assert (slow.sentences_per_second, slow.tokens_per_second) == (0.5, 2.5)
    assert (fast.invocations, fast.tokens_per_invocation) == (5, 1.25)
    assert slow.invocations is slow.tokens_per_invocation is None
    assert (fast.identical, fast.identical_to) == (1, "slow")
    assert (wide_2.identical, wide_2.identical_to, wide.identical_to) == (2, "wide", "wide")
    assert (batched.batch_size, batched.time_ratio, batched.memory) == (8, 1, 190)


def test_the_fastest_division_of_a_method_counts(contest):
    slow, fast, wide, *_ = summarize(contest, "slow", Scorer())
    assert (slow.division, slow.memory) == ("1 x 2", 150)  # by the median, not by the last round
    assert (fast.division, fast.memory) == ("2 x 1", 160)
    tried = [(trial.division, trial.seconds) for trial in slow.trials]
    assert tried == [("1 x 2", 4.0), ("2 x 1", 4.5)]
    assert [trial.latency_p50 for trial in slow.trials] == pytest.approx([300, 800])
    assert [(trial.division, trial.seconds) for trial in wide.trials] == [("1 x 2", 8.0)]


def test_latency_percentiles_are_of_the_sentences_medians(contest):
    slow, fast, *_ = summarize(contest, "slow", Scorer())
    assert slow.latency_p50 == pytest.approx(300)
    assert slow.latency_p95 == pytest.approx(480)
    assert fast.latency_p50 is fast.latency_p95 is None
    rounds_ = contest.entries[0].rounds
    rounds_[0].latencies[1] = 5.0  # an outlier of one round
    assert summarize(contest, "slow", Scorer())[0].latency_p50 == pytest.approx(300)


def test_some_other_reference(contest):
    contest.entries.pop()
    slow = summarize(contest, "wide", Scorer())[0]
    assert (slow.time_ratio, slow.time_ratio_range) == (0.5, (0.5, 0.5))


def test_the_table(contest):
    results = summarize(contest, "slow", Scorer())
    lines = report.markdown(results, "slow", "nrefs:1|x", SETTINGS, contest.left_out).splitlines()
    assert lines[0].startswith("2 sentences, fp32 on ")
    assert lines[0].endswith("threads: 2, alternating rounds: 3")
    tables = [line for line in lines if line.startswith("|")]
    by_division = tables.index("| method | 1 x 2 | 2 x 1 |")
    assert tables[by_division + 2 : by_division + 5] == [
        "| slow | **4.00** (300.0) | 4.50 (800.0) |",
        "| fast | 2.00 | **1.00** |",
        "| wide | **8.00** |  |",
    ]
    del tables[by_division : by_division + 6]
    assert len(tables) == 2 * 2 + 5  # at batch size 8 one division was measured: no table of both
    assert {line.count("|") for line in tables} == {14}
    assert tables[2] == (
        "| slow | 1 x 2 | 100.00 | 0.5 | 2 | 300.0 | 480.0 |  |  | 2 of 2 | 150 "
        "| 1.00 (1.00 to 1.00) | 1.00x |"
    )
    assert "| 5 | 1.25 | 1 of 2 | 160 | 0.50 (0.25 to 1.00) | 2.00x |" in tables[3]
    assert "- BLEU: `nrefs:1|x`" in lines
    assert "- left out: absent: is not installed" in lines


def test_the_document(contest):
    results = summarize(contest, "slow", Scorer())
    text = report.as_json(results, METHODS, "slow", "nrefs:1|x", SETTINGS, contest.left_out)
    content = json.loads(text)
    assert content["results"][1]["seconds"] == [1, 1, 6]
    assert content["results"][1]["speed_up"] == 2
    assert content["results"][1]["division"] == "2 x 1"
    assert content["results"][1]["trials"][0] == {
        "division": "1 x 2", "seconds": 2.0, "latency_p50": None,
    }  # fmt: skip
    assert content["settings"]["threads"] == 2 and "torch" in content["versions"]
    assert content["left_out"] == {"absent": "is not installed"}


def test_the_picture(contest, tmp_path):
    skips.needs("matplotlib")
    from fairseq_fastdec.benchmark import figure

    figure.save(summarize(contest, "slow", Scorer()), "slow", tmp_path / "plot.svg")
    picture = (tmp_path / "plot.svg").read_text(encoding="utf-8")
    assert "<!-- speed-up over slow -->" in picture
    for text in ("batch size 1", "batch size 8", "BLEU", "fast", "wide 2"):
        assert f"<!-- {text} -->" in picture


def test_thirteen_methods_look_different(contest, tmp_path):
    """In marker and in colour, each alone; and their names stand one below the other."""
    skips.needs("matplotlib")
    from matplotlib.colors import to_rgb

    from fairseq_fastdec.benchmark import figure

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

    from fairseq_fastdec.benchmark import figure

    drawn = []
    savefig = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda own, path: drawn.append(own) or savefig(own, path)
    )
    first = summarize(contest, "slow", Scorer())[0]
    results = [replace(first, method=f"blockwise, int8, tree of {n}") for n in range(24)]
    figure.save(results, first.method, tmp_path / "plot.png")
    (legend,) = drawn[0].legends
    boxes = [text.get_window_extent() for text in legend.get_texts()]
    assert len(boxes) == 24
    assert all(above.y0 >= below.y1 for above, below in zip(boxes, boxes[1:]))
    assert boxes[-1].y0 >= 0 and max(box.x1 for box in boxes) <= drawn[0].bbox.x1
    assert drawn[0].axes[0].get_window_extent().x1 <= min(box.x0 for box in boxes)


def test_no_picture_without_matplotlib(monkeypatch):
    monkeypatch.delitem(sys.modules, "fairseq_fastdec.benchmark.figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install 'fairseq_fastdec.viz.'"):
        import fairseq_fastdec.benchmark.figure  # noqa: F401
