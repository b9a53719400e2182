"""Models that the engine cannot run, and ensembles with them, against fairseq's own generator.

These tests are about several methods, so they stand beside the folders of the methods.
"""

import argparse
import functools
import math

import pytest
import torch
from fairseq.criterions.adaptive_loss import AdaptiveLoss
from fairseq.modules.beamable_mm import BeamableMM
from fairseq.sequence_generator import SequenceGenerator
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.methods.beams import BEAMS
from fairseq_fastdec.decoding.options import DecodingOptions
from tests.support import command_line, tiny
from tests.support.against_fairseq import (
    assert_as_fairseq,
    assert_same,
    fairseq_hypotheses,
    lengths_strategy,
    options_strategy,
    our_generator,
    our_hypotheses,
)
from tests.support.doubles import table_model
from tests.support.trained_models import TASK, stock_model

CONV = "[(32, 3)] * 3"
MODELS = {
    "lstm": dict(arch="lstm"),
    "lstm without attention": dict(arch="lstm", decoder_attention="0"),
    "fconv": dict(arch="fconv", encoder_layers=CONV, decoder_layers=CONV),
    "adaptive softmax": dict(adaptive_softmax_cutoff="8,16"),
    "cross-self-attention": dict(cross_self_attention=True, no_cross_attention=True),
}
ENSEMBLES = {
    **{name: [name] for name in MODELS},
    "double": ["double"],
    "lstm and transformer": ["lstm", "transformer"],
    "transformer and the others": ["transformer", "fconv", "adaptive softmax", "lstm"],
}


@functools.cache
def trained(name):
    """A model that reverses its source, more or less."""
    if name == "double":
        return table_model(TASK)
    if name == "transformer":
        return stock_model()
    model = tiny.build_model(TASK, **{"criterion": "cross_entropy", **MODELS[name]})
    return tiny.train(model, TASK, updates=100, reverse=True, loss_of=own_loss, lr=5e-3)


def own_loss(model, batch):
    """The cross entropy, with the source in the order that recurrent encoders take."""
    net_input = batch["net_input"]
    order = net_input["src_lengths"].argsort(descending=True)
    net_input = {name: value[order] for name, value in net_input.items()}
    batch = {"net_input": net_input, "target": batch["target"][order], "ntokens": 1}
    if model.decoder.adaptive_softmax is not None:
        return AdaptiveLoss(TASK, sentence_avg=False)(model, batch)[0] / len(order)
    logits = model(**net_input)[0]
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch["target"].flatten(), ignore_index=1
    )


def members(ensemble):
    return [trained(name) for name in ENSEMBLES[ensemble]]


def assert_same_but_for_a_tie(mine, other):
    """The same hypotheses, or such as had the same score, to the last bits, at some step."""
    if mine["tokens"].tolist() == other["tokens"].tolist():
        torch.testing.assert_close(mine["score"], other["score"], atol=1e-4, rtol=0)
        return
    sums = [hypothesis["positional_scores"].cumsum(dim=0) for hypothesis in (mine, other)]
    steps = zip(*(own.tolist() for own in sums))
    assert min(abs(a - b) for a, b in steps) < 2e-6, [mine["tokens"], other["tokens"]]


def descending(lengths, **options):
    """Longest first, as fairseq's batches are: its recurrent encoders take no others."""
    return tiny.random_batch(TASK, sorted(lengths, reverse=True), **options)


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@settings(max_examples=15)
@given(options=options_strategy, lengths=lengths_strategy, seed=st.integers(0, 99))
def test_greedy_is_fairseqs_beam_1(ensemble, options, lengths, seed):
    sample = descending(lengths, seed=seed)
    assert_as_fairseq(members(ensemble), sample, "greedy", **options)


@pytest.mark.parametrize("method", BEAMS)
@pytest.mark.parametrize("ensemble", ENSEMBLES)
@settings(max_examples=5)
@given(lengths=lengths_strategy, seed=st.integers(0, 99), capacity=st.integers(1, 4))
def test_beams_are_fairseqs(ensemble, method, lengths, seed, capacity):
    """Without pruning all three find what fairseq finds, however few sentences are under way."""
    sample = descending(lengths, seed=seed)
    options = dict(decoding=method, finalize="fairseq", prune_threshold=math.inf, max_candidates=8)
    generator = build_generator(
        members(ensemble),
        TASK.target_dictionary,
        argparse.Namespace(beam=4, nbest=4, max_len_b=12),
        DecodingOptions(**options),
    )
    if method == "streaming":
        generator.capacity.sentences = capacity
    reference = SequenceGenerator(
        members(ensemble), TASK.target_dictionary, beam_size=4, max_len_b=12
    )
    ours, theirs = generator.generate(None, sample), reference.generate(None, sample)
    for own, expected in zip(ours, theirs, strict=True):
        assert len(own) == len(expected)
        for mine, other in zip(own, expected):
            assert_same_but_for_a_tie(mine, other)


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@settings(max_examples=10)
@given(lengths=lengths_strategy, seed=st.integers(0, 99), width=st.integers(0, 6))
def test_prefixes_of_any_lengths(ensemble, lengths, seed, width):
    sample = descending(lengths, seed=seed)
    prefix = sample["target"][:, :width]
    assert_as_fairseq(members(ensemble), sample, "greedy", prefix_tokens=prefix, max_len_b=12)


def only(sample, index):
    """A batch of one sentence, without padding."""
    length = sample["net_input"]["src_lengths"][[index]]
    tokens = sample["net_input"]["src_tokens"][[index], -length.item() :]
    return {"net_input": {"src_tokens": tokens, "src_lengths": length}}


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_batches_in_any_order_and_one_generator_for_all(ensemble):
    generator = our_generator(members(ensemble), "greedy")
    for lengths in ([3, 9, 1, 5], [2], [0, 8, 8, 4, 1, 6]):
        sample = tiny.random_batch(TASK, lengths)
        together = generator.generate(None, sample)
        for index in range(len(lengths)):
            alone = fairseq_hypotheses(members(ensemble), only(sample, index))
            assert_same([together[index]], alone)


@pytest.mark.parametrize("name", ["lstm", "fconv"])
def test_half_precision(name):
    model = tiny.build_model(TASK, **{"criterion": "cross_entropy", **MODELS[name]})
    model.load_state_dict(trained(name).state_dict())
    model.to(torch.bfloat16)
    sample = descending([7, 4, 2])
    hypotheses = our_hypotheses([model], sample, "greedy")
    assert all(h[0]["positional_scores"].dtype == torch.float32 for h in hypotheses)
    assert_same(hypotheses, fairseq_hypotheses([model], sample), atol=0.05)


def test_after_fairseqs_attention_for_whole_beams():
    """fairseq-generate prepares fconv for --beam rows a sentence, 5 unless given."""
    model = tiny.build_model(TASK, **MODELS["fconv"])
    model.load_state_dict(trained("fconv").state_dict())
    model.make_generation_fast_(beamable_mm_beam_size=5)
    assert any(isinstance(module, BeamableMM) for module in model.modules())
    sample = descending([7, 5, 4, 4, 2, 1, 0])
    assert_same(
        our_hypotheses([model], sample, "greedy"), fairseq_hypotheses([trained("fconv")], sample)
    )


def test_on_the_command_line(corpus, baseline, tmp_path):
    """An lstm with a transformer, and an fconv, with fairseq's own task and generator for truth."""
    paths = {"transformer": baseline}
    sizes = ["--encoder-embed-dim", "32", "--decoder-embed-dim", "32"]
    options = {
        "lstm": ["--decoder-out-embed-dim", "32"],
        "fconv": ["--encoder-layers", CONV, "--decoder-layers", CONV],
    }
    for arch, own in options.items():
        command_line.train(
            corpus, tmp_path / arch, "--task", "translation", "--arch", arch, updates=60,
            sizes=sizes + own,
        )  # fmt: skip
        paths[arch] = tmp_path / arch / "checkpoint_last.pt"
    for ensemble in (["lstm", "transformer"], ["fconv"]):
        path = ":".join(str(paths[name]) for name in ensemble)
        ours = command_line.generate(corpus, path, "--decoding", "greedy", "--batch-size", 8)
        theirs = command_line.generate(corpus, path, "--beam", 1, "--batch-size", 8)
        assert len(command_line.hypotheses(theirs)) == 29
        assert command_line.hypotheses(ours) == command_line.hypotheses(theirs)
