"""A decoder's parameters in the shapes that the engine multiplies with."""

from dataclasses import dataclass
from typing import Callable, List, NamedTuple, Optional

import torch
from fairseq.models.transformer import TransformerDecoderBase
from fairseq.modules import MultiheadAttention, SinusoidalPositionalEmbedding
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn
from torch.nn import functional as F

from .heads import HeadWeights
from .linear import Linear


class Norm(NamedTuple):
    """Layer normalisation over the last dimension."""

    weight: Tensor
    bias: Tensor
    eps: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass
class LayerWeights:
    """One decoder layer. The queries' scaling by ``head_dim ** -0.5`` is part of the weights."""

    pre_norm: bool
    self_qkv: Linear  # C -> 3C
    self_out: Linear
    self_attn_norm: Optional[Norm]  # after the attention, NormFormer's --scale-attn
    self_norm: Norm
    cross_query: Linear
    cross_out: Linear
    cross_norm: Norm
    fc1: Linear
    activation: Callable[[Tensor], Tensor]
    fc1_norm: Optional[Norm]  # NormFormer's --scale-fc
    fc2: Linear
    residual_scale: Optional[Tensor]  # NormFormer's --scale-resids
    final_norm: Norm


@dataclass
class DecoderWeights:
    """A whole decoder, from token ids to features."""

    n_heads: int
    head_dim: int
    embed: nn.Embedding
    embed_scale: float
    project_in: Optional[Linear]
    embed_norm: Optional[Norm]
    layers: List[LayerWeights]
    cross_key_values: Linear  # encoder C -> layers * 2C: one product for all layers
    final_norm: Optional[Norm]
    project_out: Optional[Linear]
    heads: Optional[HeadWeights]
    vocabulary: Linear

    @classmethod
    @torch.no_grad()
    def of(cls, decoder: TransformerDecoderBase) -> "DecoderWeights":
        """Gather (and where it saves products, fuse) the parameters of a supported decoder."""
        layers = decoder_layers(decoder)
        attention = layers[0].self_attn
        return cls(
            n_heads=attention.num_heads,
            head_dim=attention.head_dim,
            embed=decoder.embed_tokens,
            embed_scale=decoder.embed_scale,
            project_in=Linear.of(decoder.project_in_dim),
            embed_norm=_norm(decoder.layernorm_embedding),
            layers=[_layer_weights(layer) for layer in layers],
            cross_key_values=_stack(
                projection
                for layer in layers
                for projection in (layer.encoder_attn.k_proj, layer.encoder_attn.v_proj)
            ),
            final_norm=_norm(decoder.layer_norm),
            project_out=Linear.of(decoder.project_out_dim),
            heads=HeadWeights.of(decoder),
            vocabulary=Linear.of(decoder.output_projection),
        )


def decoder_layers(decoder: TransformerDecoderBase) -> List[TransformerDecoderLayerBase]:
    """All layers in order. Iterating ``decoder.layers`` skips some of them under LayerDrop."""
    return [decoder.layers[index] for index in range(len(decoder.layers))]


def position_table(decoder: TransformerDecoderBase, n_positions: int) -> Optional[Tensor]:
    """The embeddings of target positions 0, 1, ...: ``[N, C]``, N as many as asked for or trained.

    Returns ``None`` for models without positions (``--no-token-positional-embeddings``).
    """
    embedding = decoder.embed_positions
    if embedding is None:
        return None
    first = decoder.padding_idx + 1
    if isinstance(embedding, SinusoidalPositionalEmbedding):
        table = SinusoidalPositionalEmbedding.get_embedding(
            first + n_positions, embedding.embedding_dim, decoder.padding_idx
        )
        return table[first:].to(decoder.embed_tokens.weight)
    return embedding.weight.detach()[first : first + n_positions]


def _layer_weights(layer: TransformerDecoderLayerBase) -> LayerWeights:
    return LayerWeights(
        pre_norm=layer.normalize_before,
        self_qkv=_stack(
            (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj),
            first_scale=layer.self_attn.scaling,
        ),
        self_out=_self_attention_output(layer),
        self_attn_norm=_norm(layer.attn_ln),
        self_norm=_norm(layer.self_attn_layer_norm),
        cross_query=_stack((layer.encoder_attn.q_proj,), first_scale=layer.encoder_attn.scaling),
        cross_out=Linear.of(layer.encoder_attn.out_proj),
        cross_norm=_norm(layer.encoder_attn_layer_norm),
        fc1=Linear.of(layer.fc1),
        activation=layer.activation_fn,
        fc1_norm=_norm(layer.ffn_layernorm),
        fc2=Linear.of(layer.fc2),
        residual_scale=layer.w_resid,
        final_norm=_norm(layer.final_layer_norm),
    )


def _self_attention_output(layer: TransformerDecoderLayerBase) -> Linear:
    attention: MultiheadAttention = layer.self_attn
    projection = attention.out_proj
    if layer.c_attn is None:
        return Linear.of(projection)
    # NormFormer's --scale-heads multiplies the projected output, head_dim channels by each factor.
    scale = layer.c_attn.repeat_interleave(attention.head_dim)
    return Linear(projection.weight * scale[:, None], projection.bias * scale)


def _stack(projections, first_scale: float = 1.0) -> Linear:
    weights, biases = [], []
    for index, projection in enumerate(projections):
        scale = first_scale if index == 0 else 1.0
        weights.append(projection.weight * scale)
        biases.append(projection.bias * scale)
    return Linear(torch.cat(weights), torch.cat(biases))


def _norm(module: Optional[nn.Module]) -> Optional[Norm]:
    if module is None:
        return None
    return Norm(module.weight.detach(), module.bias.detach(), module.eps)
