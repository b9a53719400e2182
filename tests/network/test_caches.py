"""Caches of rows and sources against lists."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.network.caches import ALL_ROWS, RowCache, SourceCache

LIKE = torch.zeros(0, dtype=torch.float64)


def write(cache, rows, n_new):
    """Write numbered keys behind some rows in one layer; returns them."""
    keys = torch.randn(len(cache.lengths[rows]), n_new, 2, dtype=torch.float64)
    cache.reserve(rows, n_new)
    cache.write(0, cache.places_after(rows, n_new), keys, -keys)
    return keys


def test_rows_hold_what_they_keep():
    cache, some = RowCache(1, 2, LIKE), slice(1, 3)
    cache.add(3)
    assert cache.reserve(ALL_ROWS, 0) == 0
    first = write(cache, ALL_ROWS, 3)
    cache.keep(ALL_ROWS, torch.tensor([3, 0, 1]), 3)
    second = write(cache, some, 2)
    cache.keep(some, torch.tensor([1, 2]), 2)
    assert cache.lengths.tolist() == [3, 1, 3]
    keys, values = cache.read(0, some, 3)
    assert torch.equal(keys[0, :1], second[0, :1])
    assert torch.equal(keys[1], torch.cat([first[2, :1], second[1]]))
    assert torch.equal(values, -keys)
    all_keys, _ = cache.read(0, ALL_ROWS, 3)
    assert torch.equal(all_keys[1:], keys)


def test_no_more_keys_are_read_than_the_rows_can_have():
    cache, old, new = RowCache(1, 2, LIKE), slice(0, 2), slice(2, 3)
    cache.add(2)
    cache.keep(old, torch.tensor([4, 2]), 5)
    cache.add(1)
    assert [cache.reserve(rows, 1) for rows in (ALL_ROWS, old, new)] == [6, 6, 1]
    cache.tighten(4)
    assert [cache.reserve(rows, 1) for rows in (ALL_ROWS, old, new)] == [5, 5, 1]
    # Those of a tensor are not known without reading it.
    cache.select([2, 1, 0])
    assert [cache.reserve(rows, 1) for rows in (slice(0, 1), slice(1, 3))] == [1, 5]
    cache.select(torch.tensor([0, 1]))
    assert cache.reserve(slice(0, 1), 1) == 5


def test_rows_are_selected():
    cache = RowCache(1, 2, LIKE)
    cache.add(2)
    fed = write(cache, ALL_ROWS, 1)
    cache.keep(ALL_ROWS, torch.tensor([1, 1]), 1)
    cache.select([1, 0, 1])
    keys, _ = cache.read(0, ALL_ROWS, 1)
    assert torch.equal(keys, fed[[1, 0, 1]])
    cache.select([])
    assert cache.lengths.numel() == 0


@given(st.data())
def test_any_rows_are_copied_with_their_tokens(data):
    """Between two memories, of which each keeps what rows had in it before."""
    cache = RowCache(1, 2, LIKE)
    rows = []
    for _ in range(data.draw(st.integers(1, 12))):
        n_added = data.draw(st.integers(0 if rows else 1, 2))
        cache.add(n_added)
        rows += [torch.zeros(0, 2, dtype=torch.float64)] * n_added
        # More than the least capacity, so that it grows.
        n_new = data.draw(st.sampled_from([1, 2, 20]))
        keys = write(cache, ALL_ROWS, n_new)
        kept = data.draw(st.lists(st.integers(0, n_new), min_size=len(rows), max_size=len(rows)))
        cache.keep(ALL_ROWS, torch.tensor(kept), n_new)
        rows = [torch.cat([row, own[:n]]) for row, own, n in zip(rows, keys, kept)]
        copied = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
        cache.select(copied)
        rows = [rows[row] for row in copied]
        assert cache.lengths.tolist() == [len(row) for row in rows]
        keys, values = cache.read(0, ALL_ROWS, cache.reserve(ALL_ROWS, 0))
        assert len(keys) == len(rows) and keys.isfinite().all() and values.isfinite().all()
        for row, own_keys, own_values in zip(rows, keys, values):
            assert torch.equal(own_keys[: len(row)], row)
            assert torch.equal(own_values[: len(row)], -row)


def two_kinds_of_sources():
    cache = SourceCache(1, 2, LIKE)
    short = torch.randn(1, 2, 2, 3, 2, dtype=torch.float64)
    long = torch.randn(1, 2, 1, 5, 2, dtype=torch.float64)
    cache.add(short, torch.tensor([[False, False, False], [True, False, False]]))
    cache.add(long, torch.zeros(1, 5, dtype=torch.bool))
    return cache, short, long


def rows_in_slots(sharing):
    """The rows in the slots, and the slots of the rows."""
    return sharing.rows.tolist(), sharing.slots.tolist()


def test_sources_stay_as_long_as_their_rows():
    cache, short, long = two_kinds_of_sources()
    assert cache.sharing(ALL_ROWS).slots is None
    cache.select([2, 1, 1])
    # The sources keep their order: the rows are of the second, the first and the first.
    sharing = cache.sharing(ALL_ROWS)
    assert rows_in_slots(sharing) == ([1, 2, 0, 0], [2, 0, 1])
    keys, values = cache.read(0, sharing)
    assert torch.equal(keys[1], long[0, 0, 0]) and torch.equal(values[1], long[0, 1, 0])
    assert len(keys) == 2 and torch.equal(keys[0, :3], short[0, 0, 1])
    assert sharing.mask[0, 0].eq(0).tolist() == [False, True, True, False, False]
    # Of some rows, and after more sources have come.
    cache.add(short, torch.zeros(2, 3, dtype=torch.bool))
    sharing = cache.sharing(slice(2, 4))
    keys, _ = cache.read(0, sharing)
    assert len(sharing.mask) == len(keys) == 3 and rows_in_slots(sharing) == ([0, 0, 1], [0, 2])
    assert torch.equal(keys[0, :3], short[0, 0, 1]) and torch.equal(keys[2, :3], short[0, 0, 0])


@pytest.mark.parametrize("rows", [torch.tensor([0, 2]), [0, 2]], ids=["tensor", "list"])
def test_rows_that_are_never_repeated_have_their_sources_in_order(rows):
    cache, short, long = two_kinds_of_sources()
    cache.select(rows)
    sharing = cache.sharing(ALL_ROWS)
    assert sharing.slots is None and len(sharing.mask) == 2
    keys, _ = cache.read(0, sharing)
    assert torch.equal(keys[0, :3], short[0, 0, 0]) and torch.equal(keys[1], long[0, 0, 0])
    assert sharing.mask[0, 0].eq(0).tolist() == [True, True, True, False, False]


def test_no_keys_are_padding_for_all_sources():
    cache, short, long = two_kinds_of_sources()
    cache.select([0, 1, 1])
    keys, _ = cache.read(0, cache.sharing(ALL_ROWS))
    assert torch.equal(keys[0], short[0, 0, 0]) and torch.equal(keys[1], short[0, 0, 1])
    cache.add(long, torch.zeros(1, 5, dtype=torch.bool))
    keys, _ = cache.read(0, cache.sharing(ALL_ROWS))
    assert torch.equal(keys[:2, :3], short[0, 0]) and torch.equal(keys[2], long[0, 0, 0])
    keys, _ = cache.read(0, cache.sharing(slice(0, 3)))
    assert torch.equal(keys, short[0, 0])


def test_rows_of_a_source_attend_at_once():
    cache, short, long = two_kinds_of_sources()
    cache.select([0, 0, 1, 1, 2, 2])
    sharing = cache.sharing(ALL_ROWS)
    keys, _ = cache.read(0, sharing)
    assert sharing.slots is None and len(keys) == len(sharing.mask) == 3
    assert torch.equal(keys[1, :3], short[0, 0, 1])
    some = cache.sharing(slice(2, 6))
    assert some.slots is None and some.sources == slice(1, 3)
    assert rows_in_slots(cache.sharing(slice(3, 6))) == ([0, 0, 1, 2], [0, 2, 3])
    # Rows in another order, and sources with other numbers of rows.
    cache.select([2, 0, 3, 1, 4, 5])
    assert rows_in_slots(cache.sharing(ALL_ROWS)) == ([1, 3, 0, 2, 4, 5], [2, 0, 3, 1, 4, 5])
    cache.select([0, 2, 1, 3, 4, 5])
    assert rows_in_slots(cache.sharing(ALL_ROWS)) == ([2, 3, 0, 1, 4, 5], [2, 3, 0, 1, 4, 5])
    cache.select([2, 3, 0, 1])
    sharing = cache.sharing(ALL_ROWS)
    assert sharing.slots is None and len(sharing.mask) == 2
    cache.add(long, torch.zeros(1, 5, dtype=torch.bool))
    assert rows_in_slots(cache.sharing(ALL_ROWS)) == ([0, 1, 2, 3, 4, 0], [0, 1, 2, 3, 4])
    cache.select([])
    cache.add(long, torch.zeros(1, 5, dtype=torch.bool))
    sharing = cache.sharing(ALL_ROWS)
    assert sharing.slots is None and len(sharing.mask) == 1
