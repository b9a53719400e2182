"""A model's parameters are prepared once a model and precision, for all of its generators.

To pack and quantise the weights of transformer base takes longer than to translate a sentence, and
every call of fairseq's hub interface builds a generator.
"""

import threading
import weakref
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Optional

import torch
from fairseq.models import FairseqDecoder, FairseqEncoder
from torch import Tensor, nn

from ...memory import trim
from ..kernels.packed import PackedLinear
from ..products.precision import Precision, in_fp32
from .encoder_weights import EncoderWeights
from .heads import DrafterWeights, HeadWeights, vocabulary_of_drafts
from .own_weights import OwnWeights
from .rehearsal import Rehearsal
from .staleness import Watch
from .weights import DecoderWeights


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
        self._made: dict[tuple[Hashable, ...], Any] = {}
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

    def encoder(self, precision: Precision) -> EncoderWeights:
        """All of an encoder but its positions.

        Raises:
            ReleasedWeights: if it would have to be made of weights that have been released. So do
                the other methods.
        """
        return self._get(("encoder", precision), EncoderWeights.of, precision, self._own)

    def decoder(self, precision: Precision, encoder: FairseqEncoder) -> DecoderWeights:
        """All of a decoder from token ids to features.

        Args:
            encoder: whose states the decoder attends to.
        """
        # Not every encoder is prepared: those of speech are fairseq's own.
        with _PREPARED_LOCK:
            known = _PREPARED.get(encoder)
        sources = None if known is None else known._rehearsed("encoder", precision)
        make = partial(DecoderWeights.of, sources=sources)
        return self._get(("decoder", precision), make, precision, self._own)

    def vocabulary(self, precision: Precision, n_types: Optional[int] = None) -> PackedLinear:
        """A decoder's output layer, of the first types (default: all).

        A projection before it (``--decoder-output-dim``) is part of it.
        """
        make = self._make_vocabulary
        return self._get(("vocabulary", precision, n_types), make, precision, n_types)

    def heads(self, precision: Precision, first: int, last: int) -> HeadWeights:
        """Heads that know nothing of each other; see :meth:`HeadWeights.of`."""
        key = ("heads", precision, first, last)
        return self._get(key, HeadWeights.of, precision, first, last)

    def drafter(self, precision: Precision) -> DrafterWeights:
        """Sequential heads."""
        return self._get(("drafter", precision), DrafterWeights.of, precision)

    def vocabulary_of_drafts(
        self, precision: Precision, n_types: Optional[int] = None
    ) -> PackedLinear:
        """See :func:`.heads.vocabulary_of_drafts`."""
        return self._get(("drafts", precision, n_types), self._make_drafts, precision, n_types)

    @torch.no_grad()
    def _get(self, key: tuple[Hashable, ...], make: Callable, *arguments: Any) -> Any:
        """The result of ``make(module, *arguments)``, which is called once."""
        with self._lock:
            if key not in self._made:
                n_released = self._own.n_released
                self._made[key] = make(self._module(), *arguments)
                if self._own.n_released > n_released:
                    trim()
            return self._made[key]

    def _rehearsed(self, name: str, precision: Precision) -> Optional[Tensor]:
        """The states of random sentences behind the weights in that precision, if there are any."""
        with self._lock:
            return getattr(self._made.get((name, precision)), "rehearsed", None)

    def _make_drafts(
        self, decoder: FairseqDecoder, precision: Precision, n_types: Optional[int]
    ) -> PackedLinear:
        output = decoder.output_projection
        with self._own.reading(output, [output]):
            return vocabulary_of_drafts(decoder, precision, n_types)

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
    """The prepared weights of an encoder or a decoder, which all its generators share."""
    with _PREPARED_LOCK:
        if module not in _PREPARED:
            _PREPARED[module] = PreparedModule(module)
        return _PREPARED[module]
