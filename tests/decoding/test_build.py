"""``build_generator``: requests that a method cannot honour are refused by name."""

import argparse

import pytest
import torch

from fairseq_fastdec.decoding import build_generator, generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.network.support import UnsupportedModel
from tests.support import tiny

TASK = tiny.task(20)


def build(model=None, extra=None, prefix_fn=None, decoding="greedy", **args):
    model = model or tiny.build_model(TASK)
    args = argparse.Namespace(**{"beam": 1, **args})
    options = DecodingOptions(decoding=decoding)
    return build_generator([model], TASK.target_dictionary, args, options, extra, prefix_fn)


@pytest.mark.parametrize(
    "args, flag",
    [
        (dict(sampling=True), "--sampling"),
        (dict(diverse_beam_groups=2), "--diverse-beam-groups"),
        (dict(diversity_rate=0.5), "--diversity-rate"),
        (dict(match_source_len=True), "--match-source-len"),
        (dict(constraints="ordered"), "--constraints"),
        (dict(sampling_topk=3), "--sampling-topk"),
        (dict(sampling_topp=0.3), "--sampling-topp"),
        (dict(nbest=2), "--nbest"),
        (dict(print_step=True), "--print-step"),
        (dict(retain_iter_history=True), "--retain-iter-history"),
        (dict(lm_path="lm.pt", decoding="lookahead"), "--lm-path"),
        (dict(beam=10), "--beam 10"),
        (dict(extra={"tokens_to_suppress": ("w1",)}), "tokens_to_suppress"),
        (dict(prefix_fn=lambda batch, tokens: [1]), "prefix_allowed_tokens_fn"),
    ],
)
def test_options_without_a_meaning(args, flag):
    with pytest.raises(ValueError, match=f"^{flag}.*--decoding"):
        build(**args)


@pytest.mark.parametrize(
    "args, flag",
    [
        (dict(no_repeat_ngram_size=2), "--no-repeat-ngram-size"),
        (dict(sampling=True), "--sampling"),
        (dict(diverse_beam_groups=2), "--diverse-beam-groups"),
        (dict(print_alignment="hard"), "--print-alignment"),
        (dict(replace_unk=""), "--replace-unk"),
    ],
)
def test_pairs_of_tokens_name_no_generator_that_cannot_run_them(args, flag):
    message = f"^{flag}: not possible with --decoding double_token; remove it$"
    with pytest.raises(ValueError, match=message):
        build(decoding="double_token", **args)


@pytest.mark.parametrize(
    "args, instead",
    [
        (dict(sampling=True), "--decoding beam, which draws --beam samples"),
        (dict(constraints="ordered"), "--decoding beam"),
        (dict(lm_path="lm.pt", decoding="jacobi"), "--decoding beam"),
        (dict(retain_iter_history=True), "--decoding fairseq"),
    ],
)
def test_what_to_use_instead(args, instead):
    with pytest.raises(ValueError, match=f"; remove it or use {instead}"):
        build(**args)


def test_fairseqs_default_beam_is_nothing_to_speak_of(caplog):
    with caplog.at_level("INFO"):
        build(beam=5)
    assert "--beam" not in caplog.text


def test_an_option_of_the_task_that_a_command_line_left_out():
    task = argparse.Namespace(decoding="double_token", decoding_stats="stats.jsonl")
    given = argparse.Namespace(decoding=None, decoding_stats="others.jsonl")
    options = DecodingOptions.merged(task, given)
    assert (options.decoding, options.decoding_stats) == ("double_token", "others.jsonl")


def test_constraints_in_a_batch():
    generator = build()
    sample = tiny.random_batch(TASK, [3])
    with pytest.raises(ValueError, match="--constraints"):
        generator.generate([], sample, constraints=torch.zeros(1, 1))


def test_a_minimum_length_that_does_not_fit():
    generator = build(min_len=9, max_len_b=4)
    with pytest.raises(ValueError, match="--min-len 9: .*--max-len-b 4"):
        generator.generate([], tiny.random_batch(TASK, [3]))


def test_the_models_positions_limit_the_output():
    model = tiny.stir(tiny.build_model(TASK, max_target_positions=8, decoder_learned_pos=True))
    with torch.no_grad():
        model.decoder.output_projection.weight[2] = -model.decoder.output_projection.weight[5] * 9
    hypotheses = build(model, min_len=7).generate([], tiny.random_batch(TASK, [3, 4]))
    assert [len(hypothesis[0]["tokens"]) for hypothesis in hypotheses] == [8, 8]


@pytest.mark.parametrize(
    "overrides, part",
    [
        (dict(adaptive_softmax_cutoff="5,10"), "adaptive softmax"),
        (dict(cross_self_attention=True), "--cross-self-attention"),
        (dict(no_cross_attention=True), "--no-cross-attention"),
        (dict(quant_noise_pq=0.1), "--quant-noise-pq"),
        (dict(arch="lstm", criterion="cross_entropy"), "LSTMDecoder"),
    ],
)
def test_models_that_the_engine_cannot_run(overrides, part, caplog):
    model = tiny.build_model(TASK, **overrides)
    generator._say.cache_clear()
    with caplog.at_level("INFO"):
        build(model)
    assert "torch decodes, since" in caplog.text and part in caplog.text
    with pytest.raises(ValueError, match="--decoding blockwise: the model has no prediction heads"):
        build(model, decoding="blockwise")


def with_own_features(model):
    class Custom(type(model.decoder)):
        def extract_features(self, *args, **kwargs):
            return super().extract_features(*args, **kwargs)

    model.decoder.__class__ = Custom
    return model


def test_a_decoder_with_its_own_features():
    """fairseq's incremental decoding steps it."""
    assert not build(with_own_features(tiny.build_model(TASK))).decodes_compiled()


def test_heads_that_the_engine_cannot_run():
    model = with_own_features(tiny.build_model(TASK, "blockwise_transformer"))
    with pytest.raises(UnsupportedModel, match="Custom overrides the computation of features"):
        build(model)


@pytest.mark.parametrize("arch", ["nonautoregressive_transformer", "cmlm_transformer"])
def test_models_that_nothing_can_step(arch):
    with pytest.raises(
        UnsupportedModel, match="is not autoregressive; decode it with --task translation_lev"
    ):
        build(tiny.build_model(TASK, arch))
