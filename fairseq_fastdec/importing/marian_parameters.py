"""Marian's parameters and options as those of ``marian_transformer`` and ``ssru_transformer``.

The names are those of ``src/models/transformer.h`` in Marian.
"""

from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from .building import IMPOSSIBLE
from .imported import UnreadableModel
from .marian_files import Quantised, Tensors
from .marian_options import (
    EXACT_GELU,
    NORMED_KEYS,
    MarianOptions,
    is_ssru,
    layer_numbers,
)
from .vocabularies import Order, reordered

GELU = 1.702  # Marian's older gelu is x * sigmoid(1.702 x).


class MarianParameters:
    """The tensors of a model, each of which must find its place."""

    def __init__(self, path: Path, tensors: Tensors) -> None:
        self.path, self.tensors = path, tensors
        self.used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def shape(self, name: str) -> tuple[int, int]:
        """The shape of a matrix.

        Raises:
            UnreadableModel: if it is missing, or is not a matrix.
        """
        tensor = self.tensors.get(name)
        if tensor is None:
            raise UnreadableModel(f"{self.path}: has no tensor {name}")
        shape = tensor.values.shape if isinstance(tensor, Quantised) else tensor.shape
        if len(shape) != 2:
            raise UnreadableModel(f"{self.path}: {name} has the shape {list(shape)}")
        return shape

    def array(self, name: str) -> np.ndarray:
        """A tensor in fp32, in Marian's order.

        Raises:
            UnreadableModel: if it is missing.
        """
        tensor = self.tensors.get(name)
        if tensor is None:
            raise UnreadableModel(f"{self.path}: has no tensor {name}")
        self.used.add(name)
        if isinstance(tensor, Quantised):
            return tensor.dequantised()
        if tensor.dtype.kind != "f":
            raise UnreadableModel(f"{self.path}: {name} has the type {tensor.dtype}")
        return tensor.astype(np.float32)

    def matrix(
        self, name: str, rows: Optional[int] = None, columns: Optional[int] = None
    ) -> np.ndarray:
        """A matrix ``[in, out]``, of given sizes if there are some.

        Raises:
            UnreadableModel: if it has another shape.
        """
        shape, wanted = self.shape(name), (rows, columns)
        if any(given not in (None, size) for given, size in zip(wanted, shape)):
            raise UnreadableModel(
                f"{self.path}: {name} has the shape {list(shape)}, not {list(wanted)}"
            )
        return self.array(name)

    def vector(self, name: str, size: int) -> np.ndarray:
        """A vector, which Marian's files have as a matrix of one row.

        Raises:
            UnreadableModel: if it has another size.
        """
        values = self.array(name)
        if values.size != size:
            raise UnreadableModel(f"{self.path}: {name} has {values.size} values, not {size}")
        return values.reshape(size)

    def check_all_used(self) -> None:
        """Check that no tensor is left.

        Raises:
            UnreadableModel: if one is left, which would change translations.
        """
        for name in self.tensors:
            # Multipliers of quantised inputs, and options.
            is_extra = name.endswith("_QuantMultA") or name.startswith("special:")
            if name not in self.used and not is_extra:
                raise UnreadableModel(f"{self.path}: the tensor {name} is not supported")


class MarianLayers:
    """Reads the parameters of layers and gives them the names and shapes of fairseq."""

    def __init__(self, options: MarianOptions, parameters: MarianParameters, dim: int) -> None:
        """
        Args:
            dim: the size of embeddings and states.
        """
        self.options, self.parameters, self.dim = options, parameters, dim
        self.path = parameters.path
        self.state: dict[str, Tensor] = {}
        self.norms_before = self._norms_before()
        self.top = options.operations("transformer-postprocess-top")
        self.norms_embeddings = options.operations("transformer-postprocess-emb", "d") == "n"
        self.activation = options.text("transformer-ffn-activation", "swish")
        if self.activation == "gelu" and options.version() < EXACT_GELU:
            self.activation = "scaled swish"
        self._check_norms()

    def _norms_before(self) -> bool:
        """Whether norms are before the layers' parts."""
        before = self.options.operations("transformer-preprocess")
        after = self.options.operations("transformer-postprocess", "dan")
        if (before, after) not in (("", "an"), ("n", "a")):
            raise UnreadableModel(
                f"{self.path}: transformer-preprocess {before!r} with transformer-postprocess "
                f"{after!r} is not supported, only '' with 'an' and 'n' with 'a'"
            )
        return before == "n"

    def _check_norms(self) -> None:
        if self.top not in (("", "n") if self.norms_before else ("",)):
            raise UnreadableModel(
                f"{self.path}: transformer-postprocess-top {self.top!r} is not supported"
            )
        if self.options.operations("transformer-postprocess-emb", "d") not in ("", "n"):
            raise UnreadableModel(f"{self.path}: transformer-postprocess-emb is not supported")
        if self.norms_before and self.options.version() < NORMED_KEYS:
            raise UnreadableModel(
                f"{self.path}: transformer-preprocess n of a version before 1.11, which does not "
                "normalize keys and values, is not supported"
            )

    def put(self, name: str, values: np.ndarray) -> None:
        """Store a parameter."""
        self.state[name] = torch.from_numpy(np.ascontiguousarray(values))

    def norm(self, name: str, source: str, suffix: str = "") -> None:
        """Store a layer norm."""
        scale = self.parameters.vector(f"{source}_ln_scale{suffix}", self.dim)
        self.put(f"{name}.weight", scale)
        self.put(f"{name}.bias", self.parameters.vector(f"{source}_ln_bias{suffix}", self.dim))

    def linear(self, name: str, weight: np.ndarray, bias: np.ndarray) -> None:
        """Store an affine map from a matrix ``[in, out]``."""
        self.put(f"{name}.weight", weight.T)
        self.put(f"{name}.bias", bias)

    def square(self, name: str, source: str, suffix: str) -> None:
        """Store an affine map from states to states."""
        weight = self.parameters.matrix(f"{source}_W{suffix}", self.dim, self.dim)
        self.linear(name, weight, self.parameters.vector(f"{source}_b{suffix}", self.dim))

    def part_norm(self, name: str, before: str, after: str) -> None:
        """Store the norm before or after a part of a layer."""
        if self.norms_before:
            self.norm(name, before, "_pre")
        else:
            self.norm(name, after)

    def attention(self, name: str, norm: str, source: str) -> None:
        """Store an attention, self-attention or that to the source."""
        for ours, theirs in (("q_proj", "q"), ("k_proj", "k"), ("v_proj", "v")):
            self.square(f"{name}.{ours}", source, theirs)
        if self.options.is_on("transformer-no-projection"):
            unit = np.eye(self.dim, dtype=np.float32)
            self.linear(f"{name}.out_proj", unit, np.zeros(self.dim, dtype=np.float32))
        else:
            self.square(f"{name}.out_proj", source, "o")
        self.part_norm(norm, f"{source}_Wo", f"{source}_Wo")

    def ssru(self, name: str, norm: str, source: str) -> None:
        """Store a recurrent unit."""
        self.put(
            f"{name}.input_proj.weight",
            self.parameters.matrix(f"{source}_W", self.dim, self.dim).T,
        )
        self.square(f"{name}.forget_proj", source, "f")
        self.part_norm(norm, source, f"{source}_ffn")

    def feed_forward(self, name: str, source: str, width: int) -> None:
        """Store the two affine maps of a layer."""
        first = self.parameters.matrix(f"{source}_W1", self.dim, width)
        second = self.parameters.matrix(f"{source}_W2", width, self.dim)
        bias = self.parameters.vector(f"{source}_b1", width)
        if self.activation == "scaled swish":
            scale = np.float32(GELU)
            first, bias, second = first * scale, bias * scale, second / scale
        self.linear(f"{name}.fc1", first, bias)
        self.linear(f"{name}.fc2", second, self.parameters.vector(f"{source}_b2", self.dim))
        self.part_norm(f"{name}.final_layer_norm", f"{source}_ffn", f"{source}_ffn")

    def coder(self, side: str, numbers: list[int], is_recurrent: bool) -> int:
        """Store the layers and the other norms of a side.

        Args:
            numbers: Marian's number of each layer, from 1; layers may share one.
            is_recurrent: :meth:`ssru` takes the place of self-attention.

        Returns:
            the inner size of the feed-forward parts
        """
        width = self.parameters.shape(f"{side}_l{numbers[0]}_ffn_W1")[1]
        for layer, number in enumerate(numbers):
            name, source = f"{side}.layers.{layer}", f"{side}_l{number}"
            norm = f"{name}.self_attn_layer_norm"
            if is_recurrent:
                self.ssru(f"{name}.self_attn", norm, f"{source}_rnn")
            else:
                self.attention(f"{name}.self_attn", norm, f"{source}_self")
            if side == "decoder":
                norm = f"{name}.encoder_attn_layer_norm"
                self.attention(f"{name}.encoder_attn", norm, f"{source}_context")
            self.feed_forward(name, f"{source}_ffn", width)
        if self.top:
            self.norm(f"{side}.layer_norm", f"{side}_top")
        if self.norms_embeddings:
            self.norm(f"{side}.layernorm_embedding", f"{side}_emb", "_pre")
        return width


class MarianEmbeddings:
    """The names of the matrices of a model's three vocabularies; one name is one matrix."""

    def __init__(self, options: MarianOptions, parameters: MarianParameters) -> None:
        tied_all = options.is_on("tied-embeddings-all")
        tied_src = tied_all or options.is_on("tied-embeddings-src")
        self.source = "Wemb" if tied_src else "encoder_Wemb"
        self.target = "Wemb" if tied_src else "decoder_Wemb"
        self.ties_output = tied_all or options.is_on("tied-embeddings")
        self.parameters = parameters

    def output(self, dim: int) -> np.ndarray:
        """The output layer's own matrix, ``[N, C]``."""
        name = "decoder_ff_logit_out_W"
        # Older versions did not transpose it.
        if name in self.parameters:
            return self.parameters.matrix(name, rows=dim).T
        return self.parameters.matrix(f"{name}t", columns=dim)


def sizes_of(parameters: MarianParameters, embeddings: MarianEmbeddings) -> tuple[int, int, int]:
    """The sizes of the vocabularies and of the embeddings."""
    n_source, dim = parameters.shape(embeddings.source)
    return n_source, parameters.shape(embeddings.target)[0], dim


def put_embeddings(
    layers: MarianLayers, embeddings: MarianEmbeddings, source: Order, target: Order
) -> None:
    """Store the embeddings and the output layer in the order of the vocabularies."""
    parameters = layers.parameters

    def put(name: str, rows: np.ndarray, order: Order, absent: float = 0.0) -> None:
        layers.put(name, reordered(layers.path, torch.from_numpy(rows), order, absent).numpy())

    rows = parameters.matrix(embeddings.target, columns=layers.dim)
    put("decoder.embed_tokens.weight", rows, target)
    if embeddings.source == embeddings.target and source.symbols == target.symbols:
        layers.state["encoder.embed_tokens.weight"] = layers.state["decoder.embed_tokens.weight"]
    else:
        rows = parameters.matrix(embeddings.source, columns=layers.dim)
        put("encoder.embed_tokens.weight", rows, source)
    if not embeddings.ties_output:
        put("decoder.output_projection.weight", embeddings.output(layers.dim), target)
    n_target = max(target.rows) + 1
    bias = np.zeros(n_target, dtype=np.float32)
    if not layers.options.is_on("output-omit-bias"):
        bias = parameters.vector("decoder_ff_logit_out_b", n_target)
    put("decoder.output_projection.bias", bias, target, IMPOSSIBLE)


def put_positions(layers: MarianLayers) -> dict[str, Any]:
    """Store learned positions, if the model has them.

    Returns:
        the options of the architecture that they need
    """
    if "Wpos" not in layers.parameters:
        return {}
    rows = layers.parameters.matrix("Wpos", columns=layers.dim)
    options: dict[str, Any] = {"no_scale_embedding": True}
    for side, longest in (("encoder", "max_source_positions"), ("decoder", "max_target_positions")):
        # fairseq's positions follow the number of padding, which is 1.
        unused = np.zeros((2, layers.dim), dtype=np.float32)
        layers.put(f"{side}.embed_positions.weight", np.concatenate([unused, rows]))
        options |= {f"{side}_learned_pos": True, longest: len(rows)}
    return options


def converted(
    options: MarianOptions, parameters: MarianParameters, source: Order, target: Order
) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
    """The architecture, its options and its parameters.

    Raises:
        UnreadableModel: for tensors that are missing, have another shape, or have no place.
    """
    embeddings = MarianEmbeddings(options, parameters)
    _, _, dim = sizes_of(parameters, embeddings)
    heads = options.number("transformer-heads", 8)
    if dim % heads:
        raise UnreadableModel(f"{options.path}: {dim} states do not divide by {heads} heads")
    is_recurrent = is_ssru(options)
    layers = MarianLayers(options, parameters, dim)
    encoder, decoder = layer_numbers(options)
    put_embeddings(layers, embeddings, source, target)
    sizes = {
        "encoder_embed_dim": dim,
        "decoder_embed_dim": dim,
        "encoder_layers": len(encoder),
        "decoder_layers": len(decoder),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_embed_dim": layers.coder("encoder", encoder, is_recurrent=False),
        "decoder_ffn_embed_dim": layers.coder("decoder", decoder, is_recurrent),
    }
    ties_all = embeddings.source == embeddings.target and source.symbols == target.symbols
    ways = {
        "activation_fn": "swish" if layers.activation == "scaled swish" else layers.activation,
        "encoder_normalize_before": layers.norms_before,
        "decoder_normalize_before": layers.norms_before,
        "no_final_norms": layers.norms_before and not layers.top,
        "layernorm_embedding": layers.norms_embeddings,
        "share_all_embeddings": ties_all and embeddings.ties_output,
        "share_decoder_input_output_embed": embeddings.ties_output,
    }
    positions = put_positions(layers)
    parameters.check_all_used()
    arch = "ssru_transformer" if is_recurrent else "marian_transformer"
    return arch, {**sizes, **ways, **positions}, layers.state
