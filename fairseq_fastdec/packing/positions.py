"""The embeddings of positions."""

from typing import Any, Optional

from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor


def positions_of(coder: Any, n: int, like: Tensor) -> Optional[Tensor]:
    """The embeddings of an encoder's or a decoder's positions 0, 1, ...

    Args:
        n: the number of positions; learned positions may be fewer.
        like: a tensor with the dtype and device of the result.

    Returns:
        ``[N, C]``; ``None`` for models without positions (``--no-token-positional-embeddings``)
    """
    embedding, first = coder.embed_positions, coder.padding_idx + 1
    if embedding is None:
        return None
    is_sinusoidal = isinstance(embedding, SinusoidalPositionalEmbedding)
    table = embedding.weights if is_sinusoidal else embedding.weight.detach()
    if is_sinusoidal and len(table) < first + n:
        table = embedding.get_embedding(first + n, embedding.embedding_dim, coder.padding_idx)
    return table[first : first + n].to(like)
