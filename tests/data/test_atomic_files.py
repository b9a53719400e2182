"""Files that are there as a whole or not at all."""

import os

import pytest

from fairseq_fastdec.data.atomic_files import (
    check_is_new,
    replacing,
    write_bytes,
    write_lines,
    write_text,
)


def test_files_are_replaced(tmp_path):
    for content in ("first", "second\r\n"):
        write_text(tmp_path / "file", content)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"second\r\n"


def test_lines(tmp_path):
    write_lines(tmp_path / "file", ["ä", "", "b\u2028c"])
    assert (tmp_path / "file").read_bytes() == "ä\n\nb\u2028c\n".encode()
    write_lines(tmp_path / "file", [])
    assert (tmp_path / "file").read_bytes() == b""


def test_what_was_there_stays_where_writing_fails(tmp_path):
    write_text(tmp_path / "file", "old")

    def lines():
        yield "new"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_lines(tmp_path / "file", lines())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize("flushes_name", [True, False])
def test_it_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch, flushes_name):
    done = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: done.append("fsync") or fsync(number))
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("replace") or replace(*paths))
    write_bytes(tmp_path / "file", b"content", flushes_name)
    of_the_directory = ["fsync"] * flushes_name
    assert done == ["fsync", "replace", *of_the_directory]


def test_two_processes_write_the_same_file(tmp_path):
    with replacing(tmp_path / "file") as first, replacing(tmp_path / "file") as second:
        assert first != second
        first.write_text("same")
        second.write_text("same")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_keeps_the_usual_permissions(tmp_path):
    (tmp_path / "usual").write_text("")
    write_text(tmp_path / "file", "")
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_new_directories(tmp_path):
    for new in (tmp_path, tmp_path / "a" / "b"):
        check_is_new("--output", new)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ValueError, match=f"--output {file}: is not a directory; give a new dire"):
        check_is_new("--output", file)
    with pytest.raises(ValueError, match="is not empty; give a new directory"):
        check_is_new("--output", tmp_path)
