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

from ..processes.memory import trim
from .heads import HeadWeights, SequentialWeights, vocabulary_of_proposals
from .own_weights import OwnWeights
from .packed import PackedLinear
from .precision import Precision, in_fp32
from .rehearsal import Rehearsal
from .staleness import Watch
from .weights import NetworkWeights


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

    def decoder(self, precision: Precision, encoder: FairseqEncoder) -> NetworkWeights:
        """The weights of a decoder, from token ids to features.

        Args:
            encoder: the encoder whose states the decoder attends to.
        """
        # Some encoders are not prepared, such as speech encoders, which run in torch.
        with _PREPARED_LOCK:
            prepared_encoder = _PREPARED.get(encoder)
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
