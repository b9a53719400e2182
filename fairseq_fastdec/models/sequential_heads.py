"""Prediction heads that see the preceding tokens and the source: a small recurrent drafter.

The heads of Stern et al. (2018) are independent: p_3 does not depend on the token that p_2
predicted. Here each head is one step of a small layer, with the same weights for all steps, as in
Hydra (Ankner et al., 2024) and the recurrent drafter (Zhang et al., 2024). A step also attends to
the source, with the keys and values of the decoder's last layer.
"""

from collections.abc import Sequence
from typing import NamedTuple, Optional

import torch
from fairseq import utils
from fairseq.modules import FairseqDropout
from torch import Tensor, nn
from torch.nn import functional as F


class DraftContext(NamedTuple):
    """The inputs of a batch's steps other than the features.

    Attributes:
        embedded: the embeddings of the decoder's input tokens, ``[B, T, E]``.
        keys, values: of the sources, ``[B, H, S, D]``.
        hidden: the sources' padding, bool ``[B, S]``; ``None`` without padding.
    """

    embedded: Tensor
    keys: Tensor
    values: Tensor
    hidden: Optional[Tensor]


class SequentialHeads(nn.Module):
    """One small layer that continues from p_1's features, token by token.

    The first state is a projection of p_1's features ``[C]``. A step has three residual parts, each
    with a layer norm in front: it reads the next token, attends to the source, and applies a
    feed-forward network. The normalised result is the input of the output layer.

    With an output rank R two linear layers without bias, C to R and R to C, precede the output
    layer. Decoding merges the second one into the output layer, and then reads a matrix ``[V, R]``
    instead of ``[V, C]``: for transformer base, that matrix is most of the cost of a step.
    """

    def __init__(
        self,
        dim: int,
        embed_dim: int,
        source_dim: int,
        n_attention_heads: int,
        hidden_dim: int,
        activation: str = "relu",
        dropout: float = 0.0,
        activation_dropout: float = 0.0,
        output_rank: Optional[int] = None,
    ) -> None:
        """
        Args:
            dim: C, the size of the features and the states.
            embed_dim: E, the size of the tokens' embeddings.
            source_dim: the size of a source position's key over all attention heads.
            n_attention_heads: H.
            hidden_dim: hidden units of the feed-forward network.
            output_rank: R, less than C (default: no projection).
        """
        super().__init__()
        self.n_attention_heads = n_attention_heads
        self.begin = _linear(dim, dim)
        self.token_norm = nn.LayerNorm(dim)
        self.token = _linear(dim + embed_dim, dim)
        self.source_norm = nn.LayerNorm(dim)
        self.query = _linear(dim, source_dim)
        self.source = _linear(source_dim, dim)
        self.ffn_norm = nn.LayerNorm(dim)
        self.fc1 = _linear(dim, hidden_dim)
        self.fc2 = _linear(hidden_dim, dim)
        self.output_norm = nn.LayerNorm(dim)
        self.narrow: Optional[nn.Linear]
        self.widen: Optional[nn.Linear]
        self.narrow, self.widen = _projection(dim, output_rank) if output_rank else (None, None)
        self.activation_fn = utils.get_activation_fn(activation)
        self.activation_dropout = FairseqDropout(activation_dropout, type(self).__name__)
        self.dropout = FairseqDropout(dropout, type(self).__name__)

    def forward(self, features: Tensor, first: int, last: int, context: DraftContext) -> Tensor:
        """Compute steps ``first ... last - 1`` at every position; step 0 is p_2.

        Args:
            features: ``[B, T, C]``.

        Returns:
            ``[B, T, last - first, C]``, ready for the output layer. A step whose preceding tokens
            are not all in ``context`` has an undefined result.
        """
        everywhere = torch.arange(features[..., 0].numel(), device=features.device)
        outputs = self.at_places(features, [everywhere] * last, context)
        return torch.stack(outputs[first:], dim=-2).unflatten(0, features.shape[:2])

    def at_places(
        self, features: Tensor, places: Sequence[Tensor], context: DraftContext
    ) -> list[Tensor]:
        """The outputs of each step at a list of positions of that step.

        A step is computed only for the positions that it or a later step needs.

        Args:
            features: ``[B, T, C]``.
            places: for each step, int64 ``[P_i]``: indices into the B T positions, in ascending
                order.

        Returns:
            for each step ``[P_i, C]``.
        """
        n_places = features[..., 0].numel()
        wanted = [_mask(step_places, n_places) for step_places in places]
        for step in range(len(wanted) - 1, 0, -1):
            wanted[step - 1] = wanted[step - 1] | wanted[step]
        now = wanted[0].nonzero().squeeze(1)
        states = self.begin(features.flatten(0, 1)[now])
        outputs = []
        for step, step_places in enumerate(places):
            if step:
                stays = wanted[step][now]
                now, states = now[stays], states[stays]
            states = self._step_at(states, now, step, context)
            outputs.append(self.output(states[_mask(step_places, n_places)[now]]))
        return outputs

    def _step_at(self, states: Tensor, places: Tensor, step: int, context: DraftContext) -> Tensor:
        n_tokens = context.embedded.size(1)
        # After the last token there is none to read; the result is undefined there.
        seen = places + (places % n_tokens + 1 + step < n_tokens) * (1 + step)
        states = self.read_token(states, context.embedded.flatten(0, 1)[seen])
        states = states + self.dropout(self.source(self._attend(states, places, context)))
        return self.feed_forward(states)

    def read_token(self, states: Tensor, embedded: Tensor) -> Tensor:
        """Update the states ``[..., C]`` with the embeddings ``[..., E]`` of the next tokens."""
        both = torch.cat([self.token_norm(states), embedded.to(states.dtype)], dim=-1)
        return states + self.dropout(self.token(both))

    def output(self, states: Tensor) -> Tensor:
        """The inputs of the output layer for states ``[..., C]``, of the same shape."""
        normed = self.output_norm(states)
        if self.narrow is None or self.widen is None:
            return normed
        return self.widen(self.narrow(normed))

    def feed_forward(self, states: Tensor) -> Tensor:
        """The feed-forward network with its residual connection, ``[..., C]``."""
        hidden = self.activation_dropout(self.activation_fn(self.fc1(self.ffn_norm(states))))
        return states + self.dropout(self.fc2(hidden))

    def _attend(self, states: Tensor, places: Tensor, context: DraftContext) -> Tensor:
        """Attend to the sources, for the states ``[P, C]`` at these positions: ``[P, A]``."""
        n_rows, n_tokens = context.embedded.shape[:2]
        queries = self.query(self.source_norm(states))
        # Queries on the whole grid: keys and values need not be copied for each position.
        grid = queries.new_zeros(n_rows * n_tokens, queries.size(1)).index_copy(0, places, queries)
        grid = grid.view(n_rows, n_tokens, self.n_attention_heads, -1).transpose(1, 2)
        mask = None if context.hidden is None else ~context.hidden[:, None, None]
        found = F.scaled_dot_product_attention(
            grid, context.keys.to(grid.dtype), context.values.to(grid.dtype), attn_mask=mask
        )
        return found.transpose(1, 2).flatten(2).flatten(0, 1)[places]


def _mask(places: Tensor, n: int) -> Tensor:
    """Whether each of n positions is among the places, int64 ``[P]``: bool ``[n]``."""
    return torch.zeros(n, dtype=torch.bool, device=places.device).index_fill(0, places, True)


def _projection(dim: int, rank: int) -> tuple[nn.Linear, nn.Linear]:
    """Linear layers from C to R and back, initialised as a projection onto a random subspace."""
    narrow, widen = nn.Linear(dim, rank, bias=False), nn.Linear(rank, dim, bias=False)
    nn.init.orthogonal_(narrow.weight)
    with torch.no_grad():
        widen.weight.copy_(narrow.weight.t())
    return narrow, widen


def _linear(inputs: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
