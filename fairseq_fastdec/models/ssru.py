"""The recurrent unit of Marian's fast decoders, in place of self-attention."""

from typing import Any, Optional

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor, nn


@with_incremental_state
class SSRU(nn.Module):
    """The simpler simple recurrent unit (Kim et al. 2019, section 3.1, "From Research to
    Production and Back").

        f_t = sigmoid(W_f h_t + b_f)
        c_t = f_t * c_{t-1} + (1 - f_t) * W h_t,    c_0 = 0
        y_t = relu(c_t)

    It has the interface of fairseq's ``MultiheadAttention`` that a decoder layer uses.
    """

    num_heads = 1
    # Of fairseq's decorator.
    get_incremental_state: Any
    set_incremental_state: Any

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.embed_dim = self.head_dim = dim
        self.input_proj = nn.Linear(dim, dim, bias=False)
        self.forget_proj = nn.Linear(dim, dim)
        for projection in (self.input_proj, self.forget_proj):
            nn.init.xavier_uniform_(projection.weight)
        nn.init.zeros_(self.forget_proj.bias)

    def states(self, x: Tensor, state: Tensor) -> Tensor:
        """The states after each token.

        Args:
            x: ``[T, B, C]``; state: ``[B, C]``, the state before the first token.

        Returns:
            ``[T, B, C]``
        """
        forget = torch.sigmoid(self.forget_proj(x))
        new = (1 - forget) * self.input_proj(x)
        states = []
        for kept, added in zip(forget, new):
            state = kept * state + added
            states.append(state)
        return torch.stack(states)

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        incremental_state: Optional[dict[str, Any]] = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """Read the tokens ``query``, ``[T, B, C]``; masks are not needed, since it is causal.

        Returns:
            ``[T, B, C]``, and ``None`` for the attention weights
        """
        before = self._get_input_buffer(incremental_state).get("state")
        if before is None:
            before = torch.zeros_like(query[0])
        states = self.states(query, before)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "states", {"state": states[-1]})
        return torch.relu(states), None

    def _get_input_buffer(self, incremental_state: Optional[dict[str, Any]]) -> dict[str, Tensor]:
        return self.get_incremental_state(incremental_state, "states") or {}

    def reorder_incremental_state(self, incremental_state: dict[str, Any], order: Tensor) -> None:
        """Called by fairseq's generator when beams are reordered; order is int64 ``[B']``."""
        state = self._get_input_buffer(incremental_state).get("state")
        if state is not None:
            kept = {"state": state.index_select(0, order)}
            self.set_incremental_state(incremental_state, "states", kept)


class SSRUDecoderLayer(TransformerDecoderLayerBase):
    """A stock decoder layer with :class:`SSRU` in place of self-attention."""

    def build_self_attention(self, embed_dim: int, *_: Any, **__: Any) -> SSRU:
        """See fairseq."""
        return SSRU(embed_dim)
