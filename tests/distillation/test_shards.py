"""Shards on disk: whole or absent, whatever happens."""

import os

import pytest

from fairseq_fastdec.distillation.shards import Shards, check_settings, write_at_once


@pytest.fixture()
def shards(tmp_path):
    return Shards(tmp_path / "shards", n_sentences=7, size=3)


def fill(shards, numbers):
    for number in numbers:
        shards.write(number, {n: f"t {n}" for n in reversed(shards.sentences[number])})


def test_every_sentence_is_in_one_shard(shards):
    assert shards.sentences == [range(0, 3), range(3, 6), range(6, 7)]
    assert shards.missing() == [0, 1, 2]
    fill(shards, (2, 0))
    assert shards.missing() == [1]
    fill(shards, [1])
    assert list(shards.read()) == [(n, f"t {n}") for n in range(7)]


def test_another_process_finds_what_was_written(shards, tmp_path):
    fill(shards, [1])
    assert Shards(tmp_path / "shards", 7, 3).missing() == [0, 2]


def test_sentences_can_be_empty_or_absent_or_hold_odd_characters(shards):
    shards.write(0, {0: "", 2: "a\u2028b\x85c \x1c"})
    shards.write(1, {})
    shards.write(2, {6: "ü"})
    assert list(shards.read()) == [(0, ""), (2, "a\u2028b\x85c \x1c"), (6, "ü")]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interruption_leaves_no_part(shards, monkeypatch, step):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, step, stop)
        fill(shards, [0])
    assert shards.missing() == [0, 1, 2]
    fill(shards, [0, 1, 2])
    assert list(shards.read()) == [(n, f"t {n}") for n in range(7)]


@pytest.mark.parametrize("text", ["3\tx\n", "1\tx\n0\ty\n", "0\tx\n0\tx\n", "x\n", "x\ty\n"])
def test_damaged_shards_are_not_read(shards, tmp_path, text):
    fill(shards, [0, 1, 2])
    (tmp_path / "shards" / "000000.tsv").write_text(text)
    with pytest.raises(ValueError, match="000000.tsv: damaged; delete it"):
        list(shards.read())


@pytest.mark.parametrize("number", [2, 6])
def test_sentences_of_other_shards_are_damage(shards, tmp_path, number):
    fill(shards, [0, 1, 2])
    (tmp_path / "shards" / "000001.tsv").write_text(f"{number}\tx\n")
    with pytest.raises(ValueError, match="000001.tsv: damaged; delete it"):
        list(shards.read())


def test_settings_are_kept_and_compared(tmp_path):
    path = tmp_path / "settings.json"
    check_settings(path, {"a": 1, "b": ["x", 2], "c": None})
    check_settings(path, {"c": None, "b": ["x", 2], "a": 1})
    for other in ({"a": 1, "b": ["y", 2], "c": None}, {"a": 1, "b": ["x", 2], "c": None, "d": 0}):
        with pytest.raises(ValueError, match="made with [bd] = .*; name another directory"):
            check_settings(path, other)


def test_files_are_replaced(tmp_path):
    for content in ("first", "second"):
        write_at_once(tmp_path / "file", content)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "second"
