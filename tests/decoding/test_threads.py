"""Threads that decode with one generator, or with several generators of one model."""

import argparse
import os

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.at_once import at_once
from tests.support.trained_models import TASK, blockwise_model

METHODS = (
    "greedy", "blockwise", "jacobi", "gs_jacobi", "hybrid_jacobi", "lookahead", "auto", "beam",
    "variable_beam", "streaming",
)  # fmt: skip
BATCHES = [
    tiny.random_batch(TASK, lengths, seed=seed)
    for seed, lengths in enumerate([[4], [9, 2, 6], [1, 1], [7, 3, 5, 8, 2]])
]
# ThreadSanitizer also finds races whose accesses are at different times.
ROUNDS = 1 if "FASTDEC_SANITIZED" in os.environ else 3


def generator_of(model, method, precision="model"):
    beam = 3 if method in ("beam", "variable_beam", "streaming") else 1
    args = argparse.Namespace(beam=beam, max_len_b=12)
    options = DecodingOptions(decoding=method, engine_precision=precision)
    return build_generator([model], TASK.target_dictionary, args, options)


def outputs(generator, model, batch):
    found = generator.generate([model], batch)
    return [[hypothesis["tokens"].tolist() for hypothesis in beam] for beam in found]


@pytest.mark.parametrize("method", METHODS)
def test_calls_of_one_generator_wait_for_each_other(method):
    model = blockwise_model(block_heads="sequential")
    generator = generator_of(model, method)
    expected = [outputs(generator, model, batch) for batch in BATCHES]

    def decode():
        for _ in range(ROUNDS):
            for batch, output in zip(BATCHES, expected):
                assert outputs(generator, model, batch) == output

    at_once(*[decode] * 4)
    assert generator.statistics.sentences == (1 + 4 * ROUNDS) * sum(
        batch["nsentences"] for batch in BATCHES
    )


@pytest.mark.parametrize("block_heads", ["parallel", "sequential"])
@pytest.mark.parametrize("precision", ["model", "int8"])
def test_generators_of_one_model_decode_at_once(block_heads, precision):
    """Each has its own caches; the prepared weights are those of the model."""
    model = blockwise_model(block_heads=block_heads)
    expected = {
        method: [outputs(generator_of(model, method, precision), model, batch) for batch in BATCHES]
        for method in METHODS
    }

    def decode(method):
        def run():
            for _ in range(ROUNDS):
                generator = generator_of(model, method, precision)
                for batch, output in zip(BATCHES, expected[method]):
                    assert outputs(generator, model, batch) == output

        return run

    def decode_with_fairseq():
        generator = SequenceGenerator([model], TASK.target_dictionary, beam_size=1, max_len_b=12)
        for _ in range(ROUNDS):
            for batch in BATCHES:
                with torch.no_grad():
                    generator.generate([model], batch)

    at_once(*[decode_with_fairseq, *map(decode, METHODS), decode("blockwise")])
