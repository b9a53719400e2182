"""Prepares the parameters of a model once per precision, for all of its generators.

Packing and quantising transformer base takes longer than translating a sentence, and every call of
fairseq's hub interface builds a generator.
"""

import threading
import weakref
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Optional

import torch
from fairseq.models import FairseqDecoder, FairseqEncoder
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from ..processes.memory import trim
from .columns import by_columns
from .heads import HeadWeights, SequentialWeights, vocabulary_of_proposals
from .own_weights import OwnWeights
from .packed import PackedLinear
from .precision import Precision, in_fp32
from .rehearsal import Rehearsal
from .weights import NetworkWeights

_n_optimizer_steps = 0


def _count_step(*_: Any) -> None:
    global _n_optimizer_steps
    _n_optimizer_steps += 1


# fairseq's optimizers write to ``parameter.data``, which does not change the parameter's version.
register_optimizer_step_post_hook(_count_step)


class Watch:
    """Detects changes of an encoder's or decoder's parameters since :meth:`reset`.

    The engine computes with prepared copies of the parameters. Detected changes are steps of any
    optimizer, in-place operations, ``load_state_dict``, new parameters or modules, and moves to
    another device or dtype. Other writes to ``parameter.data`` are not detected.

    The module needs no hooks, so it can be pickled and copied.
    """

    def __init__(self, coder: Any) -> None:
        """
        Args:
            coder: the encoder or decoder. It is not kept alive, but its submodules and parameters
                are, until the next reset.
        """
        self._coder_modules = coder._modules
        self._coder_parameters = coder._parameters
        self._parameters: list[tuple[dict[str, Any], str, nn.Parameter, int]] = []
        self._modules: list[tuple[dict[str, Any], str, nn.Module]] = []
        self._n_steps = -1
        self._placement: Any = None

    def changed(self) -> bool:
        """Whether the parameters may differ from those at the last reset."""
        if self._n_steps != _n_optimizer_steps or self._placement != self._where():
            return True
        for modules, name, module in self._modules:
            if modules.get(name) is not module:
                return True
        for parameters, name, parameter, version in self._parameters:
            if parameters.get(name) is not parameter or parameter._version != version:
                return True
        return False

    def reset(self) -> None:
        """Compare with the current parameters from now on."""
        self._n_steps = _n_optimizer_steps
        self._modules, self._parameters = [], []
        self._add(self._coder_modules, self._coder_parameters)
        self._placement = self._where()

    def _add(self, modules: dict[str, Any], parameters: dict[str, Any]) -> None:
        for name, parameter in parameters.items():
            if parameter is not None:
                self._parameters.append((parameters, name, parameter, parameter._version))
        for name, module in modules.items():
            if module is not None:
                self._modules.append((modules, name, module))
                self._add(module._modules, module._parameters)

    def _where(self) -> tuple[int, torch.dtype, torch.device]:
        """The address, dtype and device of a norm's weight, which is never released."""
        weight = next(iter(self._coder_modules["layers"].children())).final_layer_norm.weight
        return weight.data_ptr(), weight.dtype, weight.device


class PreparedModule:
    """The prepared weights of one encoder or decoder, which live as long as the module.

    They are prepared on first use, and again after :meth:`refresh` has found that the parameters
    may have changed. The module keeps its weights unless :meth:`may_release` permits to release
    them. Methods are thread-safe.

    Attributes:
        version: the number of times that :meth:`refresh` has dropped the weights.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = weakref.ref(module)
        self._watch = Watch(module)
        self._own = OwnWeights()
        self._made: dict[tuple[Hashable, ...], Any] = {}
        # Reentrant: preparing one part can need another part of the same module.
        self._lock = threading.RLock()
        self.version = 0

    def may_release(self, linears: Iterable[nn.Linear]) -> None:
        """See :meth:`OwnWeights.may_release`."""
        self._own.may_release(linears)

    def refresh(self) -> int:
        """Drop prepared weights if the parameters may have changed; returns the version."""
        with self._lock:
            if self._watch.changed():
                self._made.clear()
                self._watch.reset()
                self.version += 1
            return self.version

    def encoder(self, precision: Precision) -> NetworkWeights:
        """The weights of an encoder, without its positions.

        Raises:
            ReleasedWeights: if released weights are needed. This also holds for the other methods.
        """
        return self._get("encoder", partial(NetworkWeights.of, own=self._own), precision)

    def decoder(
        self, precision: Precision, encoder: Optional[FairseqEncoder] = None
    ) -> NetworkWeights:
        """The weights of a decoder, from token ids to features.

        Args:
            encoder: the encoder whose states the decoder attends to; ``None`` for a language model.
        """
        # Some encoders are not prepared, such as speech encoders, which run in torch.
        with _PREPARED_LOCK:
            prepared_encoder = None if encoder is None else _PREPARED.get(encoder)
        sources = None
        if prepared_encoder is not None:
            sources = prepared_encoder._rehearsed("encoder", precision)
        make = partial(NetworkWeights.of, own=self._own, sources=sources)
        return self._get("decoder", make, precision)

    def vocabulary(self, precision: Precision, n_types: Optional[int] = None) -> PackedLinear:
        """A decoder's output layer, for the first types only (default: all).

        It includes the projection before it (``--decoder-output-dim``).
        """
        return self._get("vocabulary", self._make_vocabulary, precision, n_types)

    def heads(self, precision: Precision, first: int, last: int) -> HeadWeights:
        """Parallel heads; see :meth:`HeadWeights.of`."""
        return self._get("heads", HeadWeights.of, precision, first, last)

    def sequential(self, precision: Precision) -> SequentialWeights:
        """Sequential heads."""
        return self._get("sequential", SequentialWeights.of, precision)

    def vocabulary_of_proposals(
        self, precision: Precision, n_types: Optional[int] = None
    ) -> PackedLinear:
        """See :func:`.heads.vocabulary_of_proposals`."""
        return self._get("drafts", self._make_drafts, precision, n_types)

    def by_columns(self) -> Any:
        """The decoder, for torch; see :func:`.columns.by_columns`."""
        self.refresh()
        return self._get("columns", by_columns)

    @torch.no_grad()
    def _get(self, name: str, make: Callable, *arguments: Hashable) -> Any:
        """The result of ``make(module, *arguments)``, called once for a name and arguments."""
        key = (name, *arguments)
        with self._lock:
            if key not in self._made:
                n_released = self._own.n_released
                self._made[key] = make(self._module(), *arguments)
                if self._own.n_released > n_released:
                    trim()
            return self._made[key]

    def _rehearsed(self, name: str, precision: Precision) -> Optional[Tensor]:
        """The states of random sentences in this precision, if they have been computed."""
        with self._lock:
            return getattr(self._made.get((name, precision)), "rehearsed", None)

    def _make_drafts(
        self, decoder: FairseqDecoder, precision: Precision, n_types: Optional[int]
    ) -> PackedLinear:
        output = decoder.output_projection
        with self._own.reading(output, [output]):
            return vocabulary_of_proposals(decoder, precision, n_types)

    def _make_vocabulary(
        self, decoder: FairseqDecoder, precision: Precision, n_types: Optional[int]
    ) -> PackedLinear:
        output, projection = decoder.output_projection, decoder.project_out_dim
        with self._own.reading(output, [output]):
            weight = in_fp32(output.weight[:n_types])
            if projection is not None:
                weight = weight @ in_fp32(projection.weight)
            bias = None if output.bias is None else output.bias[:n_types]
            features = self._rehearsed("decoder", precision)
            if features is None:
                return precision.linear(weight, bias)
            rehearsal = Rehearsal(precision, "decoder")
            made = rehearsal.linear(weight, bias, "output_projection", features)
            rehearsal.log()
            return made


_PREPARED: "weakref.WeakKeyDictionary[nn.Module, PreparedModule]" = weakref.WeakKeyDictionary()
_PREPARED_LOCK = threading.Lock()


def prepared(module: nn.Module) -> PreparedModule:
    """The prepared weights of an encoder or decoder, shared by all generators."""
    with _PREPARED_LOCK:
        if module not in _PREPARED:
            _PREPARED[module] = PreparedModule(module)
        return _PREPARED[module]
