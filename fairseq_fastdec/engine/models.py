"""The models that the compiled search decodes with, made of a session's prepared weights."""

from types import ModuleType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from .kernels import structures
from .kernels.drafts import DraftParameters
from .kernels.packed import Packed
from .kernels.search import search_module
from .kernels.transformer import LayerNorm, LayerParameters, Parameters, Transformer
from .network.positions import POSITIONS, Positions
from .session.decoder_session import DecoderSession
from .session.fairseq_session import FairseqSession
from .session.output_layer import OutputLayer


class CompiledModels:
    """The models of a session as the compiled search decodes with them.

    Attributes:
        models: since the last :meth:`follow`; ``None`` if some model is not compiled.
    """

    def __init__(
        self, members: Sequence[Union[DecoderSession, FairseqSession]], n_heads: int
    ) -> None:
        """
        Args:
            n_heads: see :func:`compiled_model`.
        """
        self._members, self._n_heads = members, n_heads
        self._networks: Tuple[Any, ...] = ()
        self._n_positions = (0, 0)
        self.models: Optional[List[Any]] = None

    def follow(self, n_source: int, n_target: int) -> bool:
        """Follow the models' parameters, and reach that many positions.

        Returns:
            whether :attr:`models` are others than before
        """
        for member in self._members:
            member.reset(1)
        if not self._encodes:
            n_source = 0
        networks = tuple(getattr(member, "network", None) for member in self._members)
        wanted = (n_source, n_target)
        is_known = len(self._networks) > 0 and all(map(_is, networks, self._networks))
        if is_known and all(n <= known for n, known in zip(wanted, self._n_positions)):
            return False
        n_positions = [max(POSITIONS, *pair) for pair in zip(wanted, self._n_positions)]
        models = [compiled_model(member, self._n_heads, *n_positions) for member in self._members]
        self.models = None if None in models else models
        self._networks, self._n_positions = networks, tuple(n_positions)
        return True

    @property
    def _encodes(self) -> bool:
        """Whether the compiled search encodes sources; the models do themselves where it cannot."""
        return all(
            isinstance(member, DecoderSession) and member.encoder.compiled is not None
            for member in self._members
        )

    def states(self, net_input: Dict[str, Any]) -> Optional[List[Tuple[np.ndarray, np.ndarray]]]:
        """Encode sources for the compiled search, where it cannot; after :meth:`follow`.

        Args:
            net_input: what fairseq's batches hold, B sources.

        Returns:
            of each model its encoder's states, float32 ``[B, S, C]``, padded on the right, and the
            lengths, int64 ``[B]``; ``None`` where the compiled search encodes the sources' tokens
        """
        if self._encodes:
            return None
        encoded = [member.encoder(net_input) for member in self._members]
        return [(own.states.float().contiguous().numpy(), own.lengths.numpy()) for own in encoded]


def _is(one: object, other: object) -> bool:
    return one is other


def compiled_model(
    session: Union[DecoderSession, FairseqSession], n_heads: int, n_source: int, n_target: int
) -> Optional[Any]:
    """A model of the compiled search, whose memory is the session's.

    Args:
        session: which has prepared its weights: :meth:`DecoderSession.reset` was called.
        n_heads: the number of heads that propose, p_1 among them.
        n_source, n_target: the most tokens of a source and of an output; models with learned
            positions may have fewer.

    Returns:
        ``None`` if some part of the model is not compiled
    """
    module = search_module()
    if module is None or not isinstance(session, DecoderSession):
        return None
    network = session.network
    takes_tokens = getattr(network.compiled, "takes_addresses", False)
    cross = getattr(network.weights.cross_key_values, "packed", None)
    output = session.whole_output()
    direct = output.direct(0, 1, rough=False) if takes_tokens else None
    if cross is None or direct is None:
        return None
    parts: Dict[str, Any] = {}
    encoder = session.encoder.compiled
    if encoder is not None:
        parts["encoder"] = _network(module, encoder, session.encoder.positions, n_source)
    if direct.heads is not None:
        parts["p1"] = _heads(module, output.heads, 0, 1)
    if n_heads > 1:
        parts.update(_proposals(module, session, output, n_heads))
    if None in parts.values():
        return None
    return module.Model(
        cross=_linear(module, cross),
        decoder=_network(module, network.compiled.network, network.forward_pass.table, n_target),
        output=_linear(module, direct.layer),
        rounds_keys=network.caches.rows.dtype == torch.bfloat16,
        **parts,
    )


def _proposals(
    module: ModuleType, session: DecoderSession, output: OutputLayer, n_heads: int
) -> Dict[str, Any]:
    """The parts of a model that propose tokens; ``None`` for one that is not compiled."""
    if session.has_sequential_heads:
        drafts = output.direct_drafts(rough=True)
        if drafts is None:
            return {"drafter": None}
        last_layer = len(session.weights.layers) - 1
        return {
            "drafter": _drafter(module, drafts.compiled.parameters, last_layer),
            "proposals": _linear(module, drafts.layer),
        }
    direct = output.direct(1, n_heads, rough=True)
    if direct is None:
        return {"heads": None}
    return {
        "heads": _heads(module, output.proposing_heads, 1, n_heads),
        "proposals": _linear(module, direct.layer),
    }


def _linear(module: ModuleType, packed: Packed) -> Any:
    linear = packed.structure
    arrays = {name: _array(tensor) for name, tensor in packed.tensors.items()}
    return module.Linear(inputs=linear.inputs, outputs=linear.outputs, **arrays)


def _array(tensor: Tensor) -> Any:
    # numpy has no bf16.
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _norm(module: ModuleType, norm: Optional[LayerNorm]) -> Optional[Any]:
    if norm is None:
        return None
    return module.Norm(norm.weight.detach().numpy(), norm.bias.detach().numpy(), norm.eps)


def _linears(module: ModuleType, linears: Mapping[str, Optional[Packed]]) -> Dict[str, Any]:
    return {name: _linear(module, packed) for name, packed in linears.items()}


def _norms(module: ModuleType, norms: Mapping[str, Optional[LayerNorm]]) -> Dict[str, Any]:
    return {name: _norm(module, norm) for name, norm in norms.items()}


def _layer(module: ModuleType, layer: LayerParameters) -> Any:
    norms = _norms(module, layer.norms)
    if layer.residual_scale is not None:
        norms["residual_scale"] = layer.residual_scale.detach().numpy()
    return _linears(module, layer.linears), norms


def _network(
    module: ModuleType, transformer: Transformer, positions: Positions, n_positions: int
) -> Any:
    parameters: Parameters = transformer.parameters
    positions.reach(n_positions)
    table = positions.table
    return module.Network(
        layers=[_layer(module, layer) for layer in parameters.layers],
        n_heads=parameters.n_heads,
        head_dim=parameters.head_dim,
        pre_norm=parameters.pre_norm,
        activation=structures.EPILOGUES.index(parameters.activation),
        tokens_per_step=parameters.tokens_per_step,
        embed=transformer.embed.numpy(),
        embed_scale=parameters.embed_scale,
        embed_norm=_norm(module, parameters.embed_norm),
        final_norm=_norm(module, parameters.final_norm),
        positions=None if table is None else table.numpy(),
    )


def _heads(module: ModuleType, heads: Any, first: int, last: int) -> Optional[Any]:
    """Heads ``first ... last - 1``, which all are learned."""
    hidden, outputs, gelu = heads.packed_layers(first, last)
    if None in (hidden, *outputs):
        return None
    layers: List[Any] = [_linear(module, output) for output in outputs]
    return module.Heads(_linear(module, hidden), layers, last - first, gelu)


def _drafter(module: ModuleType, parameters: DraftParameters, layer: int) -> Any:
    return module.Drafter(
        linears=_linears(module, parameters.linears),
        norms=_norms(module, parameters.norms),
        n_heads=parameters.n_heads,
        head_dim=parameters.head_dim,
        activation=structures.EPILOGUES.index(parameters.activation),
        embed=parameters.embed.numpy(),
        embed_scale=parameters.embed_scale,
        layer=layer,
    )
