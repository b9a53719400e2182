"""What is counted of a decoding: the same by torch's counter and by compiled code's."""

import argparse

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.compare.operations import Operations
from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.engine.kernels import loading
from tests.support import tiny
from tests.support.compiled import compiled

TASK = tiny.task(20)
LENGTH = 7


def forced(**options):
    """A model, one source of 5 tokens, and a generator of outputs of one length, EOS included."""
    model = tiny.stir(tiny.build_model(TASK)).eval()
    args = argparse.Namespace(
        beam=options.pop("beam", 1), max_len_a=0, max_len_b=LENGTH - 1, min_len=LENGTH - 1
    )
    generator = build_generator(
        [model], TASK.target_dictionary, args, DecodingOptions(**options), None, None,
        TASK.source_dictionary,
    )  # fmt: skip
    return generator, model, tiny.random_batch(TASK, [5])


def counted(generator, model, batch):
    # Weights are prepared in the first call.
    generator.generate([model], batch)
    with Operations() as operations:
        hypotheses = generator.generate([model], batch)
    assert hypotheses[0][0]["tokens"].numel() == LENGTH
    return operations.flops


def of_fairseq(beam):
    _, model, batch = forced(decoding="greedy")
    generator = SequenceGenerator(
        [model], TASK.target_dictionary, beam_size=beam, max_len_a=0, max_len_b=LENGTH - 1,
        min_len=LENGTH - 1,
    )  # fmt: skip
    return counted(generator, model, batch)


def weights(layer):
    """The numbers of a layer's matrices; fairseq 0.12.2 keeps some of them twice."""
    names = ("k_proj", "v_proj", "q_proj", "out_proj", "fc1", "fc2")
    return sum(
        module.weight.numel()
        for name, module in layer.named_modules()
        if name.split(".")[-1] in names
    )


def by_hand():
    """Greedy decoding of one source, layer by layer."""
    _, model, batch = forced(decoding="greedy")
    n = batch["net_input"]["src_tokens"].size(1)
    encoder, decoder = model.encoder, model.decoder
    dim = decoder.embed_dim
    sum_of = sum(weights(layer) * n + 2 * dim * n * n for layer in encoder.layers)
    for layer in decoder.layers:
        of_source = 2 * layer.encoder_attn.k_proj.weight.numel()
        sum_of += of_source * n + (weights(layer) - of_source) * LENGTH
        sum_of += 2 * dim * (n * LENGTH + sum(range(1, LENGTH + 1)))
    return 2 * (sum_of + decoder.output_projection.weight.numel() * LENGTH)


@compiled
@pytest.mark.parametrize("options", [{}, {"engine_precision": "int8"}])
def test_greedy_decoding_is_fairseqs_and_torchs(options, monkeypatch):
    own = counted(*forced(decoding="greedy", **options))
    monkeypatch.setattr(loading, "library", lambda: None)
    generator, model, batch = forced(decoding="greedy")
    assert own == counted(generator, model, batch) == of_fairseq(1) == by_hand()


@compiled
def test_beams_begin_with_one_row_and_read_a_source_once():
    """fairseq has a row for each candidate from the first step on."""
    greedy = counted(*forced(decoding="greedy"))
    own = counted(*forced(decoding="beam", beam=3))
    assert greedy < own < of_fairseq(3) < 3 * greedy


def test_calls_add_up():
    generator, model, batch = forced(decoding="greedy")
    one = counted(generator, model, batch)
    with Operations() as operations:
        for _ in range(3):
            generator.generate([model], batch)
    assert operations.flops == 3 * one


def test_torchs_counter_works_as_before():
    with Operations() as operations, FlopCounterMode(display=False) as own:
        torch.randn(3, 4) @ torch.randn(4, 5)
    assert operations.flops == own.get_total_flops() == 2 * 3 * 4 * 5
