"""The numbers of docs/gpu.md, which may only fall."""

from statistics import mean

import pytest

from benchmarks.launches import command
from tests.support.snippets import ROOT


@pytest.fixture(autouse=True)
def few_sentences(monkeypatch):
    monkeypatch.setattr(command, "N_SENTENCES", 8)


def operators(name):
    return mean(step.operators for step in command.counts_of(name))


def test_greedy_launches_less_than_fairseq_and_hardly_reads():
    assert operators("greedy") <= 0.7 * operators("fairseq, beam 1")
    assert mean(step.reads for step in command.counts_of("greedy")) <= 1


@pytest.mark.parametrize(
    "name, most_operators, most_reads",
    [
        ("blockwise, 4 parallel heads", 260, 2),
        ("blockwise, 4 sequential heads", 320, 2),
        ("gs_jacobi", 220, 1),
        ("beam, 5", 155, 4),
    ],
)
def test_a_step_asks_no_more_of_a_gpu_than_before(name, most_operators, most_reads):
    steps = command.counts_of(name)
    assert len(steps) > 3
    assert mean(step.operators for step in steps) <= most_operators
    assert mean(step.reads for step in steps) <= most_reads


def test_the_page_has_all_rows():
    page = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
    text = page.split("<!-- launches -->")[1].split("<!-- end of launches -->")[0]
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("|")]
    assert rows[2:] == [*command.FAIRSEQ, *command.METHODS]
