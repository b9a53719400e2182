"""Compiled code moves the rows of caches as torch does."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels import row_moves
from fairseq_fastdec.engine.kernels.row_moves import RowMover
from fairseq_fastdec.engine.network.cache import KeyValueCache
from tests.support.compiled import compiled


@compiled
@pytest.mark.parametrize("device, moves", [("meta", False), ("cpu", True)])
def test_compiled_code_moves_what_lies_on_a_cpu(device, moves):
    cache = KeyValueCache(1, 1, 4, torch.float32, torch.device(device))
    assert isinstance(cache._mover, RowMover) == moves


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("few", [0, 10**9], ids=["threads", "alone"])
@settings(max_examples=30, deadline=None)
@given(
    n_slots=st.integers(1, 9), first=st.integers(0, 3), length=st.integers(0, 5),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_rows_move_as_torch_moves_them(dtype, few, n_slots, first, length, seed):
    generator = torch.Generator().manual_seed(seed)
    caches = [KeyValueCache(3, 2, 4, dtype, torch.device("cpu")) for _ in range(2)]
    content = torch.randn(3, n_slots + first, 5, 2, 2, 4, generator=generator).to(dtype)
    for cache in caches:
        cache.reserve(n_slots + first, 5)
        for layer in range(3):
            cache.write(layer, slice(0, n_slots + first), 0, content[layer])
    caches[1]._mover = None
    order = torch.randint(0, n_slots, (n_slots,), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_moves, "FEW_BYTES", few)
        for cache in caches:
            cache.rearrange(order, length, first)
    assert torch.equal(caches[0]._data, caches[1]._data)
