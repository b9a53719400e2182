"""Shards on disk: whole or absent, whatever happens."""

import hashlib
import os

import pytest

from fairseq_fastdec.tools.distillation.shards import Shard, Shards, rendered
from fairseq_fastdec.tools.translation.chunks import DamagedChunk


@pytest.fixture()
def shards(tmp_path):
    return Shards(tmp_path / "shards", n_sentences=7, size=3)


def write(shards, number, translations):
    shards.write(Shard(number, shards.sentences[number]), rendered(translations))


def fill(shards, numbers):
    for number in numbers:
        write(shards, number, {n: f"t {n}" for n in reversed(shards.sentences[number])})


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
    write(shards, 0, {0: "", 2: "a\u2028b\x85c \x1c"})
    write(shards, 1, {})
    write(shards, 2, {6: "ü"})
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


CONTENT = b"3\tt 3\n4\tt 4\n5\tt 5\n"  # of the second shard


def emptied(path):
    path.write_bytes(b"")


def shortened(path):
    """As by a crash before the end was on disk, at the end of a line."""
    path.write_bytes(b"\n".join(path.read_bytes().split(b"\n")[:-2]) + b"\n")


def cut(path):
    path.write_bytes(path.read_bytes()[:-3])


def changed(path):
    path.write_bytes(path.read_bytes().replace(b"t 4", b"t 5"))


def zeros(path):
    path.write_bytes(bytes(len(path.read_bytes())))


def without_header(path):
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])


def header_alone(path):
    path.write_bytes(path.read_bytes().split(b"\n", 1)[0] + b"\n")


def lengthened(path):
    path.write_bytes(path.read_bytes() + b"5\tt\n")


def another(path):
    path.write_bytes(path.with_name("000000.tsv").read_bytes())


DAMAGES = [
    emptied, shortened, cut, changed, zeros, without_header, header_alone, lengthened, another,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_shards_are_noticed(shards, tmp_path, damage):
    fill(shards, [0, 1, 2])
    assert not any(shards.is_damaged(number) for number in range(3))
    damage(tmp_path / "shards" / "000001.tsv")
    assert [shards.is_damaged(number) for number in range(3)] == [False, True, False]
    with pytest.raises(ValueError, match="000001.tsv: damaged; run the command again"):
        list(shards.read())
    with pytest.raises(DamagedChunk):
        shards.has(Shard(1, shards.sentences[1]))
    fill(shards, [1])
    assert list(shards.read()) == [(n, f"t {n}") for n in range(7)]
    assert shards.has(Shard(1, shards.sentences[1]))
    shards.remove(1)
    assert not shards.has(Shard(1, shards.sentences[1])) and shards.missing() == [1]


@pytest.mark.parametrize(
    "lines",
    ["2\tx\n", "6\tx\n", "4\tx\n4\ty\n", "4\tx\n3\ty\n", "-4\tx\n", "4\n", "x\ty\n"],
)
def test_sentences_that_are_not_a_shards_own_are_damage(shards, tmp_path, lines):
    """The file is whole, as its first line says, and holds something else."""
    fill(shards, [0, 1, 2])
    path = tmp_path / "shards" / "000001.tsv"
    digest, n_lines = hashlib.sha256(lines.encode()).hexdigest(), lines.count("\n")
    path.write_text(f"sentences {n_lines} sha256 {digest}\n{lines}")
    assert shards.is_damaged(1)
    with pytest.raises(ValueError, match="000001.tsv: damaged; run the command again"):
        list(shards.read())
    fill(shards, [1])
    header = path.read_text().splitlines()[0]
    assert header == f"sentences 3 sha256 {hashlib.sha256(CONTENT).hexdigest()}"
