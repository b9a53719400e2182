"""Caches of rows and sources against lists."""

import torch

from fairseq_fastdec.network.caches import RowCache, SourceCache

LIKE = torch.zeros(0, dtype=torch.float64)


def write(cache, rows, n_new):
    """Write numbered keys behind some rows, in one layer; returns them."""
    keys = torch.randn(rows.numel(), n_new, 2, dtype=torch.float64)
    cache.reserve(cache.longest + n_new)
    places = cache.lengths[rows][:, None] + torch.arange(n_new)
    cache.write(0, rows, places, keys, -keys)
    return keys


def test_rows_hold_what_they_keep():
    cache = RowCache(1, 2, LIKE)
    assert cache.longest == 0
    cache.add(3)
    first = write(cache, torch.arange(3), 3)
    cache.keep(torch.arange(3), torch.tensor([3, 0, 1]))
    second = write(cache, torch.tensor([2, 1]), 2)
    cache.keep(torch.tensor([2, 1]), torch.tensor([2, 1]))
    assert cache.lengths.tolist() == [3, 1, 3] and cache.longest == 3
    keys, values = cache.read(0, torch.tensor([1, 2]), 3)
    assert torch.equal(keys[0, :1], second[1, :1])
    assert torch.equal(keys[1], torch.cat([first[2, :1], second[0]]))
    assert torch.equal(values, -keys)


def test_rows_are_selected():
    cache = RowCache(1, 2, LIKE)
    cache.add(2)
    fed = write(cache, torch.arange(2), 1)
    cache.keep(torch.arange(2), torch.tensor([1, 1]))
    cache.select(torch.tensor([1, 0, 1]))
    keys, _ = cache.read(0, torch.arange(3), 1)
    assert torch.equal(keys, fed[[1, 0, 1]])
    cache.select(torch.zeros(0, dtype=torch.long))
    assert cache.longest == 0


def test_sources_of_any_width_stay_as_long_as_their_rows():
    cache = SourceCache(1, 2, LIKE)
    short = torch.randn(1, 2, 2, 3, 2, dtype=torch.float64)
    long = torch.randn(1, 2, 1, 5, 2, dtype=torch.float64)
    cache.add(short, torch.tensor([[True, True, True], [False, True, True]]))
    cache.add(long, torch.ones(1, 5, dtype=torch.bool))
    cache.select(torch.tensor([2, 1, 1]))
    keys, values, visible = cache.read(0, torch.arange(3))
    assert torch.equal(keys[0], long[0, 0, 0]) and torch.equal(values[0], long[0, 1, 0])
    assert torch.equal(keys[1, :3], short[0, 0, 1]) and torch.equal(keys[1], keys[2])
    assert visible.tolist()[1] == [False, True, True, False, False]
    assert cache.visible.size(0) == 2
