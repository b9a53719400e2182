"""Scores of forced tokens, computed by the engine."""

import argparse

import torch

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny

LENGTHS = [4, 6, 3]


def generator_of(model, task, precision="model"):
    """A generator for greedy decoding by compiled code."""
    options = DecodingOptions(decoding="greedy", engine_precision=precision)
    args = argparse.Namespace(beam=1, max_len_b=12)
    generator = build_generator([model], task.target_dictionary, args, options)
    assert generator.decodes_compiled()
    return generator


def forced_tokens(task):
    """The forced tokens, int64 ``[3, 8]``."""
    return 4 + torch.arange(24).view(3, 8) % (len(task.target_dictionary) - 4)


def scores_by(generator, task):
    """The log-probabilities of eight forced tokens in each of three outputs: float32 ``[3, 8]``."""
    prefix = forced_tokens(task)
    sample = tiny.random_batch(task, LENGTHS)
    found = generator.generate([], sample, prefix_tokens=prefix)
    return torch.stack([own["positional_scores"][:8] for (own,) in found])


def scores_of(model, task, precision="model"):
    """Same as :func:`scores_by`, with a new generator."""
    return scores_by(generator_of(model, task, precision), task)
