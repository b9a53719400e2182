"""The parameters of fairseq's transformers, named as in transformers."""

from argparse import Namespace
from collections.abc import Mapping

import torch
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

from .building import SPECIAL
from .huggingface import CLASSES, SIDES
from .huggingface_parameters import layer_shapes

BIAS = "decoder.output_projection.bias"
# The ends of names of what is no parameter.
BUFFERS = (".version", ".embed_positions._float_tensor", ".embed_positions.weights")


def converted(
    args: Namespace, state: Mapping[str, Tensor], kind: str, is_joined: bool
) -> tuple[dict[str, Tensor], dict[str, bool]]:
    """Convert parameters to fp32, and name them as a class of transformers does.

    Args:
        args: all options of the model.
        state: its ``state_dict``.
        kind: a key of :data:`~.huggingface.CLASSES`.
        is_joined: whether source and target have one dictionary.

    Returns:
        the parameters, and the values of ``config.json`` that tell which of them are shared

    Raises:
        ValueError: if a parameter is missing or has no use, or if the class shares embeddings that
            differ.
    """
    own = {name: value for name, value in state.items() if not name.endswith(BUFFERS)}
    embeddings, sharing = _embeddings(own, kind, is_joined)
    tensors = {**embeddings, **_layers(own, args, kind)}
    if own:
        raise ValueError(f"{min(own)}: no class of transformers has this parameter")
    return {name: value.float().contiguous() for name, value in tensors.items()}, sharing


def _take(own: dict[str, Tensor], name: str) -> Tensor:
    if name not in own:
        raise ValueError(f"{name}: this parameter is missing")
    return own.pop(name).detach()


def _embeddings(
    own: dict[str, Tensor], kind: str, is_joined: bool
) -> tuple[dict[str, Tensor], dict[str, bool]]:
    source = _take(own, "encoder.embed_tokens.weight")
    target = _take(own, "decoder.embed_tokens.weight")
    output = own.pop("decoder.output_projection.weight", target).detach()
    bias = own.pop(BIAS, torch.zeros(len(output))).detach()
    separate = {
        "model.encoder.embed_tokens.weight": source,
        "model.decoder.embed_tokens.weight": target.clone(),
    }
    if kind == "fsmt":
        head = {"model.decoder.output_projection.weight": output.clone()}
        return {**separate, **head}, {"tie_word_embeddings": False}
    is_shared = is_joined and torch.equal(source, target)
    is_tied = torch.equal(target, output)
    if not is_shared and kind != "marian":
        raise ValueError(
            "decoder.embed_tokens.weight: differs from that of the encoder, which the class of "
            f"transformers ({kind}) shares"
        )
    tensors = {} if kind == "m2m_100" else {"final_logits_bias": bias[None]}
    if is_shared:
        tensors["model.shared.weight"] = source.clone()
    # Without tied embeddings, transformers 5 shares none.
    if not (is_shared and is_tied):
        tensors.update(separate)
    if not is_tied:
        tensors["lm_head.weight"] = output.clone()
    sharing = {"tie_word_embeddings": is_tied}
    return tensors, {**sharing, "share_encoder_decoder_embeddings": is_shared} if (
        kind == "marian"
    ) else sharing


def _layers(own: dict[str, Tensor], args: Namespace, kind: str) -> dict[str, Tensor]:
    """All parameters but the embeddings of types."""
    names: list[str] = []
    for side in SIDES:
        sizes = (
            getattr(args, f"{side}_{name}") for name in ("layers", "embed_dim", "ffn_embed_dim")
        )
        names += dict(layer_shapes(side, *sizes))
        norms = (f"{side}.{norm}" for norm in CLASSES[kind].norms)
        names += [f"{norm}.{part}" for norm in norms for part in ("weight", "bias")]
    tensors = {f"model.{name}": _take(own, name) for name in names}
    if CLASSES[kind].has_learned_positions or kind == "fsmt":
        for side in SIDES:
            tensors[f"model.{side}.embed_positions.weight"] = _positions(own, args, side)
    return tensors


def _positions(own: dict[str, Tensor], args: Namespace, side: str) -> Tensor:
    """The table of positions ``[P, C]``, which begins with two rows that no position has."""
    if args.encoder_learned_pos:
        n_source, n_target = args.max_source_positions, args.max_target_positions
        if n_source != n_target:
            raise ValueError(
                f"--max-source-positions {n_source} and --max-target-positions {n_target}: "
                "transformers has one number of learned positions"
            )
        return _take(own, f"{side}.embed_positions.weight")
    pad = SPECIAL.index("<pad>")
    n_positions = max(args.max_source_positions, args.max_target_positions) + pad + 1
    dim = args.encoder_embed_dim
    return SinusoidalPositionalEmbedding.get_embedding(n_positions, dim, pad)
