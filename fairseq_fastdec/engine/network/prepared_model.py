"""A model's parameters are prepared once a model and precision, for all of its sessions.

To pack and quantise the weights of transformer base takes longer than to translate a sentence, and
every call of fairseq's hub interface builds a generator.
"""

import threading
import weakref
from dataclasses import dataclass
from typing import Callable, Dict, Iterable, NamedTuple, Optional, Tuple, TypeVar

import torch
from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from ...memory import trim
from ..products.linear import LinearLayer, Rows
from ..products.precision import Precision
from .decoder_rehearsal import rehearsed_decoder
from .drafter import Drafter, low_rank_output
from .heads import HeadWeights
from .own_weights import OwnWeights
from .rehearsal import Rehearsal
from .staleness import Watch
from .weights import DecoderWeights

Made = TypeVar("Made")
Make = Callable[[nn.Module, Precision, OwnWeights], Made]


class PreparedModule:
    """The prepared weights of one encoder or decoder: gone when the module is.

    They are made when they are first asked for, and made anew after :meth:`refresh` has found that
    the parameters may have changed. The module's own weights stay beside them, unless
    :meth:`may_release` permits to let them go. Any number of threads may call the methods.

    Attributes:
        version: how often :meth:`refresh` has forgotten the weights.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = weakref.ref(module)
        self._watch = Watch(module)
        self._own = OwnWeights()
        self._made: Dict[Tuple[Callable, Precision], object] = {}
        # Making one piece asks for others of the same module.
        self._lock = threading.RLock()
        self.version = 0

    def may_release(self, linears: Iterable[nn.Linear]) -> None:
        """See :meth:`OwnWeights.may_release`."""
        self._own.may_release(linears)

    def refresh(self) -> int:
        """Forget what was made of parameters that may have changed since; returns the version."""
        with self._lock:
            if self._watch.changed():
                self._made.clear()
                self._watch.reset()
                self.version += 1
            return self.version

    @torch.no_grad()
    def get(self, make: Make, precision: Precision) -> Made:
        """The result of ``make(module, precision, own weights)``, made when first asked for.

        Raises:
            ReleasedWeights: if it would have to be made of weights that have been released.
        """
        # The precision of attention concerns caches, and no weights.
        key = make, precision._replace(attention=None)
        with self._lock:
            if key not in self._made:
                n_released = self._own.n_released
                self._made[key] = make(self._module(), precision, self._own)
                if self._own.n_released > n_released:
                    trim()
            return self._made[key]

    def rehearsed(self, precision: Precision) -> Optional[Tensor]:
        """The states of random sentences behind the weights in that precision, if there are any."""
        own = precision._replace(attention=None)
        with self._lock:
            made = [value for (_, key), value in self._made.items() if key == own]
        states = (getattr(value, "rehearsed", None) for value in made)
        return next((found for found in states if found is not None), None)


_PREPARED: "weakref.WeakKeyDictionary[nn.Module, PreparedModule]" = weakref.WeakKeyDictionary()
_PREPARED_LOCK = threading.Lock()


def prepared(module: nn.Module) -> PreparedModule:
    """The prepared weights of an encoder or a decoder, which all its generators share."""
    with _PREPARED_LOCK:
        if module not in _PREPARED:
            _PREPARED[module] = PreparedModule(module)
        return _PREPARED[module]


class Output(NamedTuple):
    """From features to logits.

    Attributes:
        heads: ``None`` for a stock decoder, and for one with sequential heads.
        vocabulary: from ``[..., C]`` to ``[..., V]``.
    """

    heads: Optional[HeadWeights]
    vocabulary: LinearLayer


class PreparedDecoder:
    """A decoder's prepared weights in one precision, as a session asks for them."""

    def __init__(
        self, decoder: TransformerDecoderBase, precision: Precision, encoder: nn.Module
    ) -> None:
        """
        Args:
            encoder: whose states the decoder attends to.
        """
        self._prepared = prepared(decoder)
        self._precision = precision
        self._make_weights = _DecoderWeights(encoder)

    def refresh(self) -> int:
        """See :meth:`PreparedModule.refresh`."""
        return self._prepared.refresh()

    def weights(self) -> DecoderWeights:
        """All from token ids to features."""
        return self._prepared.get(self._make_weights, self._precision)

    def output(self, precision: Optional[Precision] = None) -> Output:
        """From features to logits, perhaps in another precision."""
        precision = precision or self._precision
        heads = self._prepared.get(_heads, precision)
        return Output(heads, self._prepared.get(_vocabulary, precision))

    def heads(self, precision: Optional[Precision] = None) -> Optional[HeadWeights]:
        """The heads of :meth:`output` alone, where a shortlist takes the output layer's place."""
        return self._prepared.get(_heads, precision or self._precision)

    def drafter(self, precision: Precision, widened: bool) -> Optional[Drafter]:
        """The sequential heads in some precision, ``None`` if there are none.

        Args:
            widened: see :class:`Drafter`.
        """
        return self._prepared.get(_SequentialHeads(widened), precision)

    def low_rank_output(
        self, precision: Precision, n_types: Optional[int]
    ) -> Optional[LinearLayer]:
        """See :func:`.drafter.low_rank_output`."""
        return self._prepared.get(_LowRankOutput(n_types), precision)

    def proposals(self, precision: Precision, n_types: int) -> Output:
        """For proposals: from features to the logits of the first types alone."""
        heads = self._prepared.get(_heads, precision)
        return Output(heads, self._prepared.get(_FirstTypes(n_types), precision))

    def vocabulary_rows(self) -> Rows:
        """The output layer, of which a shortlist takes some outputs."""
        return self._prepared.get(_vocabulary_rows, self._precision)


# No tuples: PreparedModule.get tells those that make different things apart.
@dataclass(frozen=True)
class _DecoderWeights:
    """Makes a decoder's weights, which are tried with what the encoder gives."""

    encoder: nn.Module

    def __call__(
        self, decoder: TransformerDecoderBase, precision: Precision, own: OwnWeights
    ) -> DecoderWeights:
        # Not every encoder is prepared: those of speech are fairseq's own.
        with _PREPARED_LOCK:
            encoder = _PREPARED.get(self.encoder)
        sources = None if encoder is None else encoder.rehearsed(precision)
        return rehearsed_decoder(decoder, precision, own, sources)


def _heads(
    decoder: TransformerDecoderBase, precision: Precision, own: OwnWeights
) -> Optional[HeadWeights]:
    return HeadWeights.of(decoder, precision)


@dataclass(frozen=True)
class _SequentialHeads:
    """Makes sequential heads."""

    widened: bool

    def __call__(
        self, decoder: TransformerDecoderBase, precision: Precision, own: OwnWeights
    ) -> Optional[Drafter]:
        return Drafter.of(decoder, precision, self.widened)


@dataclass(frozen=True)
class _LowRankOutput:
    """Makes the output layer behind sequential heads with an output rank."""

    n_types: Optional[int]

    def __call__(
        self, decoder: TransformerDecoderBase, precision: Precision, own: OwnWeights
    ) -> Optional[LinearLayer]:
        output = decoder.output_projection
        with own.reading(output, [output]):
            return low_rank_output(decoder, precision, self.n_types)


def _vocabulary(
    decoder: TransformerDecoderBase, precision: Precision, own: OwnWeights
) -> LinearLayer:
    output = decoder.output_projection
    with own.reading(output, [output]):
        features = prepared(decoder).rehearsed(precision)
        rehearsal = Rehearsal.of(precision, "decoder")
        if rehearsal is None or features is None:
            return precision.linear_of(output)
        made = rehearsal.precision.linear_of(output)
        made(features)
        made = rehearsal.settle(made, "output_projection")
        rehearsal.tell()
        return made


@dataclass(frozen=True)
class _FirstTypes:
    """Makes the output layer of a dictionary's first types."""

    n: int

    def __call__(
        self, decoder: TransformerDecoderBase, precision: Precision, own: OwnWeights
    ) -> LinearLayer:
        return _vocabulary_rows(decoder, precision, own).take(torch.arange(self.n))


def _vocabulary_rows(
    decoder: TransformerDecoderBase, precision: Precision, own: OwnWeights
) -> Rows:
    output = decoder.output_projection
    with own.reading(output, [output]):
        features = prepared(decoder).rehearsed(precision)
        rehearsal = Rehearsal.of(precision, "decoder")
        if rehearsal is None or features is None:
            return precision.rows_of(output)
        rows = rehearsal.try_rows(output, features, "output_projection")
        rehearsal.tell()
        return rows
