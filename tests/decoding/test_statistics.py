"""The counters, the summary line, and where it goes."""

import json
import logging
import os

import pytest
import torch

from fairseq_fastdec.decoding.statistics import Statistics, StatisticsFile, log_summary
from fairseq_fastdec.engine.searches import Result

RESULT = Result(0, [{"tokens": torch.zeros(4)}], 2, blocks=[3, 1])


def counted():
    statistics = Statistics(encoder_invocations=1)
    for n_rows in (2, 2, 1):
        statistics.count_step(n_rows)
    for tokens, blocks in ((6, [2, 3, 1]), (4, [4])):
        statistics.count_sentence(tokens, len(blocks))
    statistics.count_heads([3, 3], [2, 1])
    statistics.count_heads([1, 1], [1, 1])
    return statistics


def test_the_summary_holds_every_number():
    assert counted().summary() == (
        "2 sentences, 10 tokens, 1 encoder invocations, 3 decoder invocations, "
        "5 row invocations, 2.000 tokens per invocation, mean accepted block size 2.500, "
        "acceptance p_2=0.750 p_3=0.500"
    )


def test_the_papers_candidate_expansions_count_ended_candidates():
    statistics = counted()
    statistics.count_beams(2)
    before = statistics.summary()
    assert "1.7 candidate expansions per timestep, mean beam width 2.50" in before
    statistics.count_beams(0, n_waiting=3)
    assert "per timestep, 2.7 with ended candidates on the beam (Yang" in statistics.summary()


def test_nothing_is_divided_by_zero():
    """Sentences may end before any proposal is made."""
    statistics = Statistics()
    assert statistics.tokens_per_invocation() == 0
    statistics.count_heads([0, 0], [0, 0])
    assert statistics.summary().endswith("acceptance p_2=0.000 p_3=0.000")


def test_nothing_is_logged_where_nothing_was_decoded(caplog):
    with caplog.at_level("INFO"):
        log_summary("greedy", Statistics())
        assert not caplog.records
        log_summary("greedy", counted())
    assert caplog.records[0].message.startswith("greedy decoding: 2 sentences")


def test_a_closed_log_file_is_no_traceback(tmp_path, capsys, monkeypatch):
    handler = logging.FileHandler(tmp_path / "log")
    handler.stream.close()
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    log_summary("greedy", counted())
    assert capsys.readouterr().err.startswith("greedy decoding: 2 sentences")


def test_a_file_is_emptied_and_appended_to(tmp_path):
    path = tmp_path / "stats.jsonl"
    path.write_text("old\n")
    file = StatisticsFile(str(path))
    for index in range(2):
        file.write([(index, 3, RESULT)])
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert records[1] == {
        "id": 1, "source_tokens": 3, "tokens": 4, "invocations": 2, "blocks": [3, 1],
    }  # fmt: skip


@pytest.mark.parametrize(
    "name, problem",
    [
        ("/dev/full", "No space left"),
        ("directory", "Is a directory"),
        ("missing/stats", "No such file"),
        ("file/stats", "Not a directory"),
    ],
)
def test_files_that_cannot_be_written_are_found_before_anything_is_decoded(tmp_path, name, problem):
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    path = tmp_path / name
    with pytest.raises(ValueError, match=f"^--decoding-stats {path}: cannot be written .{problem}"):
        StatisticsFile(str(path))


def test_a_file_that_cannot_be_written_any_more(tmp_path, monkeypatch):
    """A disk that is full by now, and a place that is none any more."""
    path = tmp_path / "stats.jsonl"
    file = StatisticsFile(str(path))
    file.write([(0, 3, RESULT)])
    os.remove(path)
    os.symlink("/dev/full", path)
    with pytest.raises(ValueError, match="^--decoding-stats .*stats.jsonl: .*No space left"):
        file.write([(0, 3, RESULT)])
    os.remove(path)
    path.mkdir()
    with pytest.raises(ValueError, match="^--decoding-stats .*stats.jsonl: .*Is a directory"):
        file.write([(0, 3, RESULT)])


def test_a_disk_that_fills_up_while_it_is_written(tmp_path, monkeypatch):
    """The write of nothing succeeds, and that of the records does not."""
    file = StatisticsFile(str(tmp_path / "stats.jsonl"))
    monkeypatch.setattr(os, "write", lambda *_: 0)
    os.remove(tmp_path / "stats.jsonl")
    os.symlink("/dev/full", tmp_path / "stats.jsonl")
    with pytest.raises(ValueError, match="^--decoding-stats .*stats.jsonl: .*No space left"):
        file.write([(0, 3, RESULT)])
