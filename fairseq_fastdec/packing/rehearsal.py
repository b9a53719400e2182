"""Runs random sentences through fairseq's layers while they are prepared in 8-bit integers.

This provides realistic inputs for the trial of each linear layer (:mod:`..products.trial`). It
proceeds layer by layer, so that only one layer has two copies of its weights at a time.
"""

import copy
import logging
from collections.abc import Callable
from typing import Any, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from .packed import PackedInt8, PackedLinear
from .positions import positions_of
from .precision import Precision
from .stock_decoders import is_of_decoder
from .trial import Untried, described, is_trusted, tried

logger = logging.getLogger(__name__)

SENTENCES, TOKENS = 4, 6
# The first types of a dictionary are special symbols.
FIRST_TYPE = 4
# The names of fairseq's linear layers with the inputs of prepared layers of other names.
SAME_INPUTS = {
    "self_qkv": "self_attn.q_proj",
    "recurrence": "self_attn.input_proj",
    "self_out": "self_attn.out_proj",
    "cross_query": "encoder_attn.q_proj",
    "cross_out": "encoder_attn.out_proj",
}


class Rehearsal:
    """Prepares the layers of one encoder or decoder, and tries them with random sentences.

    Only int8 needs trials: other precisions hardly change the outputs of a layer.
    """

    def __init__(self, precision: Precision, name: str) -> None:
        """
        Args:
            name: the name of the encoder or decoder in the log.
        """
        self._is_needed = precision.product is PackedInt8
        self._precision = precision._replace(product=Untried) if self._is_needed else precision
        self._name = name
        self._kept: list[str] = []
        self._states = torch.empty(0)  # fp32 [T, B, C], the states after the current layer
        self._sources = torch.empty(0)  # fp32 [S, B, C], the encoder's states for a decoder
        self._keys_values = torch.empty(0)  # fp32 [layers, 2, B, H, S, D], of the sources

    def linear(self, weight: Tensor, bias: Optional[Tensor], name: str, x: Tensor) -> PackedLinear:
        """Prepare a linear layer.

        Args:
            weight, bias: as for :meth:`~.precision.Precision.linear`.
            name: its name in the log.
            x: typical inputs, fp32 ``[..., inputs]``.
        """
        made = self._precision.linear(weight, bias)
        return self._settled(made, name, x) if self._is_needed else made

    def cross_key_values(
        self, weight: Tensor, bias: Tensor, attention: Any, sources: Optional[Tensor]
    ) -> PackedLinear:
        """Prepare the layer that computes the keys and values of the sources, for all layers.

        Args:
            attention: fairseq's cross-attention of the first layer.
            sources: the states of random sentences, fp32 ``[B, S, C]``; ``None`` for an encoder
                that is not prepared.
        """
        if self._is_needed:
            if sources is None:
                generator = torch.Generator().manual_seed(1)
                sources = torch.randn(SENTENCES, TOKENS, weight.size(1), generator=generator)
            self._sources = sources.transpose(0, 1)
            shape = (-1, 2, attention.num_heads, attention.head_dim)
            keys_values = F.linear(sources, weight, bias).unflatten(-1, shape)
            self._keys_values = keys_values.permute(2, 3, 0, 4, 1, 5).contiguous()
        return self.linear(weight, bias, "cross_key_values", self._sources)

    def begin(self, coder: Any, weights: Any) -> None:
        """Embed the sentences.

        Args:
            coder: fairseq's encoder or decoder.
            weights: its prepared weights, without the layers.
        """
        if not self._is_needed:
            return
        positions = positions_of(coder, TOKENS, like=weights.embed)
        n_positions = None if positions is None else positions.size(0)
        tokens = random_tokens(weights.embed.size(0), n_positions)
        x = weights.embed_scale * F.embedding(tokens, weights.embed)
        if positions is not None:
            x = x + positions[: tokens.size(1)]
        self._states = _normalized(x, weights.embed_norm).transpose(0, 1)

    def layer(self, index: int, layer: Any, make: Callable) -> Any:
        """Prepare a layer, and run the sentences through it.

        Args:
            layer: fairseq's layer. Only the weights of its linear layers may have been released.
            make: called with the layer and a precision to prepare it.
        """
        made = make(layer, self._precision)
        if self._is_needed:
            inputs = self._inputs(index, layer)
            for name, untried in made.linears.items():
                x = inputs[SAME_INPUTS.get(name, name)]
                made.linears[name] = self._settled(untried, f"layers.{index}.{name}", x)
        return made

    def end(self, norm: Any) -> Optional[Tensor]:
        """Finish after the last layer, and :meth:`log`.

        Args:
            norm: the final normalisation, or ``None``.

        Returns:
            the final states, fp32 ``[B, T, C]``; ``None`` if nothing was tried.
        """
        self.log()
        return _normalized(self._states.transpose(0, 1), norm) if self._is_needed else None

    def log(self) -> None:
        """Log the layers that are kept in bf16."""
        if self._kept:
            logger.info("%s", described(self._kept))

    def _settled(self, made: Any, name: str, x: Tensor) -> PackedLinear:
        settled, error = tried(made, x)
        if not is_trusted(error):
            self._kept.append(f"{self._name}.{name} ({error:.0%})")
        return settled

    def _inputs(self, index: int, layer: Any) -> dict[str, Tensor]:
        """Run the sentences through a layer; return the inputs of its linear layers, by name."""
        if layer.fc1.weight.dtype != torch.float32:
            layer = copy.deepcopy(layer).float()
        was_training = layer.training
        checks = getattr(layer.self_attn, "skip_embed_dim_check", False)
        # With this flag fairseq calls the linear layers of attention instead of torch's attention.
        layer.self_attn.skip_embed_dim_check = True
        try:
            layer.eval()
            with LinearInputs() as inputs:
                # forward() skips the hooks that reject calls of a layer with released weights.
                # These weights are not needed here.
                self._states = self._through(index, layer)
        finally:
            layer.train(was_training)
            layer.self_attn.skip_embed_dim_check = checks
        modules = layer.named_modules()
        return {name: x for name, module in modules if (x := inputs.of(module)) is not None}

    def _through(self, index: int, layer: Any) -> Tensor:
        if not is_of_decoder(layer):
            return layer.forward(self._states, None)
        n, attends = self._states.size(0), layer.encoder_attn is not None
        return layer.forward(
            self._states,
            self._sources if attends else None,
            incremental_state={},
            prev_attn_state=list(self._keys_values[index]) if attends else None,
            self_attn_mask=torch.full((n, n), float("-inf")).triu(1),
        )[0]


class LinearInputs(TorchFunctionMode):
    """A context that records the inputs of linear layers in this thread."""

    def __init__(self) -> None:
        super().__init__()
        self._of_weights: dict[int, Tensor] = {}

    def of(self, module: nn.Module) -> Optional[Tensor]:
        """The last inputs of a module; ``None`` if it is not a linear layer or was not called."""
        return self._of_weights.get(id(getattr(module, "weight", None)))

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: Optional[dict] = None
    ) -> Any:
        if function is F.linear:
            self._of_weights[id(args[1])] = args[0]
        return function(*args, **(kwargs or {}))


def random_tokens(n_types: int, n_positions: Optional[int]) -> Tensor:
    """Sentences of random words: int64 ``[B, T]``, the same in every run.

    Args:
        n_positions: the maximum number of tokens of a sentence; ``None`` for no limit.
    """
    n_tokens = TOKENS if n_positions is None else min(TOKENS, n_positions)
    first = FIRST_TYPE if n_types > FIRST_TYPE else 0
    # Leave torch's global random state to the user.
    generator = torch.Generator().manual_seed(1)
    return torch.randint(first, n_types, (SENTENCES, n_tokens), generator=generator)


def _normalized(x: Tensor, norm: Any) -> Tensor:
    return x if norm is None else norm(x)
