"""The memory of keys and values grows with its use, and keeps what it holds."""

import pytest
import torch

from fairseq_fastdec.engine.network import cache as module
from fairseq_fastdec.engine.network.cache import KeyValueCache


def filled(n_slots, length):
    """A cache of two layers, and what was written to it: ``[n_slots, length, 2, 2, H, D]``."""
    cache = KeyValueCache(2, 3, 4, torch.float32, torch.device("cpu"))
    cache.reserve(n_slots, length)
    generator = torch.Generator().manual_seed(0)
    content = torch.randn(n_slots, length, 2, 2, 3, 4, generator=generator)
    cache.write_all(slice(0, n_slots), content)
    return cache, content


def read(cache, n_slots, length):
    """What :func:`filled` wrote, as it is read, layer by layer."""
    layers = [torch.stack(cache.read(layer, slice(0, n_slots), length)) for layer in range(2)]
    return torch.stack(layers).permute(2, 4, 0, 1, 3, 5)


def test_it_is_as_large_as_its_use_and_not_many_rows_times_a_long_one():
    cache = KeyValueCache(1, 1, 2, torch.float32, torch.device("cpu"))
    cache.reserve(2, 1000)
    cache.reserve(1000, 2)
    assert cache._data.numel() <= 4 * (2 * 2 * 1000 * 2)


def test_what_is_stored_stays_when_it_grows():
    cache, content = filled(3, 5)
    for n_slots, length in ((4, 5), (4, 9), (40, 9), (40, 100)):
        cache.reserve(n_slots, length)
        assert torch.equal(read(cache, 3, 5), content)


def test_layer_by_layer_and_row_by_row_it_is_written_as_at_once():
    cache, content = filled(3, 5)
    other, _ = filled(3, 5)
    start = torch.tensor([3, 0, 1])
    for layer in range(2):
        cache.write(layer, slice(1, 3), 2, content[:2, :2, layer])
        places = start[1:, None] + torch.arange(2)
        other.write_ragged(layer, slice(1, 3), places, content[:2, :2, layer])
    assert torch.equal(read(cache, 3, 5)[1:, 2:4], content[:2, :2])
    for row in (1, 2):
        first = int(start[row])
        assert torch.equal(read(other, 3, 5)[row, first : first + 2], content[row - 1, :2])


def test_the_tokens_of_a_path_come_to_lie_side_by_side():
    cache, content = filled(3, 6)
    # The first slot stands apart; the second keeps tokens 0, 2 and 3 behind its first one.
    cache.gather(torch.tensor([1, 2]), torch.tensor([[0, 2, 3], [0, 1, 2]]), first=1)
    expected = content.clone()
    expected[1, 2:4] = content[1, 3:5]
    assert torch.equal(read(cache, 3, 6), expected)


@pytest.mark.parametrize("few", [0, 1 << 30], ids=["many", "few"])
@pytest.mark.parametrize(
    "kept, rounded", [("float32", None), ("bfloat16", None), ("float32", "bfloat16")]
)
def test_sources_are_written_behind_others(few, kept, rounded, monkeypatch):
    monkeypatch.setattr(module, "FEW", few)
    kept, rounded = getattr(torch, kept), getattr(torch, rounded or kept)
    cache = KeyValueCache(2, 3, 4, kept, torch.device("cpu"), rounded)
    contents = torch.randn(2, 2, 5, 2, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    for first, content in zip((0, 2), contents):
        cache.reserve(first + 2, 5)
        cache.write_all(slice(first, first + 2), content)
    expected = contents.flatten(0, 1).to(rounded).to(kept)
    assert torch.equal(read(cache, 4, 5), expected)
