"""Decodes with models and batches on a device."""

import argparse
import copy

import pytest
import torch
from fairseq import utils

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.methods.beams import BEAMS
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import skips, tiny
from tests.support.trained_models import (
    DOUBLE_TASKS,
    TASK,
    blockwise_model,
    double_model,
    stock_model,
)

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason=skips.GPU)
LENGTHS = [9, 3, 1, 6, 8, 0, 5, 7]
CPU = torch.device("cpu")


def task_for(decoding):
    return DOUBLE_TASKS["bidirectional"] if decoding == "double_token" else TASK


def model_for(decoding):
    """A new copy of a model trained to reverse, in fp32 on the CPU."""
    if decoding == "double_token":
        model = double_model(dtype=torch.float64)
    else:
        model = blockwise_model() if decoding == "blockwise" else stock_model()
    return copy.deepcopy(model).float()


def batch_for(decoding, device, lengths=LENGTHS, seed=0):
    sample = tiny.random_batch(task_for(decoding), lengths, seed=seed)
    return utils.apply_to_sample(lambda tensor: tensor.to(device), sample)


def generator_for(model, decoding, **options):
    method = DecodingOptions(decoding=decoding, **options)
    method.check()
    several = decoding in (*BEAMS, "double_token")
    args = argparse.Namespace(beam=3 if several else 1, max_len_b=15)
    return build_generator([model], task_for(decoding).target_dictionary, args, method)


def decode(decoding, device, dtype=torch.float32, **options):
    """Decode two batches of different lengths with one generator; return all hypotheses."""
    model = model_for(decoding).to(device, dtype)
    generator = generator_for(model, decoding, **options)
    batches = [
        batch_for(decoding, device, lengths, seed)
        for seed, lengths in enumerate([LENGTHS, LENGTHS[:3]])
    ]
    return [own for batch in batches for own in generator.generate([model], batch)]


def tokens_of(hypotheses):
    return [[hypothesis["tokens"].tolist() for hypothesis in own] for own in hypotheses]


def assert_same(ours, theirs, atol):
    """Check for the same tokens, and scores within ``atol``."""
    assert tokens_of(ours) == tokens_of(theirs)
    for own, expected in zip(ours, theirs):
        for hypothesis, reference in zip(own, expected):
            for name in ("score", "positional_scores"):
                torch.testing.assert_close(
                    hypothesis[name].cpu(), reference[name].cpu(), atol=atol, rtol=0
                )
