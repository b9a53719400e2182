"""The encoder's face to the session: source sentences in, their states out."""

from dataclasses import dataclass
from typing import Dict, List, NamedTuple, Optional

import torch
from fairseq.models import FairseqEncoder
from fairseq.models.transformer import TransformerEncoder, TransformerEncoderBase
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from .attention import additive, attend
from .linear import Layer
from .precision import Norm, Precision
from .staleness import Watch
from .support import attention_problems, linear_problems
from .weights import FeedForward, feed_forward, queries_keys_values


class Encoded(NamedTuple):
    """What the decoder needs of a batch of sources."""

    states: Tensor  # [B, S, C], padded on the right
    lengths: Tensor  # int64 [B]


class SourceEncoder:
    """Encodes batches: a stock transformer encoder from prepared weights, any other as it is."""

    def __init__(self, encoder: FairseqEncoder, precision: Precision) -> None:
        self._encoder = encoder
        self._precision = precision
        self._stock = runs_prepared(encoder)
        self._watch = Watch(encoder) if self._stock else None
        self._weights: Optional[EncoderWeights] = None

    def prepare(self) -> None:
        """Follow the encoder's parameters if they may have changed."""
        if self._stock and self._watch.changed():
            self._weights = EncoderWeights.of(self._encoder, self._precision)
            self._watch.reset()

    @torch.no_grad()
    def __call__(self, net_input: Dict[str, Tensor]) -> Encoded:
        """
        Args:
            net_input: what fairseq's batches hold: ``src_tokens`` ``[B, S]``, padded on either
                side, ``src_lengths`` ``[B]``, and whatever else the encoder takes.
        """
        if self._stock:
            padding = net_input["src_tokens"].eq(self._encoder.padding_idx)
            padding = padding if padding.any() else None
            states = self._states(net_input["src_tokens"], padding)
        else:
            encoded = self._encoder.forward_torchscript(net_input)
            states = self._precision.tensor(encoded["encoder_out"][0].transpose(0, 1))
            padding = next(iter(encoded["encoder_padding_mask"]), None)
        if padding is None or not padding.any():
            full = torch.full((states.size(0),), states.size(1), device=states.device)
            return Encoded(states, full)
        return _pad_right(states, padding)

    def _states(self, tokens: Tensor, padding: Optional[Tensor]) -> Tensor:
        weights = self._weights
        x = self._precision.tensor(self._encoder.forward_embedding(tokens)[0])
        mask = None if padding is None else additive(padding[:, None, None, :], x.dtype)
        for layer in weights.layers:
            x = layer.feed_forward(_attended(layer, x, weights.n_heads, mask))
        return x if weights.final_norm is None else weights.final_norm(x)


@dataclass
class EncoderLayerWeights:
    """One encoder layer."""

    qkv: Layer  # C -> 3C, the queries scaled
    out: Layer
    norm: Norm
    feed_forward: FeedForward


@dataclass
class EncoderWeights:
    """What follows the embedding in a stock transformer encoder."""

    n_heads: int
    layers: List[EncoderLayerWeights]
    final_norm: Optional[Norm]

    @classmethod
    @torch.no_grad()
    def of(cls, encoder: TransformerEncoderBase, precision: Precision) -> "EncoderWeights":
        """Gather and fuse the parameters."""
        return cls(
            n_heads=encoder.layers[0].self_attn.num_heads,
            layers=[
                EncoderLayerWeights(
                    qkv=queries_keys_values(layer.self_attn, precision),
                    out=precision.linear_of(layer.self_attn.out_proj),
                    norm=precision.norm_of(layer.self_attn_layer_norm),
                    feed_forward=feed_forward(layer, precision),
                )
                for layer in _layers(encoder)
            ],
            final_norm=precision.norm_of(encoder.layer_norm),
        )


def runs_prepared(encoder: FairseqEncoder) -> bool:
    """Whether this is a stock transformer encoder, whose sums :class:`EncoderWeights` can do."""
    stock = (TransformerEncoder, TransformerEncoderBase)
    return (
        isinstance(encoder, TransformerEncoderBase)
        and all(
            any(getattr(type(encoder), method) is getattr(base, method) for base in stock)
            for method in ("forward", "forward_scriptable", "forward_embedding")
        )
        and len(encoder.layers) > 0
        and all(_runs_prepared(layer) for layer in _layers(encoder))
    )


def _runs_prepared(layer: nn.Module) -> bool:
    return (
        isinstance(layer, TransformerEncoderLayerBase)
        and type(layer).forward is TransformerEncoderLayerBase.forward
        and type(layer).residual_connection is TransformerEncoderLayerBase.residual_connection
        and not any(attention_problems(layer.self_attn))
        and not any(linear_problems(layer))
    )


def _layers(encoder: TransformerEncoderBase) -> List[TransformerEncoderLayerBase]:
    """All layers in order. Iterating ``encoder.layers`` skips some of them under LayerDrop."""
    return [encoder.layers[index] for index in range(len(encoder.layers))]


def _attended(
    layer: EncoderLayerWeights, x: Tensor, n_heads: int, mask: Optional[Tensor]
) -> Tensor:
    residual = x
    pre_norm = layer.feed_forward.pre_norm
    if pre_norm:
        x = layer.norm(x)
    qkv = layer.qkv(x).unflatten(-1, (3, n_heads, -1))
    queries, keys, values = qkv.permute(2, 0, 3, 1, 4)
    x = residual + layer.out(attend(queries, keys, values, mask))
    return x if pre_norm else layer.norm(x)


def _pad_right(states: Tensor, padding: Tensor) -> Encoded:
    """Move the padding of ``states`` ``[B, S, C]`` behind the content, wherever it was."""
    content_first = padding.long().argsort(dim=1, stable=True)
    moved = states.gather(1, content_first[:, :, None].expand_as(states))
    return Encoded(moved, (~padding).sum(dim=1))
