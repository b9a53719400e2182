"""Chunks, and their files: whole or absent, whatever happens."""

import errno
import os

import pytest

from fairseq_fastdec.corpora.chunks import (
    Chunk,
    ChunkStore,
    DamagedChunk,
    OtherSource,
    Translated,
    chunks_of,
)
from fairseq_fastdec.corpora.text_files import TextInput

CHUNK = Chunk(1, 3, b"a\nb\n")
TRANSLATED = Translated(b"A\n\n", {"translated": 1, "too long": 1})


@pytest.fixture
def store(tmp_path):
    return ChunkStore(tmp_path)


def test_every_line_is_in_one_chunk(tmp_path):
    (tmp_path / "a").write_bytes(b"1\n2\n3\n4")
    (tmp_path / "b").write_bytes(b"5\n\n7")
    text = TextInput([str(tmp_path / "a"), str(tmp_path / "b")])
    chunks = list(chunks_of(text, 3))
    assert chunks == [Chunk(0, 0, b"1\n2\n3\n"), Chunk(1, 3, b"4\n5\n\n"), Chunk(2, 6, b"7\n")]
    assert [chunk.lines for chunk in chunks] == [[b"1", b"2", b"3"], [b"4", b"5", b""], [b"7"]]
    assert [chunk.n_lines for chunk in chunks] == [3, 3, 1]


def test_nothing_has_no_chunk(tmp_path):
    (tmp_path / "a").write_bytes(b"")
    assert list(chunks_of(TextInput([str(tmp_path / "a")]), 3)) == []


def test_what_is_written_is_read(store):
    assert not store.has(CHUNK)
    store.write(CHUNK, TRANSLATED)
    assert store.has(CHUNK) and store.read(1) == TRANSLATED
    store.remove(1)
    assert not store.has(CHUNK)


def test_a_chunk_of_other_lines_is_refused(store):
    store.write(CHUNK, TRANSLATED)
    with pytest.raises(OtherSource, match="00000001.chunk: was made from other lines"):
        store.has(CHUNK._replace(source=b"a\nc\n"))


def emptied(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def changed(path):
    path.write_bytes(path.read_bytes().replace(b"A\n", b"B\n"))


def recounted(path):
    path.write_bytes(path.read_bytes().replace(b'"translated": 1', b'"translated": 2'))


def lengthened(path):
    path.write_bytes(path.read_bytes() + b"\n")


def without_header(path):
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])


def zeros(path):
    path.write_bytes(bytes(len(path.read_bytes())))


def another(path):
    path.write_bytes(path.with_name("00000002.chunk").read_bytes())


DAMAGES = [emptied, cut, changed, recounted, lengthened, without_header, zeros, another]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_noticed(store, tmp_path, caplog, damage):
    store.write(CHUNK, TRANSLATED)
    store.write(CHUNK._replace(number=2), TRANSLATED)
    damage(tmp_path / "00000001.chunk")
    with pytest.raises(DamagedChunk, match="00000001.chunk: .*run the command again"):
        store.read(1)
    assert not store.has(CHUNK) and "00000001.chunk: damaged; translated again" in caplog.text
    store.write(CHUNK, TRANSLATED)
    assert store.read(1) == TRANSLATED


def test_a_chunk_that_is_gone_is_damage(store):
    with pytest.raises(DamagedChunk, match="00000001.chunk: is gone"):
        store.read(1)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_nothing(store, tmp_path, monkeypatch, step):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, step, fail)
        store.write(CHUNK, TRANSLATED)
    assert list(tmp_path.iterdir()) == []


def test_beginnings_are_removed(store, tmp_path):
    store.write(CHUNK, TRANSLATED)
    (tmp_path / "00000002.chunk.12345678.partial").write_bytes(b"x")
    store.remove_beginnings()
    assert [path.name for path in tmp_path.iterdir()] == ["00000001.chunk"]
    (tmp_path / "manifest.json").write_text("{}")
    store.remove_all()
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]
