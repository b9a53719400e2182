"""The encoder's face to the session: source sentences in, their states out."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch
from fairseq.models import FairseqEncoder
from fairseq.models.transformer import TransformerEncoder, TransformerEncoderBase
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from ..kernels.transformer import Transformer
from ..products.precision import Precision
from .attention import padding_mask
from .compiled_encoder import CompiledEncoder
from .counting import count_tokens, extremes
from .encoder_weights import EncoderWeights
from .gradients import without_gradients
from .positions import Positions
from .prepared_model import prepared
from .support import attention_problems, linear_problems
from .weights import layers_of


class Encoded(NamedTuple):
    """A batch of sources, as the decoder attends to it."""

    states: Tensor  # [B, S, C], padded on the right
    lengths: Tensor  # int64 [B]


class SourceEncoder:
    """Encodes batches: a stock transformer encoder from prepared weights, any other as it is."""

    def __init__(self, encoder: FairseqEncoder, precision: Precision) -> None:
        self._encoder = encoder
        self._precision = precision
        self._prepared = prepared(encoder) if runs_prepared(encoder) else None
        self._version: Optional[int] = None

    def prepare(self) -> None:
        """Follow the encoder's parameters if they may have changed."""
        if self._prepared is None:
            return
        version = self._prepared.refresh()
        if version != self._version:
            self._weights = self._prepared.get(EncoderWeights.of, self._precision)
            self._positions = Positions(self._encoder, like=self._weights.embed)
            self._compiled = CompiledEncoder.of(self._weights)
            self._version = version

    @property
    def compiled(self) -> Optional[Transformer]:
        """The compiled code that runs it; ``None`` where torch does."""
        compiled = None if self._prepared is None else self._compiled
        return None if compiled is None else compiled.network

    @property
    def positions(self) -> Positions:
        """The embeddings of the positions of a prepared encoder."""
        return self._positions

    @without_gradients
    def __call__(self, net_input: Dict[str, Tensor]) -> Encoded:
        """
        Args:
            net_input: what fairseq's batches hold: ``src_tokens`` ``[B, S]``, padded on either
                side, ``src_lengths`` ``[B]``, and whatever else the encoder takes.

        Raises:
            IndexError: for sources that are longer than the positions that the model has learned.
        """
        if self._prepared is not None:
            tokens, pad = net_input["src_tokens"], self._encoder.padding_idx
            lengths = count_tokens(tokens, pad)
            if extremes(lengths)[0] < tokens.size(1):
                tokens, lengths = _padded_right(tokens, tokens.eq(pad))
            return Encoded(self._states(tokens, lengths), lengths)
        encoded = self._encoder.forward_torchscript(net_input)
        states = self._precision.tensor(encoded["encoder_out"][0].transpose(0, 1))
        padding = next(iter(encoded["encoder_padding_mask"]), None)
        if padding is None:
            padding = states.new_zeros(states.shape[:2], dtype=torch.bool)
        return Encoded(*_padded_right(states, padding))

    def _states(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        n_tokens = tokens.size(1)
        self._positions.reach(n_tokens)
        positions = self._positions.table
        if positions is not None and n_tokens > positions.size(0):
            raise IndexError(
                f"a source of {n_tokens} tokens; the model has {positions.size(0)} positions"
            )
        if self._compiled is not None:
            return self._compiled(tokens, lengths, positions)
        weights = self._weights
        x = weights.embedded(tokens, positions)
        mask = padding_mask(lengths, n_tokens, x.dtype) if int(lengths.min()) < n_tokens else None
        for layer in weights.layers:
            x = layer(x, weights.n_heads, mask)
        return weights.normalized(x)


def select_sentences(net_input: Dict[str, Any], index: Tensor) -> Dict[str, Any]:
    """Some sentences of what fairseq's batches hold, in the order of ``index``, int64 ``[B']``.

    What a batch lacks is ``None`` there, as targets are in the decoding of speech.
    """
    return {
        name: value[index] if isinstance(value, Tensor) else value
        for name, value in net_input.items()
    }


def runs_prepared(encoder: FairseqEncoder) -> bool:
    """Whether this is a stock transformer encoder, whose sums :class:`EncoderWeights` can do."""
    stock = (TransformerEncoder, TransformerEncoderBase)
    return (
        isinstance(encoder, TransformerEncoderBase)
        and all(
            any(getattr(type(encoder), method) is getattr(base, method) for base in stock)
            for method in ("forward", "forward_scriptable", "forward_embedding")
        )
        and type(encoder.embed_tokens) is nn.Embedding
        and encoder.quant_noise is None
        and len(encoder.layers) > 0
        and all(_runs_prepared(layer) for layer in layers_of(encoder))
    )


def _runs_prepared(layer: nn.Module) -> bool:
    return (
        isinstance(layer, TransformerEncoderLayerBase)
        and type(layer).forward is TransformerEncoderLayerBase.forward
        and type(layer).residual_connection is TransformerEncoderLayerBase.residual_connection
        and not any(attention_problems(layer.self_attn))
        and not any(linear_problems(layer))
    )


def _padded_right(content: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor]:
    """Move what is padding behind the rest, wherever it was.

    Args:
        content: ``[B, S, ...]``.
        padding: bool ``[B, S]``.

    Returns:
        ``[B, S, ...]``, and how much of each row is no padding, int64 ``[B]``
    """
    if not padding.any():
        return content, torch.full((content.size(0),), content.size(1), device=content.device)
    order = padding.long().argsort(dim=1, stable=True)
    order = order.view(*order.shape, *[1] * (content.dim() - 2))
    return content.gather(1, order.expand_as(content)), (~padding).sum(dim=1)
