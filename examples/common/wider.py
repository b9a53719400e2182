"""Makes large models that translate like small ones."""

import math
from pathlib import Path

import torch
from fairseq.modules import SinusoidalPositionalEmbedding

from fairseq_fastdec.data.atomic_files import replacing

from .deeper import deepened

PAD = 1
# Options of the sizes that grow.
SIDES = ("embed_dim", "ffn_embed_dim", "attention_heads")


def write_wider(source: Path, destination: Path, factor: int, n_decoder_layers: int) -> None:
    """Write a transformer with the function of a smaller one, up to rounding.

    Each vector of the large model consists of ``factor`` copies of the small model's vector, and
    additional decoder layers have no effect.

    Args:
        source: a checkpoint with sinusoidal positions, shared embeddings and pre-norm layers.
    """
    checkpoint = torch.load(source, map_location="cpu", weights_only=True)
    options = checkpoint["cfg"]["model"]
    positions = SinusoidalPositionalEmbedding.get_embedding(
        PAD + 1 + checkpoint["cfg"]["task"]["max_source_positions"], options.encoder_embed_dim, PAD
    )
    state = {
        name: _wider(name, value.float(), factor)
        for name, value in deepened(checkpoint["model"], n_decoder_layers).items()
        if "embed_positions" not in name
    }
    for side in ("encoder", "decoder"):
        state[f"{side}.embed_positions.weight"] = positions.repeat(1, factor)
        for size in SIDES:
            name = f"{side}_{size}"
            setattr(options, name, getattr(options, name) * factor)
        setattr(options, f"{side}_learned_pos", True)
    options.decoder_input_dim = options.decoder_output_dim = options.decoder_embed_dim
    options.decoder_layers = n_decoder_layers
    with replacing(destination) as partial:
        torch.save({**checkpoint, "model": state}, partial)


def _wider(name: str, value: torch.Tensor, factor: int) -> torch.Tensor:
    if name.endswith(".version"):
        return value
    if "embed_tokens" in name or "output_projection" in name:
        # fairseq multiplies embeddings by the root of their size.
        return value.repeat(1, factor) / math.sqrt(factor)
    if name.startswith("decoder.layer_norm"):
        return value.repeat(factor) / math.sqrt(factor)
    return value.repeat(factor) if value.dim() == 1 else value.repeat(factor, factor) / factor
