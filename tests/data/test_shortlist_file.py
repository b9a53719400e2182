"""Lexical shortlists of Marian."""

import struct

import numpy as np
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


def naive(source, is_shared, n_target=N_TARGET):
    """The types of a sentence, one by one, as Marian finds them."""
    types = set(range(FIRST))
    for word in source:
        types |= {*LISTS[word], *([word] if is_shared else [])}
    for word in range(FIRST, n_target):
        if len(types) % 8:
            types.add(word)
    return sorted(types)


@pytest.mark.parametrize("is_shared", [False, True])
def test_types_of_sentences(path, is_shared):
    shortlist = parsed(path.read_bytes(), N_SOURCE, N_TARGET, is_shared)
    generator = np.random.default_rng(0)
    for length in (0, 1, 2, 3, 5, 8, 20, 60):
        source = generator.integers(N_SOURCE, size=length)
        types = shortlist.types_of(source)
        assert types.dtype == np.int64
        assert types.tolist() == naive(source.tolist(), is_shared)


def test_small_vocabularies_are_whole(path):
    writing.write_shortlist(path, 100, [[0, 1, 2]])
    assert parsed(path.read_bytes(), 1, 13, False).types_of(np.array([0])).tolist() == [*range(13)]
    writing.write_shortlist(path, 3, [[10, 11, 12]])
    types = parsed(path.read_bytes(), 1, 13, False).types_of(np.array([0]))
    assert types.tolist() == [0, 1, 2, 3, 4, 10, 11, 12]


def test_other_numbers(path):
    shortlist = parsed(path.read_bytes(), N_SOURCE, N_TARGET, True)
    generator = np.random.default_rng(1)
    source_numbers = generator.permutation(N_SOURCE) + 2
    target_numbers = generator.permutation(N_TARGET + 2)[:N_TARGET]
    other = shortlist.renumbered(source_numbers, target_numbers)
    source = generator.integers(N_SOURCE, size=(2, 4))
    expected = np.sort(target_numbers[shortlist.types_of(source)])
    new = np.concatenate([source_numbers[source].ravel(), [0, 1]])
    np.testing.assert_array_equal(other.types_of(new), expected)


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
        parsed(bytes(data), N_SOURCE, N_TARGET, True)


def test_shortlists_of_other_vocabularies(path):
    data = path.read_bytes()
    with pytest.raises(ValueError, match="is for 30 source types; the vocabulary has 31"):
        parsed(data, N_SOURCE + 1, N_TARGET, True)
    with pytest.raises(ValueError, match="beyond the 40"):
        parsed(data, N_SOURCE, 40, True)
    with pytest.raises(ValueError, match="is not a binary shortlist"):
        parsed(b"", N_SOURCE, N_TARGET, True)
    data = data.replace(struct.pack("<2Q", 1, 3), struct.pack("<2Q", 3, 1))
    with pytest.raises(ValueError, match="not in order"):
        parsed(data, N_SOURCE, N_TARGET, True)


def test_damaged_files(path):
    def read():
        shortlist = parsed(path.read_bytes(), N_SOURCE, N_TARGET, True)
        types = shortlist.types_of(np.arange(N_SOURCE))
        assert types[-1] < N_TARGET

    assert mutations.check(path, read, (ValueError,)) > mutations.COUNT / 10
