"""The shape options of ``--finetune-from-model``: filled in from the checkpoint, and checked.

:func:`shaped_by_checkpoint` fills in the shape options that the command line omits.
:func:`check_finetuned` rejects options that contradict the checkpoint. Without this check torch
would list every parameter of another shape, and would not notice another number of attention heads,
another activation function or another position of the norms.
"""

import functools
import logging
import os
from argparse import Namespace
from collections.abc import Callable
from typing import Any, Optional

from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture
from fairseq.models.transformer import (
    TransformerModel,
    base_architecture,
    transformer_iwslt_de_en,
    transformer_wmt_en_de,
    transformer_wmt_en_de_big,
)
from torch import nn

from ..orders.special_tokens import EOD
from ..processes.errors import flag_of

logger = logging.getLogger(__name__)

VALUES = (
    *(
        f"{side}_{name}"
        for side in ("encoder", "decoder")
        for name in ("embed_dim", "ffn_embed_dim", "layers", "attention_heads")
    ),
    "activation_fn",
)
FLAGS = (
    "encoder_normalize_before",
    "decoder_normalize_before",
    "encoder_learned_pos",
    "decoder_learned_pos",
    "no_token_positional_embeddings",
    "no_scale_embedding",
    "layernorm_embedding",
    "no_cross_attention",
    "cross_self_attention",
)
# Options that default to the decoder's embedding size.
DIMENSIONS = ("decoder_input_dim", "decoder_output_dim")
# Separate parameters can be initialised from shared ones, but not the other way round.
SHARED = ("share_decoder_input_output_embed", "share_all_embeddings")
# The options of prediction heads and their defaults.
HEADS = {
    "block_size": 4,
    "block_heads": "parallel",
    "block_ffn": "shared",
    "block_ffn_embed_dim": None,
    "block_output_rank": None,
    "identity_first_head": False,
}
# The options of Marian's transformers and their defaults, which are a stock transformer.
MARIAN = {
    "output_bias": False,
    "first_input": "eos",
    "sinusoids": "fairseq",
    "norm_epsilon": 1e-5,
    "no_final_norms": False,
    "decoder_autoreg": "self-attention",
}


def shaped_by_checkpoint(architecture: Callable[[Any], None]) -> Callable[[Any], None]:
    """Decorate an architecture function: take omitted options from the checkpoint.

    fairseq calls the function with the options of the command line, and again with complete options
    whenever it builds a model. The second kind of call does not read the checkpoint.
    """

    @functools.wraps(architecture)
    def complete(args: Any) -> None:
        _take_shape(args)
        architecture(args)

    return complete


def register_presets(model: str, base: Callable[[Any], None]) -> None:
    """Register fairseq's presets of ``transformer`` for a model, such as MODEL_wmt_en_de.

    Args:
        model: the name of a registered model.
        base: the architecture function that completes the options of a preset.
    """

    def register(preset: Callable[[Any], None]) -> None:
        @shaped_by_checkpoint
        def architecture(args: Any) -> None:
            preset(args)
            base(args)

        name = preset.__name__.replace("transformer", model)
        register_model_architecture(model, name)(architecture)

    for preset in (transformer_iwslt_de_en, transformer_wmt_en_de, transformer_wmt_en_de_big):
        register(preset)


def _take_shape(args: Any) -> None:
    path = getattr(args, "finetune_from_model", None)
    is_complete = all(hasattr(args, name) for name in (*VALUES, *FLAGS, *SHARED))
    if not path or is_complete or not os.path.exists(path):
        return
    trained = _trained_options(checkpoint_utils.load_checkpoint_to_cpu(path))
    if trained is None or not _is_transformer(trained):
        return
    own = (*HEADS, *MARIAN)
    taken = {name: getattr(trained, name) for name in own if hasattr(trained, name)}
    trained = _complete(trained)
    taken.update((name, getattr(trained, name)) for name in (*VALUES, *FLAGS, *SHARED))
    for name in DIMENSIONS:
        if getattr(trained, name) != trained.decoder_embed_dim:
            taken[name] = getattr(trained, name)
    taken = {name: value for name, value in taken.items() if not hasattr(args, name)}
    vars(args).update(taken)
    shape = [
        flag_of(name) + ("" if value is True else f" {value}")
        for name, value in taken.items()
        if value not in (None, False)
    ]
    logger.info(
        "--finetune-from-model %s: the model has the shape of the checkpoint instead of that of "
        "--arch: %s; to train another shape, remove --finetune-from-model",
        path, " ".join(shape),
    )  # fmt: skip


def _trained_options(state: dict[str, Any]) -> Optional[Namespace]:
    """The options of a checkpoint's model; ``None`` if they are not an ``argparse`` namespace."""
    trained = (state.get("cfg") or {}).get("model")
    return trained if isinstance(trained, Namespace) else None


def _is_transformer(trained: Namespace) -> bool:
    kind = ARCH_MODEL_REGISTRY.get(getattr(trained, "arch", None), TransformerModel)
    return issubclass(kind, TransformerModel)


def check_finetuned(path: str, state: dict[str, Any], own: Namespace, model: nn.Module) -> None:
    """Check that a checkpoint fits the model to be trained.

    Args:
        path: the checkpoint, as given.
        state: its content, as loaded by fairseq.
        own: the options of the model to be trained.
        model: the model to be trained.

    Raises:
        ValueError: if the checkpoint does not fit; the message names the options that differ.
    """
    trained = _trained_options(state)
    if trained is None or not isinstance(model, TransformerModel):
        return
    given = f"--finetune-from-model {path}"
    if not _is_transformer(trained):
        raise ValueError(
            f"{given}: was trained with --arch {trained.arch}, and --arch {own.arch} can "
            "only start from a transformer; give the checkpoint of one"
        )
    has_heads = any(name.startswith("decoder.heads.") for name in state["model"])
    if has_heads and not hasattr(model.decoder, "heads"):
        raise ValueError(
            f"{given}: has prediction heads (--arch {trained.arch}), and --arch {own.arch} has "
            "none; give the checkpoint that its heads were trained on"
        )
    options = _differing(_complete(trained), _complete(own), model, has_heads)
    if options is not None:
        raise ValueError(f"{given}: was trained with other options than this model; {options}")
    _check_vocabularies(given, state["model"], model)


def _complete(options: Namespace) -> Namespace:
    """Fill in missing options with fairseq's defaults, for old checkpoints."""
    complete = Namespace(**vars(options))
    base_architecture(complete)
    complete.share_decoder_input_output_embed |= complete.share_all_embeddings
    return complete


def _differing(
    trained: Namespace, own: Namespace, model: nn.Module, has_heads: bool
) -> Optional[str]:
    """The flags to give and the flags to remove, as text; ``None`` if no option differs."""
    give: list[str] = []
    remove: list[str] = []

    def compare(name: str, wanted: Any, given: Any) -> None:
        if wanted == given:
            return
        flag = flag_of(name)
        if wanted is True:
            give.append(flag)
        elif wanted in (False, None):
            remove.append(flag)
        else:
            give.append(f"{flag} {wanted}")

    def changed(options: Namespace, name: str) -> Any:
        value = getattr(options, name)
        return None if name in DIMENSIONS and value == options.decoder_embed_dim else value

    for name in (*VALUES, *DIMENSIONS):
        compare(name, changed(trained, name), changed(own, name))
    by_step = getattr(model.decoder, "tokens_per_step", None) is not None
    for name in FLAGS:
        # A double-token model's learned positions can be initialised with sinusoids.
        if not (by_step and name == "decoder_learned_pos"):
            compare(name, getattr(trained, name), getattr(own, name))
    for side, name in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        if getattr(own, f"{side}_learned_pos") and not (by_step and side == "decoder"):
            compare(name, getattr(trained, name, None), getattr(own, name, None))
    for name, default in MARIAN.items():
        compare(name, getattr(trained, name, default), getattr(own, name, default))
    for name in SHARED:
        if getattr(own, name):
            compare(name, getattr(trained, name), True)
    if has_heads:
        for name, default in HEADS.items():
            compare(name, getattr(trained, name, default), getattr(own, name, default))
    parts = [f"give {' '.join(give)}"] * bool(give) + [f"remove {' '.join(remove)}"] * bool(remove)
    return " and ".join(parts) or None


def _check_vocabularies(given: str, parameters: dict[str, Any], model: Any) -> None:
    for side, part in (("source", model.encoder), ("target", model.decoder)):
        name = "encoder" if side == "source" else "decoder"
        trained = parameters.get(f"{name}.embed_tokens.weight")
        n_own = part.embed_tokens.weight.size(0)
        # <eod> and the padding after it are initialised as in a new model.
        n_without_end = part.dictionary.index(EOD) if EOD in part.dictionary else n_own
        if trained is not None and len(trained) not in (n_own, n_without_end):
            raise ValueError(
                f"{given}: was trained with {len(trained)} {side} types, and the {side} dictionary "
                f"has {n_own}; binarise the data with its dictionaries (fairseq-preprocess "
                "--srcdict, --tgtdict)"
            )
