"""Caches of rows and sources against lists."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.network.caches import RowCache, SourceCache

LIKE = torch.zeros(0, dtype=torch.float64)


def write(cache, rows, n_new):
    """Write numbered keys behind some rows, by default all, in one layer; returns them."""
    n_rows = cache.lengths.numel() if rows is None else rows.numel()
    keys = torch.randn(n_rows, n_new, 2, dtype=torch.float64)
    cache.reserve(cache.longest + n_new)
    cache.write(0, cache.places_after(rows, n_new), keys, -keys)
    return keys


def test_rows_hold_what_they_keep():
    cache = RowCache(1, 2, LIKE)
    assert cache.longest == 0
    cache.add(3)
    first = write(cache, None, 3)
    cache.keep(None, torch.tensor([3, 0, 1]), 3)
    second = write(cache, torch.tensor([2, 1]), 2)
    cache.keep(torch.tensor([2, 1]), torch.tensor([2, 1]), 2)
    assert cache.lengths.tolist() == [3, 1, 3] and cache.longest == 5
    keys, values = cache.read(0, torch.tensor([1, 2]), 3)
    assert torch.equal(keys[0, :1], second[1, :1])
    assert torch.equal(keys[1], torch.cat([first[2, :1], second[0]]))
    assert torch.equal(values, -keys)
    all_keys, _ = cache.read(0, None, 3)
    assert torch.equal(all_keys[1:], keys)


def test_rows_are_selected():
    cache = RowCache(1, 2, LIKE)
    cache.add(2)
    fed = write(cache, None, 1)
    cache.keep(None, torch.tensor([1, 1]), 1)
    cache.select(torch.tensor([1, 0, 1]))
    keys, _ = cache.read(0, None, 1)
    assert torch.equal(keys, fed[[1, 0, 1]])
    cache.select(torch.zeros(0, dtype=torch.long))
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
        keys = write(cache, None, n_new)
        kept = data.draw(st.lists(st.integers(0, n_new), min_size=len(rows), max_size=len(rows)))
        cache.keep(None, torch.tensor(kept), n_new)
        rows = [torch.cat([row, own[:n]]) for row, own, n in zip(rows, keys, kept)]
        copied = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
        cache.select(torch.tensor(copied, dtype=torch.long))
        rows = [rows[row] for row in copied]
        assert cache.lengths.tolist() == [len(row) for row in rows]
        keys, values = cache.read(0, None, cache.longest)
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


def test_sources_of_any_width_stay_as_long_as_their_rows():
    cache, short, long = two_kinds_of_sources()
    assert cache.sources_of(None) is None
    cache.select([2, 1, 1])
    sources = cache.sources_of(None)
    keys, values = cache.read(0, sources)
    assert torch.equal(keys[0], long[0, 0, 0]) and torch.equal(values[0], long[0, 1, 0])
    assert torch.equal(keys[1, :3], short[0, 0, 1]) and torch.equal(keys[1], keys[2])
    assert cache.mask(sources)[1, 0].eq(0).tolist() == [False, True, True, False, False]
    assert cache.n_sources == 2
    # Of some rows, and after more sources have come.
    cache.add(short, torch.zeros(2, 3, dtype=torch.bool))
    keys, _ = cache.read(0, cache.sources_of(torch.tensor([4, 0])))
    assert torch.equal(keys[0, :3], short[0, 0, 1]) and torch.equal(keys[1], long[0, 0, 0])


def test_rows_that_are_never_repeated_have_their_sources_in_order():
    cache, short, long = two_kinds_of_sources()
    cache.select(torch.tensor([0, 2]))
    assert cache.sources_of(None) is None and cache.n_sources == 2
    keys, _ = cache.read(0, None)
    assert torch.equal(keys[0, :3], short[0, 0, 0]) and torch.equal(keys[1], long[0, 0, 0])
    assert cache.mask(None)[0, 0].eq(0).tolist() == [True, True, True, False, False]


def test_sources_with_equally_many_rows_are_read_once():
    cache, short, long = two_kinds_of_sources()
    cache.select([0, 0, 1, 1, 2, 2])
    assert cache.sources_of(None) is None
    keys, _ = cache.read(0, None)
    assert len(keys) == len(cache.mask(None)) == 3 and torch.equal(keys[1, :3], short[0, 0, 1])
    assert cache.sources_of(torch.tensor([5, 0, 3])).tolist() == [2, 0, 1]
    # Rows in another order, and sources with other numbers of rows.
    cache.select([2, 0, 3, 1, 4, 5])
    assert cache.sources_of(None).tolist() == [1, 0, 1, 0, 2, 2]
    cache.select([0, 2, 1, 3, 4, 5])
    assert cache.sources_of(None).tolist() == [1, 1, 0, 0, 2, 2]
    cache.select([2, 3, 0, 1])
    assert cache.sources_of(None) is None and cache.n_sources == 2
    cache.add(long, torch.zeros(1, 5, dtype=torch.bool))
    assert cache.sources_of(None).tolist() == [0, 0, 1, 1, 2]
    cache.select([])
    assert cache.n_sources == 0
