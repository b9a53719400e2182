"""The results as Markdown and as JSON."""

import json
from dataclasses import replace

from benchmarks.compare import report
from benchmarks.compare.results import summarize
from benchmarks.compare.scoring import Scorer
from tests.support.contests import METHODS, SETTINGS


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
    targets = "the detokenised targets of the data (--reference-text sets a file instead)"
    assert f"- BLEU: `nrefs:1|x`, against {targets}" in lines
    raw = replace(SETTINGS, reference_text="test.de")
    assert ", against the lines of test.de\n" in report.markdown(results, "slow", "x", raw, {})
    assert "- left out: absent: is not installed" in lines


def test_operations_have_a_column_where_they_were_counted(contest):
    contest.entries[0].flops = 3_000_000_000
    results = summarize(contest, "slow", Scorer())
    counted = replace(SETTINGS, counts_flops=True)
    lines = report.markdown(results, "slow", "nrefs:1|x", counted, {}).splitlines()
    rows = [line for line in lines if line.count("|") == 15]
    assert rows[0].endswith("| speed-up | GFLOPs a sentence |")
    assert rows[2].startswith("| slow ") and rows[2].endswith("| 1.500 |")
    assert rows[3].startswith("| fast ") and rows[3].endswith("|  |")
    assert sum(line.startswith("- GFLOPs a sentence: ") for line in lines) == 1
    assert not any("GFLOPs" in line for line in markdown_without_them(results).splitlines())


def markdown_without_them(results):
    return report.markdown(results, "slow", "nrefs:1|x", SETTINGS, {})


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
