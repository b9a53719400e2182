"""Sources without a token: an error, and never a translation of nothing."""

import argparse
import math

import pytest
import torch

from fairseq_fastdec.generators import build_generator
from fairseq_fastdec.generators.methods import METHODS
from fairseq_fastdec.generators.option_rules import BEAMS
from fairseq_fastdec.generators.options import DecodingOptions
from tests.support import tiny
from tests.support.against_fairseq import fairseq_hypotheses
from tests.support.trained_models import TASK, stock_model

EOS, PAD = TASK.source_dictionary.eos(), TASK.source_dictionary.pad()
SOURCES = {
    "alone": ([[PAD, PAD]], "7"),
    "padding": ([[5, 6, EOS], [PAD, PAD, PAD], [PAD, 6, EOS], [PAD, PAD, PAD]], "8, 10"),
    "no column": ([[], []], "7, 8"),
}


def sample_of(rows):
    tokens = torch.tensor(rows, dtype=torch.int64)
    lengths = tokens.ne(PAD).sum(dim=1)
    ids = torch.arange(7, 7 + len(rows))
    return {"id": ids, "net_input": {"src_tokens": tokens, "src_lengths": lengths}}


def generator_of(decoding):
    task, arch, sizes = TASK, "transformer", {}
    if decoding == "double_token":
        task, arch = tiny.double_token_task(), "double_token_transformer"
    if decoding == "blockwise":
        arch, sizes = "blockwise_transformer", dict(block_size=3)
    model = tiny.build_model(task, arch, **sizes)
    beam = 2 if decoding in (*BEAMS, "double_token") else 1
    args = argparse.Namespace(beam=beam, nbest=1, max_len_b=10)
    return build_generator(
        [model], task.target_dictionary, args, DecodingOptions(decoding=decoding)
    )


@pytest.mark.parametrize("rows, numbers", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("decoding", METHODS)
def test_sources_without_a_token_are_refused(decoding, rows, numbers):
    generator = generator_of(decoding)
    with pytest.raises(ValueError, match=f"^src_tokens: .* in sentences {numbers}; leave them out"):
        generator.generate([], sample_of(rows))
    assert generator.statistics.sentences == 0


@pytest.mark.parametrize("decoding", METHODS)
def test_an_empty_line_is_a_source(decoding):
    """fairseq ends every line with EOS."""
    for own in generator_of(decoding).generate([], sample_of([[PAD, EOS], [5, EOS]])):
        assert math.isfinite(own[0]["score"])


@pytest.mark.parametrize("rows", [rows for rows, _ in SOURCES.values()], ids=SOURCES)
def test_fairseqs_own_generator_gives_nothing_either(rows):
    with pytest.raises((AssertionError, RuntimeError)):
        fairseq_hypotheses([stock_model(trained=False)], sample_of(rows))
