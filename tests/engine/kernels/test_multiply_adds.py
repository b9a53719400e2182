"""What compiled code counts; ``tests/tools/benchmark/test_operations.py`` compares it."""

import torch

from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.engine.kernels.multiply_adds import multiply_adds
from fairseq_fastdec.engine.kernels.packed import PackedLinear
from tests.support.compiled import compiled


@compiled
def test_a_product_counts_its_inputs_outputs_and_tokens():
    layer = PackedLinear.of(torch.randn(7, 5), None)
    before = multiply_adds()
    layer(torch.randn(2, 3, 5))
    assert multiply_adds() - before == 2 * 3 * 5 * 7


def test_nothing_is_counted_where_nothing_was_compiled(monkeypatch):
    monkeypatch.setattr(loading, "library", lambda: None)
    assert multiply_adds() == 0
