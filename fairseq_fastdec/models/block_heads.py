"""The multi-output feed-forward layer of blockwise models (Stern et al. 2018, section 6)."""

import torch
from fairseq import utils
from fairseq.modules import FairseqDropout
from torch import Tensor, nn
from torch.nn import functional as F


class BlockHeads(nn.Module):
    """One feed-forward layer with k outputs, and a residual connection from its input to each.

    The parameters of all heads are slices of the same tensors, so that every parameter gets a
    gradient, no matter which head is trained. The output weights start at zero, which makes every
    head the identity.
    """

    def __init__(
        self,
        n_heads: int,
        dim: int,
        hidden_dim: int,
        shared: bool,
        activation: str = "relu",
        dropout: float = 0.0,
        activation_dropout: float = 0.0,
    ) -> None:
        """
        Args:
            n_heads: k, the number of outputs.
            dim: C, the size of the input and of each output.
            hidden_dim: hidden units per head; the layer has k times this number.
            shared: whether every head reads all hidden units, as in the paper, or only its
                ``hidden_dim``.
        """
        super().__init__()
        self.n_heads = n_heads
        self.hidden_dim = hidden_dim
        self.shared = shared
        self.hidden_weight = nn.Parameter(torch.empty(n_heads * hidden_dim, dim))
        self.hidden_bias = nn.Parameter(torch.zeros(n_heads * hidden_dim))
        n_inputs = n_heads * hidden_dim if shared else hidden_dim
        self.output_weight = nn.Parameter(torch.zeros(n_heads, dim, n_inputs))
        self.output_bias = nn.Parameter(torch.zeros(n_heads, dim))
        nn.init.xavier_uniform_(self.hidden_weight)
        self.activation_fn = utils.get_activation_fn(activation)
        self.activation_dropout = FairseqDropout(activation_dropout, type(self).__name__)
        self.dropout = FairseqDropout(dropout, type(self).__name__)

    def forward(self, features: Tensor, first: int, last: int) -> Tensor:
        """Compute heads ``first ... last - 1`` (0-based), and only the part of the layer they use.

        Args:
            features: ``[..., C]``.

        Returns:
            ``[..., last - first, C]``
        """
        weight, bias = self.hidden_slice(first, last)
        hidden = self.activation_fn(F.linear(features, weight, bias))
        hidden = self.activation_dropout(hidden)
        outputs = [
            F.linear(
                self.units_of(hidden, head - first),
                self.output_weight[head],
                self.output_bias[head],
            )
            for head in range(first, last)
        ]
        return features.unsqueeze(-2) + self.dropout(torch.stack(outputs, dim=-2))

    def hidden_slice(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Weight and bias of the hidden units that heads ``first ... last - 1`` read."""
        if self.shared:
            return self.hidden_weight, self.hidden_bias
        units = slice(first * self.hidden_dim, last * self.hidden_dim)
        return self.hidden_weight[units], self.hidden_bias[units]

    def units_of(self, hidden: Tensor, index: int) -> Tensor:
        """The hidden units that the index-th of the computed heads reads."""
        if self.shared:
            return hidden
        return hidden[..., index * self.hidden_dim : (index + 1) * self.hidden_dim]
