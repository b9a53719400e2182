"""The methods in torch, for comparison with fairseq's generators and compiled code."""

import argparse
import copy
import functools

import torch
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.decoding.statistics import record_of
from tests.support.against_fairseq import NAMES, extra_of
from tests.support.trained_models import TASK, blockwise_model, stock_model

GUESSES = ["pad", "copy", "previous", "ngram", "source"]
JACOBI = ["jacobi", "gs_jacobi", "hybrid_jacobi"]
BEAMS = ["beam", "variable_beam", "streaming"]
LENGTHS = [3, 5, 8, 2, 6, 4, 0, 7]


def arguments(beam=1, **options):
    """fairseq's options, by the names in its ``SequenceGenerator`` or in its commands."""
    args = {NAMES.get(name, name): value for name, value in options.items()}
    if "normalize_scores" in args:
        args["unnormalized"] = not args.pop("normalize_scores")
    return argparse.Namespace(beam=beam, **args)


def compiled_method(models, decoding, method=None, task=TASK, **options):
    """A method, in compiled code if possible; ``method`` has the plugin's options."""
    our_options = DecodingOptions(decoding=decoding, **(method or {}))
    our_options.check()
    extra = extra_of(options)
    return build_generator(
        models,
        task.target_dictionary,
        arguments(**options),
        our_options,
        extra,
        source_dictionary=task.source_dictionary,
    )


def method_to_read(models, decoding, method=None, task=TASK, **options):
    """A method in torch; ``method`` has the plugin's options, ``options`` fairseq's."""
    generator = compiled_method(models, decoding, method, task, **options)
    generator.search = None
    return generator


def decoded(models, sample, decoding, method=None, prefix=None, bos=None, **options):
    """The hypotheses of a method in torch for a batch."""
    generator = method_to_read(models, decoding, method, **options)
    return generator.generate(models, sample, prefix_tokens=prefix, bos_token=bos)


def assert_same_lists(ours, theirs, atol=1e-4):
    """Check for the same hypotheses of each sentence in the same order, with the same scores."""
    assert len(ours) == len(theirs)
    for own, expected in zip(ours, theirs):
        assert [one["tokens"].tolist() for one in own] == [
            one["tokens"].tolist() for one in expected
        ]
        for one, reference in zip(own, expected):
            assert one["tokens"].dtype == torch.long
            for name in ("positional_scores", "score"):
                torch.testing.assert_close(one[name], reference[name], atol=atol, rtol=0)


def assert_as_compiled(
    models, sample, decoding, method=None, prefix=None, capacity=None, seed=7, **options
):
    """Check that a method in torch gives the same hypotheses as in compiled code.

    Args:
        capacity: the capacity of ``streaming``, by attribute.
    """
    results = []
    for make in (method_to_read, compiled_method):
        torch.manual_seed(seed)
        generator = make(models, decoding, method, **options)
        for name, value in (capacity or {}).items():
            setattr(generator.capacity, name, value)
        results.append(generator.generate(models, sample, prefix_tokens=prefix))
    assert_same_lists(*results)


def record_into(generator):
    """Redirect --decoding-stats to a list, and return it."""
    written = []
    generator._file.write = lambda results: written.extend(record_of(*own) for own in results)
    return written


@functools.cache
def fp64_model(trained=True):
    """A stock model in fp64: trained to reverse, or random."""
    model = stock_model() if trained else stock_model(trained=False)
    return copy.deepcopy(model).double()


def model_with(heads):
    """A model with parallel or sequential heads."""
    return blockwise_model() if heads == "parallel" else blockwise_model(block_heads=heads)


@st.composite
def jacobi_strategy(draw, decoding, pools=("sentence",)):
    """Random options of a Jacobi method or of lookahead."""
    method = dict(guess=draw(st.sampled_from(GUESSES)))
    if method["guess"] in ("ngram", "source"):
        method["ngram_order"] = draw(st.integers(2, 4))
    if method["guess"] == "ngram":
        method["ngram_pool"] = draw(st.sampled_from(pools))
    if decoding in ("jacobi", "gs_jacobi"):
        method["oracle_length"] = draw(st.booleans())
    if decoding in ("gs_jacobi", "hybrid_jacobi"):
        method["jacobi_block_size"] = draw(st.integers(1, 7))
    if decoding == "hybrid_jacobi":
        method["parallel_len_a"] = draw(st.sampled_from([0.0, 0.5, 1.5]))
        method["parallel_len_b"] = draw(st.none() | st.integers(0, 9))
    if decoding == "lookahead":
        method["lookahead_window"] = draw(st.integers(1, 9))
    return method
