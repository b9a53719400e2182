"""Sequential prediction heads, from prepared weights."""

from typing import Callable, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..kernels.drafts import CompiledDrafter, DraftParameters
from ..products.linear import LinearLayer
from ..products.precision import Precision
from .compiled_network import activation_name
from .gradients import without_gradients
from .weights import stacked

# From queries [R, W, H, D] to what they find in their rows' sources, [R, W, H * D].
Attend = Callable[[Tensor], Tensor]


class Drafter:
    """Computes :class:`~fairseq_fastdec.models.sequential_heads.SequentialHeads` step by step.

    A row can have several states, which go on from different tokens.
    """

    def __init__(self, decoder: nn.Module, precision: Precision, widened: bool = False) -> None:
        """
        Args:
            widened: the outputs of heads with an output rank are made for the whole output layer,
                and not for :func:`low_rank_output`.
        """
        heads = decoder.heads
        attention = decoder.layers[len(decoder.layers) - 1].encoder_attn
        self._embed = precision.tensor(decoder.embed_tokens.weight)
        self._embed_scale: float = decoder.embed_scale
        self._heads_of_query = (attention.num_heads, attention.head_dim)
        self._begin = precision.linear_of(heads.begin)
        self._token_norm = precision.norm_of(heads.token_norm)
        self._token = precision.linear_of(heads.token)
        self._source_norm = precision.norm_of(heads.source_norm)
        self._query = stacked([heads.query], precision, first_scale=attention.scaling)
        self._source = precision.linear_of(heads.source)
        self._ffn_norm = precision.norm_of(heads.ffn_norm)
        self._fc1 = precision.linear_of(heads.fc1)
        self._fc2 = precision.linear_of(heads.fc2)
        self._activation = heads.activation_fn
        self._output_norm = precision.norm_of(heads.output_norm)
        if widened and heads.narrow is not None:
            self._narrow = precision.linear(heads.widen.weight @ heads.narrow.weight)
        else:
            self._narrow = precision.linear_of(heads.narrow)

    @classmethod
    def of(
        cls, decoder: nn.Module, precision: Precision, widened: bool = False
    ) -> Optional["Drafter"]:
        """The decoder's sequential heads; ``None`` if it has none."""
        return cls(decoder, precision, widened) if has_sequential_heads(decoder) else None

    def compiled(self) -> Optional[CompiledDrafter]:
        """Compiled code for these heads, with memory of its own; ``None`` if there is none."""
        activation = activation_name(self._activation)
        if activation is None:
            return None
        linears = dict(
            begin=self._begin,
            token=self._token,
            query=self._query,
            source=self._source,
            fc1=self._fc1,
            fc2=self._fc2,
        )
        if self._narrow is not None:
            linears["narrow"] = self._narrow
        norms = dict(
            token_norm=self._token_norm,
            source_norm=self._source_norm,
            ffn_norm=self._ffn_norm,
            output_norm=self._output_norm,
        )
        n_heads, head_dim = self._heads_of_query
        return CompiledDrafter.of(
            DraftParameters(
                n_heads=n_heads,
                head_dim=head_dim,
                activation=activation,
                embed=self._embed,
                embed_scale=self._embed_scale,
                linears={name: getattr(own, "packed", None) for name, own in linears.items()},
                norms=norms,
            )
        )

    @without_gradients
    def begin(self, features: Tensor) -> Tensor:
        """The states behind p_1, of its features ``[..., C]``: the same shape."""
        return self._begin(features)

    @without_gradients
    def step(self, states: Tensor, tokens: Tensor, attend: Attend) -> Tensor:
        """Go on from states ``[R, W, C]`` with a token each, int64 ``[R, W]``.

        Args:
            attend: attention to the sources' keys and values in the decoder's last layer.

        Returns:
            states ``[R, W, C]``
        """
        embedded = self._embed_scale * F.embedding(tokens, self._embed)
        states = states + self._token(torch.cat([self._token_norm(states), embedded], dim=-1))
        queries = self._query(self._source_norm(states)).unflatten(-1, self._heads_of_query)
        states = states + self._source(attend(queries))
        return states + self._fc2(self._activation(self._fc1(self._ffn_norm(states))))

    def outputs(self, states: Tensor) -> Tensor:
        """The output layer's inputs for states ``[..., C]``: the same shape, or ``[..., R]``."""
        normed = self._output_norm(states)
        return normed if self._narrow is None else self._narrow(normed)


def low_rank_output(
    decoder: nn.Module, precision: Precision, n_types: Optional[int]
) -> Optional[LinearLayer]:
    """The output layer behind heads with an output rank, ``[..., R] -> [..., V]``.

    Args:
        n_types: of the first types alone (default: all).

    Returns:
        ``None`` for other heads
    """
    widen = decoder.heads.widen
    if widen is None:
        return None
    output = decoder.output_projection
    weight = output.weight[:n_types].detach() @ widen.weight.detach()
    return precision.linear(weight, None if output.bias is None else output.bias[:n_types])


def has_sequential_heads(decoder: nn.Module) -> bool:
    """Whether the decoder has heads that see the tokens before theirs."""
    return getattr(decoder, "heads_are_sequential", False)
