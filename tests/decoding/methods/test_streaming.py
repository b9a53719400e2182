"""Streams: the translations of ``variable_beam`` in another order, within the capacity."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding.methods.beam_batch import BeamBatch
from fairseq_fastdec.decoding.methods.streaming import Capacity
from tests.support import tiny
from tests.support.to_read import (
    LENGTHS,
    assert_same_lists,
    decoded,
    fp64_model,
    method_to_read,
)
from tests.support.trained_models import TASK


def test_the_share_of_the_capacity_in_use():
    assert Capacity().share(100, 100, 100) == 0
    assert Capacity(sentences=4, source_tokens=10).share(1, 5, 99) == 0.5
    assert Capacity(rows=8).share(1, 5, 6) == 0.75
    # With a number of sentences, rows limit steps and not what is under way.
    assert Capacity(sentences=4, rows=8).share(1, 5, 6) == 0.25


@pytest.mark.parametrize("policy", ["min-length", "fifo"])
@settings(max_examples=8)
@given(
    n=st.integers(1, 5), refill=st.sampled_from([0.0, 0.3, 0.9]),
    rows=st.none() | st.integers(4, 9), finalize=st.sampled_from(["paper", "fairseq"]),
)  # fmt: skip
def test_the_translations_of_a_batch(policy, n, refill, rows, finalize):
    models, sample = [fp64_model()], tiny.random_batch(TASK, LENGTHS)
    options = dict(beam=4, max_len_b=12)
    expected = decoded(models, sample, "variable_beam", dict(finalize=finalize), **options)
    method = dict(
        stream_policy=policy, refill_threshold=refill, max_beam_rows=rows, finalize=finalize
    )
    generator = method_to_read(models, "streaming", method, **options)
    generator.capacity.sentences = n
    steps = watch(generator)
    assert_same_lists(generator.generate(models, sample), expected)
    for under_way, lengths, n_rows in steps:
        assert under_way <= n
        assert policy == "fifo" or len(set(lengths)) == 1
        assert rows is None or n_rows <= rows
    refills = generator.statistics.refills
    assert refills == generator.statistics.encoder_invocations - 1
    assert n >= len(LENGTHS) or refills > 0


def watch(generator):
    """What each step expands: sentences under way, the lengths of the beams, and their rows."""
    steps, search = [], generator.search

    def watched(batch: BeamBatch, *others):
        expand = batch.expand

        def noted(focus, bos):
            lengths = [beam.length for beam in focus]
            n_rows = sum(len(beam.growing) for beam in focus)
            steps.append((len(batch.beams), lengths, n_rows))
            return expand(focus, bos)

        batch.expand = noted
        return search(batch, *others)

    generator.search = watched
    return steps
