"""Converts fairseq's models to the engine's models."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import torch
from fairseq.models import (
    FairseqDecoder,
    FairseqEncoder,
    FairseqEncoderDecoderModel,
    FairseqLanguageModel,
)
from torch import nn

from ..engine.kernels import loading
from ..engine.kernels.parts import EnginePart
from .heads import (
    ACTIVATIONS_OF_HEADS,
    HeadWeights,
    SequentialWeights,
    activation_number,
    has_sequential_heads,
)
from .packed import PackedLinear
from .positions import positions_of
from .precision import PRECISIONS, ROUGH, Precision, PreparedNorm
from .prepared_model import prepared
from .stock_decoders import has_first_input, layers_of
from .support import runs_prepared, unsupported_part
from .weights import LayerWeights, NetworkWeights

# The smallest number of positions to prepare, so that the table rarely grows.
POSITIONS = 256


class ProposalWays(NamedTuple):
    """Options of the proposals of prediction heads.

    Attributes:
        n_heads: the number of heads, including p_1; 1 without proposals.
        n_types: proposals are chosen from this number of types at the beginning of the dictionary;
            ``None``: from all.
        rounds: whether to use the precision :data:`~.precision.ROUGH` instead of that of
            the model.
    """

    n_heads: int = 1
    n_types: Optional[int] = None
    rounds: bool = True


class EngineModels:
    """An ensemble for the engine. Not thread-safe; instances share the prepared weights."""

    def __init__(
        self,
        models: Sequence[FairseqEncoderDecoderModel],
        precision: str,
        proposals: ProposalWays,
        last_attention: bool = False,
        lm: Optional[FairseqLanguageModel] = None,
    ) -> None:
        """
        Args:
            precision: a name of :data:`~.precision.PRECISIONS`.
            last_attention: whether the attention of the last layer aligns subwords, as in fairseq's
                generator, instead of that which a model was trained to align with.
            lm: a language model whose log-probabilities are added.
        """
        self._models, self._precision, self._proposals = models, precision, proposals
        self._lm = lm
        self._aligned = [aligned_heads(model, last_attention) for model in models]
        # Whether decoding returns the attention that aligns subwords.
        self.align = all(layer >= 0 for layer, _ in self._aligned)
        self._prepared = [
            prepared(coder)
            for model in models
            if unsupported_part(model) is None
            for coder in (model.encoder, model.decoder)
            if coder is model.decoder or runs_prepared(coder)
        ]
        if lm is not None and unsupported_part(lm) is None:
            self._prepared.append(prepared(lm.decoder))
        self._encodes = bool(self._prepared) and all(is_compiled(model.encoder) for model in models)
        self._versions: Optional[list[int]] = None
        # Positions are prepared for at least this many tokens, and more for longer sentences.
        self._n_positions = (POSITIONS, POSITIONS)
        self._made: list[Any] = []
        self._problem: Optional[str] = None

    @torch.no_grad()
    def states(self, net_input: dict[str, Any]) -> Optional[list[tuple[np.ndarray, np.ndarray]]]:
        """Encode sources with fairseq, if the engine does not support all encoders.

        Args:
            net_input: the ``net_input`` of a batch with B sources.

        Returns:
            for each model the encoder's states, float32 ``[B, S, C]``, padded on the right, and
            their lengths, int64 ``[B]``; ``None`` if the engine encodes the source tokens
        """
        if self._encodes:
            return None
        return [_states(model.encoder.forward_torchscript(net_input)) for model in self._models]

    def follow(self) -> Optional[str]:
        """Check for changes of the models' parameters, devices and dtypes.

        Returns:
            see :func:`obstacle`
        """
        versions = [module.refresh() for module in self._prepared]
        if versions != self._versions:
            self._versions, self._made = versions, []
            self._problem = obstacle(self._models, self._precision)
            if self._problem is None and self._lm is not None:
                problem = obstacle([self._lm], self._precision)
                self._problem = problem and f"in the language model, {problem}"
        return self._problem

    @torch.no_grad()
    def reaching(self, n_source: int, n_target: int) -> list[Any]:
        """The ``_engine.Model`` objects: the same list until the models change.

        Args:
            n_source, n_target: the maximum number of tokens of a source and of an output; models
                with learned positions may support fewer.

        Raises:
            ReleasedWeights: if parameters have changed after weights were released.
        """
        wanted = (n_source, n_target)
        if not self._made or any(n > ready for n, ready in zip(wanted, self._n_positions)):
            source, target = map(max, wanted, self._n_positions)
            self._made = [part.built() for part in self.parts(source, target)]
            self._n_positions = source, target
        return self._made

    @torch.no_grad()
    def parts(self, n_source: int, n_target: int) -> list[EnginePart]:
        """Describe the models, with positions for sources and outputs up to these lengths.

        Raises:
            ReleasedWeights: see :meth:`reaching`.
        """
        given = (PRECISIONS[self._precision], self._proposals, n_source, n_target)
        parts = [
            _engine_model(model, aligned, *given)
            for model, aligned in zip(self._models, self._aligned)
        ]
        if self._lm is not None:
            parts.append(_language_model(self._lm, PRECISIONS[self._precision], n_target))
        return parts


def obstacle(models: Sequence[nn.Module], precision: str) -> Optional[str]:
    """Describe the first reason why the engine cannot decode with models; ``None`` if it can."""
    return next((problem for model in models for problem in _obstacles(model, precision)), None)


def _obstacles(model: Any, precision: str) -> Iterator[str]:
    problem = unsupported_part(model)
    if problem is not None:
        yield problem
        return  # the checks below assume supported parts
    decoder = model.decoder
    if loading.library() is None:
        yield (
            "there is no compiled code, which is faster (install a C++ compiler such as g++. "
            f"{loading.how_to_install()})"
        )
    parameters = list(decoder.parameters())
    if not isinstance(model, FairseqLanguageModel):
        parameters += model.encoder.parameters()
    devices = {parameter.device.type for parameter in parameters}
    if devices != {"cpu"}:
        yield f"the model is on {' and '.join(sorted(devices - {'cpu'}))}"
    dtypes = {parameter.dtype for parameter in parameters}
    if precision == "model" and dtypes != {torch.float32}:
        names = sorted(str(dtype).replace("torch.", "") for dtype in dtypes)
        yield f"the model's weights are {' and '.join(names)}"
    yield from (f"the decoder: {problem}" for problem in _obstacles_of_layers(decoder))
    if type(decoder.output_projection) is not nn.Linear:
        yield f"the output layer is a {type(decoder.output_projection).__name__}"
    if hasattr(decoder, "head_features"):
        if decoder.project_out_dim is not None:
            yield "prediction heads cannot follow a projection (--decoder-output-dim)"
        activation = decoder.heads.activation_fn
        is_supported = activation in ACTIVATIONS_OF_HEADS
        if has_sequential_heads(decoder):
            is_supported = activation_number(activation) is not None
        if not is_supported:
            yield "the activation of the prediction heads is not compiled"


def is_compiled(encoder: FairseqEncoder) -> bool:
    """Return True if the engine can run an encoder."""
    return runs_prepared(encoder) and not any(_obstacles_of_layers(encoder))


def _states(encoded: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """The states of an encoder's output, float32 ``[B, S, C]``, and the lengths int64 ``[B]``.

    Padding is moved to the right.
    """
    states = encoded["encoder_out"][0].transpose(0, 1).float()
    padding = next(iter(encoded["encoder_padding_mask"]), None)
    if padding is None or not padding.any():
        return states.contiguous().numpy(), np.full(states.size(0), states.size(1))
    order = padding.long().argsort(dim=1, stable=True)[..., None]
    states = states.gather(1, order.expand_as(states))
    return states.contiguous().numpy(), (~padding).sum(dim=1).numpy()


def _obstacles_of_layers(coder: Any) -> Iterator[str]:
    layers = layers_of(coder)
    activations = {activation_number(layer.activation_fn) for layer in layers}
    if None in activations or len(activations) > 1:
        yield "its activation is not compiled"
    n_units = {layer.fc1.out_features for layer in layers}
    if len(n_units) > 1 or 0 in n_units:
        yield "its feed-forward networks have no units, or different numbers of them"


def aligned_heads(
    model: FairseqEncoderDecoderModel, last_attention: bool = False
) -> tuple[int, Optional[int]]:
    """The decoder layer whose attention aligns subwords, and the number of its first heads.

    Args:
        last_attention: see :class:`EngineModels`.

    Returns:
        the layer, -1 if decoding does not return such attention, and the heads, ``None`` for all
    """
    n_layers = len(getattr(model.decoder, "layers", ()))
    if getattr(model, "full_context_alignment", False) or not n_layers:
        return -1, None
    layer = getattr(model, "alignment_layer", None)
    if layer is None or last_attention:
        return n_layers - 1, None
    return layer if 0 <= layer < n_layers else -1, getattr(model, "alignment_heads", None)


def _engine_model(
    model: FairseqEncoderDecoderModel,
    aligned: tuple[int, Optional[int]],
    precision: Precision,
    proposals: ProposalWays,
    n_source: int,
    n_target: int,
) -> EnginePart:
    decoder = model.decoder
    module = prepared(decoder)
    parts: dict[str, Any] = {}
    if is_compiled(model.encoder):
        encoder = prepared(model.encoder).encoder(precision)
        parts["encoder"] = _network(encoder, model.encoder, 0, n_source)
    weights = module.decoder(precision, model.encoder)
    if hasattr(decoder, "head_features"):
        if not has_sequential_heads(decoder) and not decoder.identity_first_head:
            parts["p1"] = _heads(module.heads(precision, 0, 1))
        if proposals.n_heads > 1:  # models without heads verify the proposals of others
            parts.update(_proposals(decoder, precision, proposals))
    n_tokens = getattr(decoder, "tokens_per_step", 1)
    parts["cross"] = _part(weights.cross_key_values)
    parts["decoder"] = _network(weights, decoder, n_tokens, n_target)
    layer, n_heads = aligned
    if layer != len(decoder.layers) - 1 or n_heads is not None:  # not the engine's default
        n_heads = min(n_heads or weights.n_heads, weights.n_heads)
        parts["decoder"].arguments.update(aligned_layer=layer, aligned_heads=n_heads)
    parts["output"] = module.vocabulary(precision).part
    parts["rounds_keys"] = precision.rounds_keys
    return EnginePart("Model", parts)


def _language_model(model: Any, precision: Precision, n_target: int) -> EnginePart:
    module = prepared(model.decoder)
    parts = {
        "decoder": _network(module.decoder(precision), model.decoder, 1, n_target),
        "output": module.vocabulary(precision).part,
        "rounds_keys": precision.rounds_keys,
    }
    return EnginePart("Model", parts)


def _proposals(decoder: FairseqDecoder, precision: Precision, ways: ProposalWays) -> dict[str, Any]:
    """The parts of a model that propose tokens."""
    module = prepared(decoder)
    if ways.rounds:
        precision = ROUGH
    if has_sequential_heads(decoder):
        heads = module.sequential(precision)
        last_layer = len(decoder.layers) - 1
        vocabulary = module.vocabulary_of_proposals(precision, ways.n_types)
        return {"sequential": _sequential(heads, last_layer), "proposals": vocabulary.part}
    return {
        "heads": _heads(module.heads(precision, 1, ways.n_heads)),
        "proposals": module.vocabulary(precision, ways.n_types).part,
    }


def _network(
    weights: NetworkWeights, coder: Any, tokens_per_step: int, n_positions: int
) -> EnginePart:
    positions = positions_of(coder, max(POSITIONS, n_positions), like=weights.embed)
    arguments = {
        "layers": [_layer(layer) for layer in weights.layers],
        "n_heads": weights.n_heads,
        "head_dim": weights.head_dim,
        "pre_norm": coder.layers[0].normalize_before,
        "activation": activation_number(coder.layers[0].activation_fn),
        "tokens_per_step": tokens_per_step,
        "embed": weights.embed.numpy(),
        "embed_scale": weights.embed_scale,
        "embed_norm": _part(weights.embed_norm),
        "final_norm": _part(weights.final_norm),
        "positions": None if positions is None else positions.numpy(),
    }
    if has_first_input(coder):
        replaced = {"eos": coder.embed_tokens.eos, "first_input": coder.padding_idx}
        arguments.update(replaced)
    return EnginePart("Network", arguments)


def _layer(layer: LayerWeights) -> tuple[dict[str, Any], dict[str, Any]]:
    others: dict[str, Any] = _norms(layer.norms)
    if layer.residual_scale is not None:
        others["residual_scale"] = layer.residual_scale.contiguous().numpy()
    return _linears(layer.linears), others


def _heads(heads: HeadWeights) -> EnginePart:
    arguments = {
        "hidden": heads.hidden.part,
        "outputs": [output.part for output in heads.outputs],
        "n_heads": heads.n_heads,
        "gelu": heads.gelu,
    }
    return EnginePart("Heads", arguments)


def _sequential(heads: SequentialWeights, layer: int) -> EnginePart:
    arguments = {
        "linears": _linears(heads.linears),
        "norms": _norms(heads.norms),
        "n_heads": heads.n_heads,
        "head_dim": heads.head_dim,
        "activation": heads.activation,
        "embed": heads.embed.numpy(),
        "embed_scale": heads.embed_scale,
        "layer": layer,
    }
    return EnginePart("SequentialHeads", arguments)


def _linears(linears: dict[str, PackedLinear]) -> dict[str, EnginePart]:
    return {name: packed.part for name, packed in linears.items()}


def _part(layer: Union[PackedLinear, PreparedNorm, None]) -> Optional[EnginePart]:
    return None if layer is None else layer.part


def _norms(norms: Mapping[str, Optional[PreparedNorm]]) -> dict[str, Optional[EnginePart]]:
    return {name: _part(norm) for name, norm in norms.items()}
