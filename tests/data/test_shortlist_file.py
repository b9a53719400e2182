"""Lexical shortlists of Marian."""

import struct

import pytest

from fairseq_fastdec.data.shortlist_file import parsed
from tests.support import marian_writing as writing
from tests.support import mutations

N_SOURCE, N_TARGET, FIRST = 30, 50, 4
LISTS = [[(3 * word + step) % N_TARGET for step in range(word % 5)] for word in range(N_SOURCE)]


@pytest.fixture
def path(tmp_path):
    writing.write_shortlist(tmp_path / "lex.s2t.bin", FIRST, LISTS)
    return tmp_path / "lex.s2t.bin"


def test_lists(path):
    lists = parsed(path.read_bytes(), N_SOURCE, N_TARGET)
    assert lists.first == FIRST
    found = [lists.types[begin:end] for begin, end in zip(lists.offsets, lists.offsets[1:])]
    assert [own.tolist() for own in found] == LISTS
    writing.write_shortlist(path, 100, [[0, 1, 2]])
    assert parsed(path.read_bytes(), 1, 13).first == 13


@pytest.mark.parametrize(
    "field, value, why",
    [
        (0, 1, "is not a binary shortlist"),
        (4, 2**61, "is it whole"),
        (4, N_SOURCE, "is it whole"),
        (5, 2**62, "is it whole"),
    ],
)
def test_wrong_headers(path, field, value, why):
    data = bytearray(path.read_bytes())
    data[8 * field : 8 * field + 8] = struct.pack("<Q", value)
    with pytest.raises(ValueError, match=why):
        parsed(bytes(data), N_SOURCE, N_TARGET)


def test_shortlists_of_other_vocabularies(path):
    data = path.read_bytes()
    with pytest.raises(ValueError, match="is for 30 source types; the vocabulary has 31"):
        parsed(data, N_SOURCE + 1, N_TARGET)
    with pytest.raises(ValueError, match="beyond the 40"):
        parsed(data, N_SOURCE, 40)
    with pytest.raises(ValueError, match="is not a binary shortlist"):
        parsed(b"", N_SOURCE, N_TARGET)
    data = data.replace(struct.pack("<2Q", 1, 3), struct.pack("<2Q", 3, 1))
    with pytest.raises(ValueError, match="not in order"):
        parsed(data, N_SOURCE, N_TARGET)


def test_damaged_files(path):
    def read():
        lists = parsed(path.read_bytes(), N_SOURCE, N_TARGET)
        assert lists.types.max() < N_TARGET

    assert mutations.check(path, read, (ValueError,)) > mutations.COUNT / 10
