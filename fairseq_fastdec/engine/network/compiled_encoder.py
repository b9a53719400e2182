"""An encoder in one call of compiled code, on CPUs."""

from typing import Optional

import torch
from torch import Tensor

from ..kernels import transformer
from ..kernels.transformer import Transformer
from .compiled_network import compiled_layer, compiled_transformer
from .counting import first_numbers
from .encoder_weights import EncoderLayerWeights, EncoderWeights


class CompiledEncoder:
    """From sources to states; those of a sentence are the same in any batch.

    Attributes:
        network: the layers, embeddings and norms.
    """

    def __init__(self, network: Transformer, n_heads: int, head_dim: int) -> None:
        self.network = network
        self._n_heads, self._head_dim = n_heads, head_dim

    @classmethod
    def of(cls, weights: EncoderWeights) -> Optional["CompiledEncoder"]:
        """The encoder, or ``None`` if nothing was compiled or not for such a model."""
        layers = [_layer(layer) for layer in weights.layers]
        network = compiled_transformer(weights, layers, tokens_per_step=0)
        return None if network is None else cls(network, weights.n_heads, weights.head_dim)

    def __call__(self, tokens: Tensor, lengths: Tensor, positions: Optional[Tensor]) -> Tensor:
        """
        Args:
            tokens: int64 ``[B, S]``, padded on the right.
            lengths: int64 ``[B]``.
            positions: fp32 ``[S, C]`` or more, or ``None``.

        Returns:
            states fp32 ``[B, S, C]``; those of padding are finite.

        Raises:
            IndexError: for tokens that are not in the dictionary.
            ValueError: for tensors of other shapes or dtypes.
        """
        n_rows, longest = tokens.shape
        shape = (n_rows, self._n_heads, longest, self._head_dim)
        # All layers write to the same place: none needs another's.
        keys_values = torch.empty(2, *shape)
        rows = transformer.cache_at(
            keys_values.data_ptr(), shape, keys_values.dtype, layers_apart=False
        )
        past, own = torch.zeros_like(lengths), first_numbers(n_rows, lengths.device)
        self.network.bind((rows, 0), past, positions, own, lengths)
        return self.network.step(tokens)


def _layer(layer: EncoderLayerWeights) -> transformer.LayerParameters:
    linears = dict(self_qkv=layer.qkv, self_out=layer.out)
    return compiled_layer(linears, dict(self_norm=layer.norm), layer.feed_forward)
