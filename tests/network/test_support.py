"""Which models are stock: those that the engine runs, with the same reason for all others."""

import pytest

from fairseq_fastdec.network.support import decodes_incrementally, departure_from_stock
from fairseq_fastdec.packing.support import unsupported_part
from tests.support import tiny
from tests.support.doubles import table_model
from tests.support.full_forward import ARCHITECTURES
from tests.support.trained_models import DOUBLE_TASKS, TASK

CONV = "[(32, 3)] * 2"
OTHERS = {
    "lstm": dict(arch="lstm"),
    "fconv": dict(arch="fconv", encoder_layers=CONV, decoder_layers=CONV),
    "adaptive softmax": dict(adaptive_softmax_cutoff="8,16"),
    "cross-self-attention": dict(cross_self_attention=True, no_cross_attention=True),
    "no cross-attention": dict(no_cross_attention=True),
    "no layers": dict(decoder_layers=0),
    "quantisation noise": dict(quant_noise_pq=0.1),
}


@pytest.mark.parametrize("options", ARCHITECTURES.values(), ids=ARCHITECTURES)
def test_stock_transformers(options):
    assert departure_from_stock(tiny.build_model(TASK, **options)) is None


def test_decoders_with_heads_and_of_pairs():
    heads = tiny.build_model(TASK, "blockwise_transformer")
    pairs = tiny.build_model(DOUBLE_TASKS["l2r"], "double_token_transformer")
    for model in (heads, pairs):
        assert departure_from_stock(model) is None and not decodes_incrementally(model)


@pytest.mark.parametrize("options", OTHERS.values(), ids=OTHERS)
def test_other_models(options):
    model = tiny.build_model(TASK, **{"criterion": "cross_entropy", **options})
    problem = departure_from_stock(model)
    assert problem is not None and problem == unsupported_part(model)
    assert decodes_incrementally(model)


def test_models_of_other_packages():
    model = table_model(TASK)
    assert departure_from_stock(model) == "FairseqEncoderDecoderModel has a TableDecoder, " + (
        "not a transformer decoder"
    )
    assert decodes_incrementally(model)
    assert not decodes_incrementally(model.decoder)
