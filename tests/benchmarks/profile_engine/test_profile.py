"""The engine's profile: whole times, split without gaps or overlaps."""

import time

import pytest
import torch

from benchmarks.profile_engine.profile import (
    BYTES_OF_WEIGHT,
    PARTS,
    memory_bandwidth,
    profile,
)
from tests.support import tiny
from tests.support.compiled import compiled
from tests.support.profiling import case
from tests.support.trained_models import TASK, blockwise_model, stock_model

DICTIONARY = TASK.target_dictionary


@compiled
@pytest.mark.parametrize(
    "decoding, beam",
    [("greedy", 1), ("lookahead", 1), ("jacobi", 1), ("beam", 3), ("streaming", 2)],
)
def test_parts_make_the_whole(decoding, beam):
    start = time.perf_counter()
    result = profile(stock_model(0), DICTIONARY, case(decoding=decoding, beam=beam), 1e9, repeats=2)
    most = 1e3 * (time.perf_counter() - start)
    assert list(result.parts) == list(PARTS)
    assert result.total == pytest.approx(sum(result.parts.values()))
    assert result.parts["prediction heads"] == 0
    assert all(0 < ms < most for part, ms in result.parts.items() if part != "prediction heads")


@compiled
def test_heads_that_propose():
    result = profile(blockwise_model(), DICTIONARY, case(decoding="blockwise"), 1e9, repeats=1)
    assert all(ms > 0 for ms in result.parts.values())


@compiled
def test_the_floor_counts_each_weight_of_a_step():
    """Two layers of 32 x (3 + 1 + 1 + 1) x 32 and 2 x 32 x 64, and the output layer."""
    model = tiny.build_model(TASK)
    n_weights = 2 * (6 * 32 * 32 + 2 * 32 * 64) + 32 * len(DICTIONARY)
    for precision in BYTES_OF_WEIGHT:
        result = profile(model, DICTIONARY, case(precision=precision), 1e6, repeats=1)
        n_bytes = BYTES_OF_WEIGHT[precision]
        assert result.floor == pytest.approx(n_weights * n_bytes / 1e6 * 1e3)


def test_what_the_compiled_search_cannot_decode():
    model = stock_model(0, dtype=torch.float64)
    with pytest.raises(ValueError, match="--decoding greedy: only compiled code"):
        profile(model, DICTIONARY, case(precision="model"), 1e9, repeats=1)


def test_bandwidth_is_of_this_world():
    assert 1e8 < memory_bandwidth(1 << 24) < 1e13
