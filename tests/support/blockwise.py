"""Generators for ``--decoding blockwise``, and models with predictable heads."""

import argparse
import copy

import torch

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.trained_models import TASK

EOS = TASK.target_dictionary.eos()
MAX_LEN = 12


def generator_for(models, dictionary=TASK.target_dictionary, max_len_b=MAX_LEN, **options):
    args = argparse.Namespace(beam=1, max_len_b=max_len_b)
    return build_generator(
        models, dictionary, args, DecodingOptions(decoding="blockwise", **options)
    )


def constant_model(block_size, word=7):
    """A model whose heads always predict the same word, so that every proposal is right."""
    return always(word, tiny.build_model(TASK, "blockwise_transformer", block_size=block_size))


def always(word, model):
    """Change a model to always predict the same word."""
    with torch.no_grad():
        final_norm = model.decoder.layers[-1].final_layer_norm
        final_norm.weight.zero_()
        final_norm.bias.copy_(model.decoder.output_projection.weight[word] * 9)
    return model


def in_fp64(model):
    return copy.deepcopy(model).double()
