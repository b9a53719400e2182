"""The engine's profile: whole times, split without gaps or overlaps."""

import pytest

from fairseq_fastdec.tools.profiling.profile import PARTS, memory_bandwidth, profile
from tests.support import tiny
from tests.support.profiling import case

TASK = tiny.task(20)
# Told apart where torch computes them.
LAYERS = {part for part in PARTS if part.endswith(("products", "rest"))} | {
    "embedding",
    "feed-forward",
}


def test_parts_make_the_whole():
    model = tiny.build_model(TASK)
    result = profile(model, TASK.target_dictionary, case(), 1e9, repeats=2)
    assert set(result.parts) == set(PARTS)
    assert result.total == pytest.approx(sum(result.parts.values()))
    idle = {part for part, milliseconds in result.parts.items() if milliseconds == 0}
    layers = {
        "all layers, compiled": idle >= LAYERS,
        "self-attention, products": "all layers, compiled" in idle,
    }
    assert sum(layers.values()) == 1
    assert idle - LAYERS <= {"moving rows", "prediction heads", "softmax", "all layers, compiled"}


@pytest.mark.parametrize("decoding, beam", [("beam", 3), ("lookahead", 1), ("streaming", 2)])
def test_other_methods(decoding, beam):
    model = tiny.build_model(TASK)
    result = profile(
        model, TASK.target_dictionary, case(decoding=decoding, beam=beam), 1e9, repeats=1
    )
    assert result.parts["feed-forward"] > 0 or result.parts["all layers, compiled"] > 0
    assert result.parts["moving rows"] > 0


def test_the_floor_counts_each_weight_of_a_step():
    """Two layers of 32 x (3 + 1 + 1 + 1) x 32 and 2 x 32 x 64, and the output layer."""
    model = tiny.build_model(TASK)
    n_weights = 2 * (6 * 32 * 32 + 2 * 32 * 64) + 32 * len(TASK.target_dictionary)
    for precision, n_bytes in (("fp32", 4), ("bf16", 2), ("int8", 1)):
        result = profile(model, TASK.target_dictionary, case(precision=precision), 1e6, repeats=1)
        assert result.floor == pytest.approx(n_weights * n_bytes / 1e6 * 1e3)


def test_bandwidth_is_of_this_world():
    assert 1e8 < memory_bandwidth(1 << 24) < 1e13
