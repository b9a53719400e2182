"""Caches of rows and sources against lists."""

import torch

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
