"""The methods in torch, for comparison with fairseq's generators and compiled code."""

import argparse
import copy
import functools
import math

import torch
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import tiny
from tests.support.against_fairseq import NAMES
from tests.support.trained_models import TASK, blockwise_model, stock_model

DRAFTS = ["pad", "copy", "previous", "ngram", "source"]
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
    return build_generator(
        models,
        task.target_dictionary,
        arguments(**options),
        our_options,
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
    generator._file.write = written.extend
    return written


@functools.cache
def fp64_model(trained=True):
    """A stock model in fp64: trained to reverse, or random."""
    model = stock_model() if trained else stock_model(trained=False)
    return copy.deepcopy(model).double()


def model_with(heads):
    """A model with parallel or sequential heads."""
    return blockwise_model() if heads == "parallel" else blockwise_model(block_heads=heads)


models_strategy = st.sampled_from(
    [
        lambda: [fp64_model()],
        lambda: [fp64_model(trained=False)],
        lambda: [stock_model(), stock_model(1, decoder_layers=1, decoder_normalize_before=True)],
    ]
)
generation_strategy = st.fixed_dictionaries(
    dict(
        max_len_a=st.sampled_from([0, 0.5, 1.2]),
        max_len_b=st.integers(3, 12),
        min_len=st.integers(1, 3),
        unnormalized=st.booleans(),
        lenpen=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
        unkpen=st.sampled_from([0.0, -3.0, 5.0]),
        temperature=st.sampled_from([0.5, 1.0, 2.0]),
        no_repeat_ngram_size=st.sampled_from([0, 0, 2, 3]),
    )
)
samples_strategy = st.builds(
    tiny.random_batch,
    st.just(TASK),
    st.lists(st.integers(0, 9), min_size=1, max_size=7),
    left_pad=st.booleans(),
    seed=st.integers(0, 99),
)
prefix_widths = st.none() | st.integers(0, 4)


@st.composite
def jacobi_strategy(draw, decoding, pools=("sentence",)):
    """Random options of a Jacobi method or of lookahead."""
    method = dict(draft=draw(st.sampled_from(DRAFTS)))
    if method["draft"] in ("ngram", "source"):
        method["ngram_order"] = draw(st.integers(2, 4))
    if method["draft"] == "ngram":
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


blockwise_models = st.sampled_from(
    [
        lambda: [blockwise_model()],
        lambda: [blockwise_model(identity_first_head=False, freeze_base=False)],
        lambda: [blockwise_model(), blockwise_model(block_ffn="split", seed=2)],
        lambda: [blockwise_model(block_heads="sequential")],
        lambda: [blockwise_model(block_heads="sequential", block_output_rank=16)],
    ]
)


@st.composite
def blockwise_strategy(draw):
    """Random options of blockwise decoding of words."""
    method = dict(decoding_block_size=draw(st.sampled_from([None, 1, 2, 3, 4])))
    if draw(st.booleans()):
        method["proposal_tree"] = draw(st.sampled_from([1, 3, 7, 12]))
    else:
        method["acceptance"] = draw(st.sampled_from(["exact", "topk"]))
        if method["acceptance"] == "topk":
            method["acceptance_topk"] = draw(st.integers(1, 3))
        method["min_block_size"] = draw(st.integers(1, method["decoding_block_size"] or 4))
    method["proposal_types"] = draw(st.sampled_from([None, 0, 15]))
    method["proposal_confidence"] = draw(st.sampled_from([None, 0.0, 0.3, 0.9]))
    return method


@st.composite
def beams_strategy(draw, decoding):
    """Random options of a beam search, including streaming."""
    method = dict(
        finalize=draw(st.sampled_from([None, "paper", "fairseq"])),
        prune_threshold=draw(st.sampled_from([None, 0.5, 3.0, math.inf])),
        max_candidates=draw(st.sampled_from([None, 1, 2, 100])),
    )
    if decoding == "streaming":
        method["stream_policy"] = draw(st.sampled_from([None, "min-length", "fifo"]))
        method["refill_threshold"] = draw(st.sampled_from([None, 0.0, 0.5]))
        method["max_beam_rows"] = draw(st.sampled_from([None, 6, 9]))
    return method


capacities = st.fixed_dictionaries(
    dict(sentences=st.none() | st.integers(1, 4), source_tokens=st.none() | st.integers(6, 20))
)
