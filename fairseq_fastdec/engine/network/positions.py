"""The embeddings of positions."""

from typing import Optional, Union

from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

# The smallest number of positions to prepare, so that the table rarely grows.
POSITIONS = 256


class Positions:
    """The embeddings of an encoder's or a decoder's positions 0, 1, ...

    Attributes:
        table: ``[N, C]``, with N the largest number requested, or at most the number of trained
            positions; ``None`` for models without positions
            (``--no-token-positional-embeddings``).
    """

    def __init__(
        self, coder: Union[TransformerEncoderBase, TransformerDecoderBase], like: Tensor
    ) -> None:
        """
        Args:
            like: a tensor with the dtype and device of the table.
        """
        self._coder = coder
        self._like = like
        self._n = 0
        self.table: Optional[Tensor] = None
        self.reach(POSITIONS)

    def reach(self, n: int) -> bool:
        """Prepare at least n positions; returns whether the table was replaced."""
        embedding = self._coder.embed_positions
        if embedding is None or n <= self._n:
            return False
        self._n = n
        padding = self._coder.padding_idx
        if isinstance(embedding, SinusoidalPositionalEmbedding):
            everything = SinusoidalPositionalEmbedding.get_embedding(
                padding + 1 + n, embedding.embedding_dim, padding
            )
        else:
            everything = embedding.weight.detach()
        self.table = everything[padding + 1 : padding + 1 + n].to(self._like)
        return True
