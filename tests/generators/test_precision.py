"""--engine-precision: lossless methods stay lossless within a precision.

These tests are about several methods, so they stand beside the folders of the methods.
"""

import argparse

import pytest
import torch

from fairseq_fastdec.generators import build_generator
from fairseq_fastdec.generators.options import DecodingOptions
from tests.support import tiny
from tests.support.trained_models import TASK, blockwise_model, stock_model


def decode(model, precision, decoding, beam=1, **options):
    method = DecodingOptions(decoding=decoding, engine_precision=precision, **options)
    method.check()
    args = argparse.Namespace(beam=beam, max_len_b=15)
    generator = build_generator([model], TASK.target_dictionary, args, method)
    sample = tiny.random_batch(TASK, [9, 3, 1, 6, 8, 0, 5, 7])
    return [own[0] for own in generator.generate([model], sample)]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("decoding", ["blockwise", "jacobi", "gs_jacobi", "lookahead", "auto"])
def test_the_tokens_of_greedy_decoding(precision, decoding):
    model = blockwise_model() if decoding == "blockwise" else stock_model()
    greedy = decode(model, precision, "greedy")
    other = decode(model, precision, decoding)
    assert [h["tokens"].tolist() for h in other] == [h["tokens"].tolist() for h in greedy]
    for own, expected in zip(other, greedy):
        assert own["score"].item() == pytest.approx(expected["score"].item(), abs=0.02)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_streams_are_variable_beams(precision):
    model = stock_model()
    streamed = decode(model, precision, "streaming", beam=3, max_beam_rows=6)
    batch = decode(model, precision, "variable_beam", beam=3)
    assert [h["tokens"].tolist() for h in streamed] == [h["tokens"].tolist() for h in batch]


def test_less_precision_costs_a_little_score_and_no_more():
    model = stock_model()
    exact = decode(model, "model", "greedy")
    rounded = decode(model, "int8", "greedy")
    # Where the two best tokens are as close as that, rounding may choose the other.
    same = [(a, b) for a, b in zip(exact, rounded) if torch.equal(a["tokens"], b["tokens"])]
    assert len(same) >= len(exact) - 2
    differences = [abs((a["score"] - b["score"]).item()) for a, b in same]
    assert 0 < max(differences) < 0.1
