"""Tiny transformers of all shapes that compiled code supports, briefly trained."""

import argparse
import functools

import torch
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.models.transformer import Embedding, TransformerDecoderBase

from tests.support import tiny
from tests.support.trained_models import TASK

ONE_LAYER = dict(encoder_layers=1, decoder_layers=1)
NORMFORMER = dict(scale_attn=True, scale_fc=True, scale_heads=True, scale_resids=True)
WIDE_ENCODER = dict(encoder_embed_dim=48, encoder_ffn_embed_dim=40, encoder_attention_heads=3)
BART = dict(
    layernorm_embedding=True, encoder_learned_pos=True, decoder_learned_pos=True,
    share_all_embeddings=True, no_scale_embedding=True, activation_fn="gelu",
)  # fmt: skip
UPDATES = 50
TRANSLATION = "translation"
MODELS = {
    "norms before": dict(encoder_normalize_before=True, decoder_normalize_before=True),
    "norms before, none at the end": dict(
        decoder_normalize_before=True, no_decoder_final_norm=True
    ),
    "norms before in the encoder alone": dict(encoder_normalize_before=True),
    "norms before in the decoder alone": dict(decoder_normalize_before=True),
    "a wider encoder of other heads": WIDE_ENCODER,
    "a wider encoder, norms before": dict(WIDE_ENCODER, decoder_normalize_before=True),
    "narrow embeddings": dict(embedding=24),
    "wide embeddings, norms before": dict(embedding=48, decoder_normalize_before=True),
    "narrow features": dict(decoder_output_dim=16),
    "narrow embeddings, shared with the output": dict(
        embedding=24, decoder_output_dim=24, share_decoder_input_output_embed=True
    ),
    "gelu": dict(activation_fn="gelu"),
    "gelu_accurate": dict(activation_fn="gelu_accurate"),
    "gelu_fast": dict(activation_fn="gelu_fast"),
    "tanh": dict(activation_fn="tanh"),
    "linear": dict(activation_fn="linear", decoder_normalize_before=True),
    "NormFormer": NORMFORMER,
    "NormFormer, norms before": dict(NORMFORMER, decoder_normalize_before=True),
    "NormFormer's feed-forward scales alone": dict(scale_fc=True, scale_resids=True),
    "LayerDrop": dict(encoder_layerdrop=0.3, decoder_layerdrop=0.3),
    "no positions": dict(no_token_positional_embeddings=True),
    "learned positions": dict(encoder_learned_pos=True, decoder_learned_pos=True),
    "one head": dict(decoder_attention_heads=1),
    "shared embeddings": dict(share_all_embeddings=True),
    "bart": BART,
    "mbart": dict(BART, encoder_normalize_before=True, decoder_normalize_before=True),
    "several layers": dict(
        encoder_layers=3,
        decoder_layers=2,
        encoder_normalize_before=True,
        decoder_normalize_before=True,
    ),
    "marian": dict(arch="marian_transformer"),
    "marian, norms before": dict(
        arch="marian_transformer",
        encoder_normalize_before=True,
        decoder_normalize_before=True,
        no_final_norms=True,
        sinusoids="transformers",
        share_all_embeddings=False,
    ),
    "ssru": dict(arch="ssru_transformer", decoder_layers=2),
    "ssru, norms before": dict(arch="ssru_transformer", decoder_normalize_before=True),
}


def build(embedding=None, **options):
    """A tiny transformer, optionally with embeddings of another width."""
    options = {**ONE_LAYER, **options}
    if embedding is None:
        return tiny.build_model(TASK, **options)
    sizes = {"decoder_output_dim": tiny.SIZES["decoder_embed_dim"], **options}
    model = tiny.build_model(TASK, **{**sizes, "share_decoder_input_output_embed": False})
    words, cfg = TASK.target_dictionary, model.decoder.cfg
    cfg.share_decoder_input_output_embed = sizes.get("share_decoder_input_output_embed", False)
    embeddings = Embedding(len(words), embedding, words.pad())
    model.decoder = TransformerDecoderBase(cfg, words, embeddings)
    return model


@functools.cache
def trained(name):
    """A model trained to reverse, approximately."""
    return tiny.train(build(**MODELS[name]), TASK, updates=UPDATES, reverse=True, lr=1e-2)


# fairseq's options do not support embeddings of another width.
OF_COMMANDS = [name for name, options in MODELS.items() if "embedding" not in options]


def write_checkpoint(name, path):
    """Write a checkpoint like fairseq-train."""
    # Without a full training configuration, which takes longer to read than decoding.
    options = {"arch": "transformer", **ONE_LAYER, **MODELS[name]}
    given = vars(tiny.arguments(**options))
    plain = (bool, int, float, str, type(None))
    model = argparse.Namespace(_name=ARCH_MODEL_NAME_REGISTRY[options["arch"]])
    vars(model).update((k, value) for k, value in given.items() if isinstance(value, plain))
    history = {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}}
    state = {
        "cfg": {"model": model, "task": argparse.Namespace(_name=TRANSLATION, task=TRANSLATION)},
        "model": trained(name).state_dict(),
        "optimizer_history": [{**history, "num_updates": UPDATES}],
        "extra_state": {},
    }
    torch.save(state, path)
