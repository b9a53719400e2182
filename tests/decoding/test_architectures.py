"""Transformers of all shapes against fairseq's own generator, each run as docs/models.md says.

These tests are about several methods, so they stand beside the folders of the methods.
"""

import argparse
import re

import pytest
from fairseq.models import MODEL_REGISTRY
from fairseq.models.fairseq_model import FairseqMultiModel
from fairseq.sequence_generator import SequenceGenerator

from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.network.support import UnsupportedModel
from fairseq_fastdec.packing.models import obstacle
from tests.support import snippets, speech, tiny
from tests.support.against_fairseq import assert_same
from tests.support.shapes import MODELS, build, trained
from tests.support.trained_models import TASK


def ours(models, sample, decoding, precision="model", **options):
    generator = build_generator(
        models,
        TASK.target_dictionary,
        argparse.Namespace(beam=4 if decoding == "beam" else 1, nbest=1, max_len_b=14, **options),
        DecodingOptions(decoding=decoding, engine_precision=precision),
    )
    return generator.generate(None, sample)


def fairseqs(models, sample, beam=1):
    generator = SequenceGenerator(models, TASK.target_dictionary, beam_size=beam, max_len_b=14)
    return generator.generate(models, sample)


@pytest.fixture(params=MODELS)
def name(request):
    """Of a model."""
    return request.param


def test_the_same_tokens_and_scores(name):
    model, sample = trained(name), tiny.random_batch(TASK, [7, 0, 3, 9, 5, 1])
    expected = fairseqs([model], sample)
    assert len({str(own[0]["tokens"].tolist()) for own in expected}) > 3
    for decoding in ("greedy", "lookahead"):
        assert_same(ours([model], sample, decoding), expected)
    for own, reference in zip(
        ours([model], sample, "beam"), fairseqs([model], sample, beam=4), strict=True
    ):
        assert_same([[best] for best in own], [[best] for best in reference])


def test_it_is_compiled(name):
    if loading.library() is None:
        pytest.skip("nothing was compiled: python setup.py build_ext --inplace")
    assert obstacle([trained(name)], "model") is None


def test_in_other_precisions(name):
    """Rounding changes few tokens of a model that is sure of them."""
    model, sample = trained(name), tiny.random_batch(TASK, [7, 0, 3, 9, 5, 1])
    plain = ours([model], sample, "greedy")
    for precision in ("bf16", "int8"):
        rounded = ours([model], sample, "greedy", precision)
        assert (
            sum(
                own[0]["tokens"].tolist() == other[0]["tokens"].tolist()
                for own, other in zip(plain, rounded)
            )
            >= 3
        )


def test_without_compiled_code(name, nothing_compiled):
    model, sample = trained(name), tiny.random_batch(TASK, [7, 0, 3, 9])
    assert_same(ours([model], sample, "greedy"), fairseqs([model], sample))


def test_an_ensemble_of_many_shapes():
    models = [trained(name) for name in list(MODELS)[::4]]
    sample = tiny.random_batch(TASK, [7, 0, 3, 9, 5, 1])
    assert_same(ours(models, sample, "greedy"), fairseqs(models, sample))
    for own, reference in zip(
        ours(models, sample, "beam"), fairseqs(models, sample, beam=4), strict=True
    ):
        assert_same([[best] for best in own], [[best] for best in reference])


def test_half_precision_checkpoints_in_fp32():
    """As --fp16 leaves a model; fairseq computes the same of its numbers in fp32."""
    halved = build(**MODELS["bart"])
    halved.load_state_dict(trained("bart").state_dict())
    halved.half()
    widened = build(**MODELS["bart"])
    widened.load_state_dict(halved.state_dict())
    sample = tiny.random_batch(TASK, [7, 0, 3, 9, 5, 1])
    expected = fairseqs([widened], sample)
    assert_same(ours([halved], sample, "greedy", "fp32"), expected)


@pytest.mark.parametrize("precision", ["model", "int8"])
def test_a_large_vocabulary(precision):
    """As M2M-100's, which also is larger than what 16 bits count."""
    task = tiny.task(128_000)
    model = tiny.stir(
        tiny.build_model(
            task, share_all_embeddings=True, encoder_embed_dim=8, decoder_embed_dim=8,
            encoder_layers=1, decoder_layers=1,
        ),
        scale=2.0,
    )  # fmt: skip
    sample = tiny.random_batch(task, [7, 0, 3])
    options = dict(beam=3, max_len_b=8)
    generator = build_generator(
        [model], task.target_dictionary, argparse.Namespace(**options),
        DecodingOptions(decoding="beam", engine_precision=precision),
    )  # fmt: skip
    reference = SequenceGenerator([model], task.target_dictionary, beam_size=3, max_len_b=8)
    own, expected = generator.generate(None, sample), reference.generate([model], sample)
    if precision == "model":
        for mine, other in zip(own, expected, strict=True):
            assert_same([[best] for best in mine], [[best] for best in other])
    assert max(int(mine[0]["tokens"].max()) for mine in own) > 1 << 16


def test_the_page_names_all_models():
    """Each in one row of the last table, and ours beside the parts."""
    text = (snippets.ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    rows = text[text.index("fairseq's models, by `--arch`") :]
    named = re.findall(r"`(\w+)`", "\n".join(row.split("|")[0] for row in rows.split("\n|")[1:]))
    others = {"blockwise_transformer", "double_token_transformer", "dummy_model"}
    # 0.12.3 has some that 0.12.2 does not have.
    assert set(MODEL_REGISTRY) - others <= set(named) - {"mbart"}
    assert len(named) == len(set(named))


OTHERS = {
    "transformer_align": {},
    "roberta_enc_dec": dict(
        encoder_layers=1, decoder_layers=1, share_decoder_input_output_embed=True,
        max_positions=64, encoder_normalize_before=False,
    ),
    "bart_base": dict(encoder_layers=1, decoder_layers=1, share_all_embeddings=True),
}  # fmt: skip


@pytest.mark.parametrize("arch", [*OTHERS, *speech.ARCHITECTURES])
def test_models_of_other_names(arch):
    """Random ones. Those of speech have their own encoders, which run as they are."""
    if arch in OTHERS:
        model = tiny.stir(tiny.build_model(TASK, arch, **OTHERS[arch]), scale=1.0)
        sample = tiny.random_batch(TASK, [7, 0, 3, 9, 5, 1])
    else:
        model, sample = speech.random_model(arch), speech.random_batch()
    assert_same(ours([model], sample, "greedy"), fairseqs([model], sample))
    # RoBERTa's output layer has a hidden layer.
    problem = "the output layer is a RobertaLMHead" if arch == "roberta_enc_dec" else None
    assert loading.library() is None or obstacle([model], "model") == problem


def test_models_that_write_no_text_token_by_token():
    model = tiny.build_model(TASK, "nonautoregressive_transformer")
    with pytest.raises(
        UnsupportedModel, match="^NATransformerModel is not autoregressive; decode "
    ):
        ours([model], None, "greedy")


def test_several_models_in_one_are_for_the_task_to_take_apart():
    pair = trained("bart")
    many = FairseqMultiModel({"a-b": pair.encoder}, {"a-b": pair.decoder})
    with pytest.raises(UnsupportedModel, match="FairseqMultiModel is not an encoder-decoder"):
        ours([many], None, "greedy")
