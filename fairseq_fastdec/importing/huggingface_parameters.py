"""The parameters of models of transformers, named and ordered as fairseq's."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from .building import IMPOSSIBLE
from .imported import UnreadableModel
from .vocabularies import Order, reordered

ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")
# What files contain without need, before its prefix is removed.
IGNORED = {"encoder.version", "decoder.version"}


class Parameters:
    """The parameters of a file, each of which must have a use.

    Attributes:
        path: where they are from, for messages.
    """

    def __init__(self, path: Path, tensors: dict[str, Tensor]) -> None:
        """
        Args:
            tensors: all parameters. Their names can begin with ``model.``.
        """
        self.path = path
        self._tensors = {name.removeprefix("model."): own for name, own in tensors.items()}
        self._unused = set(self._tensors) - IGNORED

    def first(self, *names: str) -> Tensor:
        """The first of these parameters that exists.

        Raises:
            UnreadableModel: if none exists.
        """
        tensor = self.find(*names)
        if tensor is None:
            raise UnreadableModel(f"{self.path}: the parameter {names[0]} is missing")
        return tensor

    def of_shape(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A parameter.

        Raises:
            UnreadableModel: if it is missing or has another shape.
        """
        tensor = self.first(name)
        if tensor.shape != shape:
            raise UnreadableModel(
                f"{self.path}: the parameter {name} is {tuple(tensor.shape)}, and the config says "
                f"{shape}"
            )
        return tensor

    def find(self, *names: str) -> Optional[Tensor]:
        """The first of these parameters that exists; ``None`` if none does."""
        self._unused.difference_update(names)
        return next((self._tensors[name] for name in names if name in self._tensors), None)

    def check_all_used(self) -> None:
        """
        Raises:
            UnreadableModel: if a parameter has no use; the message names the first.
        """
        if self._unused:
            raise UnreadableModel(
                f"{self.path}: the parameter {min(self._unused)} has no use in this class of model"
            )


class Embeddings(NamedTuple):
    """The embeddings of a model and its output layer, ``[V, C]`` each, by fairseq's order.

    ``bias`` is ``[V]``, or ``None`` if it is zero. Shared matrices are the same tensor.
    """

    source: Tensor
    target: Tensor
    output: Tensor
    bias: Optional[Tensor]

    @classmethod
    def take(
        cls, parameters: Parameters, source: Order, target: Order, is_tied: bool, bans_pad: bool
    ) -> "Embeddings":
        """Take the embeddings, and reorder their rows.

        Like transformers 5, it shares matrices that are equal, or missing in the file.

        Args:
            is_tied: whether the class shares an output layer that the file does not have.
            bans_pad: whether probabilities are those of all types but padding.

        Raises:
            UnreadableModel: if a matrix is missing or has another number of rows.
        """
        encoder, decoder = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
        shared, heads = "shared.weight", ("lm_head.weight", "decoder.output_projection.weight")
        others = (decoder, shared, encoder) if is_tied else ()
        of_source = parameters.first(encoder, shared, *others, *(heads if is_tied else ()))
        of_target = parameters.first(decoder, shared, *(heads if is_tied else ()), *others)
        of_output = parameters.first(*heads, *others)
        source_rows = reordered(parameters.path, of_source, source)
        target_rows = (
            source_rows
            if source == target and _is_same(of_source, of_target)
            else reordered(parameters.path, of_target, target)
        )
        output_rows = (
            target_rows
            if _is_same(of_target, of_output)
            else reordered(parameters.path, of_output, target)
        )
        bias = _output_bias(parameters, target, bans_pad)
        return cls(source_rows, target_rows, output_rows, bias)

    def sharing(self) -> dict[str, bool]:
        """fairseq's options of shared matrices."""
        is_output_shared = self.output is self.target
        return {
            "share_all_embeddings": is_output_shared and self.source is self.target,
            "share_decoder_input_output_embed": is_output_shared,
        }

    def state(self) -> dict[str, Tensor]:
        """The parameters by their names in fairseq."""
        state = {
            "encoder.embed_tokens.weight": self.source,
            "decoder.embed_tokens.weight": self.target,
        }
        if self.output is not self.target:
            state["decoder.output_projection.weight"] = self.output
        if self.bias is not None:
            state["decoder.output_projection.bias"] = self.bias
        return state


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one is other or torch.equal(one, other)


def _output_bias(parameters: Parameters, order: Order, bans_pad: bool) -> Optional[Tensor]:
    bias = parameters.find("final_logits_bias")
    if order.is_complete and not bans_pad and (bias is None or not bias.any()):
        return None
    if bias is None:
        bias = torch.zeros(sum(row >= 0 for row in order.rows))
    bias = reordered(parameters.path, bias.reshape(-1), order, missing=IMPOSSIBLE)
    if bans_pad:
        bias = bias.clone()
        bias[order.symbols.index("<pad>")] = IMPOSSIBLE
    return bias


def layer_shapes(
    side: str, n_layers: int, dim: int, ffn_dim: int
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names of the parameters of layers, which are fairseq's names, too, and their shapes.

    Args:
        side: ``encoder`` or ``decoder``.
        dim: the size of embeddings.
        ffn_dim: the size between the two linear layers.
    """
    attentions = ("self_attn",) if side == "encoder" else ("self_attn", "encoder_attn")
    linears = {f"{own}.{part}": (dim, dim) for own in attentions for part in ATTENTION}
    linears |= {"fc1": (ffn_dim, dim), "fc2": (dim, ffn_dim)}
    norms = [*(f"{attention}_layer_norm" for attention in attentions), "final_layer_norm"]
    shapes: dict[str, tuple[int, ...]] = {**linears, **{norm: (dim,) for norm in norms}}
    for layer in range(n_layers):
        for module, shape in shapes.items():
            yield f"{side}.layers.{layer}.{module}.weight", shape
            yield f"{side}.layers.{layer}.{module}.bias", shape[:1]
