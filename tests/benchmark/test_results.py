"""From rounds to rows, tables and pictures."""

import json
import sys

import pytest

from fairseq_fastdec.benchmark import report
from fairseq_fastdec.benchmark.contest import Contest, Entry
from fairseq_fastdec.benchmark.measurement import Round, Translation
from fairseq_fastdec.benchmark.methods import Method, Settings
from fairseq_fastdec.benchmark.results import summarize
from fairseq_fastdec.benchmark.scoring import Scorer
from tests import skips

REFERENCES = {0: "The quick brown fox jumps .", 1: "Over the lazy dog it goes ."}
SETTINGS = Settings(("data",), "cpu", "fp32", 2)
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
        Entry(METHODS[0], 1, 1, 100.0, 150.0, rounds([2.0, 4.0, 6.0], latencies=(0.5, 0.1))),
        Entry(METHODS[1], 1, 1, 100.0, 160.0, rounds([1.0, 1.0, 6.0], other, **counts)),
        Entry(METHODS[2], 1, 4, 100.0, 170.0, rounds([4.0, 8.0, 12.0], other)),
        Entry(METHODS[3], 1, 4, 100.0, 170.0, rounds([4.0, 8.0, 12.0], other)),
        Entry(METHODS[0], 8, 1, 100.0, 190.0, rounds([1.0, 1.0, 1.0])),
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
    assert len(tables) == 2 * 2 + 5
    assert {line.count("|") for line in tables} == {13}
    assert tables[2] == (
        "| slow | 100.00 | 0.5 | 2 | 300.0 | 480.0 |  |  | 2 of 2 | 150 | 1.00 (1.00 to 1.00) "
        "| 1.00x |"
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


def test_no_picture_without_matplotlib(monkeypatch):
    monkeypatch.delitem(sys.modules, "fairseq_fastdec.benchmark.figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install 'fairseq_fastdec.viz.'"):
        import fairseq_fastdec.benchmark.figure  # noqa: F401
