"""From a step's features to logits: prediction heads, the output layer, and the shortlist."""

import math
from typing import Dict, NamedTuple, Optional

from torch import Tensor
from torch.nn import functional as F

from ..kernels.drafts import CompiledDrafter
from ..kernels.heads import CompiledHeads
from ..kernels.packed import Packed
from ..network.drafter import Drafter
from ..network.heads import HeadWeights
from ..network.prepared_model import Output, PreparedDecoder
from ..products.linear import LinearLayer
from ..products.precision import Precision, rough_precision
from .shortlist import Shortlist, ShortlistedOutput


class DirectOutput(NamedTuple):
    """From features to logits, by compiled code.

    Attributes:
        heads: some of the model's heads; ``None`` where the features are the layer's inputs.
        layer: the output layer.
        types: the target types of its outputs, int64 ``[K]``; ``None`` for all.
    """

    heads: Optional[CompiledHeads]
    layer: Packed
    types: Optional[Tensor]


class DirectDrafts(NamedTuple):
    """Sequential heads and their output layer, by compiled code.

    Attributes:
        compiled: the heads; layer, types: as of :class:`DirectOutput`.
    """

    compiled: CompiledDrafter
    layer: Packed
    types: Optional[Tensor]


class ProposalWays(NamedTuple):
    """The way in which prediction heads compute what p_1 verifies.

    Attributes:
        n_types: the first types of the dictionary, of which proposals are chosen; ``None``: all.
        rounds: whether in :func:`~..products.precision.rough_precision`, or as everything else.
    """

    n_types: Optional[int] = None
    rounds: bool = True


class PendingProduct(NamedTuple):
    """Logits that nobody has computed yet: compiled code can look at them as it computes them.

    Attributes:
        states: the output layer's inputs, fp32 ``[..., C]``.
        layer: from C numbers to K logits.
        types: the target types of the logits, int64 ``[K]``; ``None`` for all.
    """

    states: Tensor
    layer: Packed
    types: Optional[Tensor]


class OutputLayer:
    """The output layer of one version of a decoder's weights, for the sources under way.

    With a shortlist it computes the logits of K target types, those that the sources allow. The
    sources are numbered as in the session's row table.
    """

    def __init__(
        self,
        prepared: PreparedDecoder,
        precision: Precision,
        has_heads: bool,
        shortlist: Optional[Shortlist],
        proposals: ProposalWays = ProposalWays(),
    ) -> None:
        """
        Args:
            prepared: the decoder's weights in that precision.
            has_heads: whether the decoder has prediction heads.
            shortlist: the target types whose logits are computed (default: all).
            proposals: how rough proposals are computed.
        """
        self._proposals = proposals
        self._prepared = prepared
        self._precision = precision
        self._has_heads = has_heads
        self._shortlisted: Optional[ShortlistedOutput] = None
        if shortlist is not None:
            self._shortlisted = ShortlistedOutput(shortlist, prepared.vocabulary_rows())
        self._outputs: Dict[bool, Output] = {}
        self._drafters: Dict[bool, Drafter] = {}
        self._compiled_drafters: Dict[bool, Optional[CompiledDrafter]] = {}
        self._draft_vocabularies: Dict[bool, LinearLayer] = {}
        self._embed = prepared.weights().embed
        self._memory = self._embed.new_empty(0)

    @property
    def heads(self) -> Optional[HeadWeights]:
        """The prepared prediction heads; ``None`` for a stock decoder, and for sequential heads."""
        return self._output(rough=False).heads

    @property
    def proposing_heads(self) -> Optional[HeadWeights]:
        """The heads that propose, perhaps in another precision than p_1."""
        return self._output(rough=True).heads

    @property
    def types(self) -> Optional[Tensor]:
        """The target types whose logits are computed, int64 ``[K]``; ``None`` for all."""
        return None if self._shortlisted is None else self._shortlisted.types

    def forget_sources(self) -> None:
        """Begin anew with no source."""
        if self._shortlisted is not None:
            self._shortlisted.reset()

    def add_sources(self, source_tokens: Optional[Tensor], forced: Optional[Tensor]) -> None:
        """Allow what more sources allow; see :meth:`ShortlistedOutput.add`.

        Args:
            source_tokens: ``None`` where sources are no tokens, and there is no shortlist.
        """
        if self._shortlisted is not None:
            self._shortlisted.add(source_tokens, forced)

    def keep_sources(self, order: Tensor) -> None:
        """Forget sources but those, int64 ``[S']``, in that order."""
        if self._shortlisted is not None:
            self._shortlisted.keep(order)

    def project(self, features: Tensor, first: int, last: int, rough: bool) -> Tensor:
        """See :meth:`DecoderSession.project`."""
        heads, vocabulary = self._output(rough)
        return self._logits(vocabulary, _states(heads, features, first, last), rough)

    def drafter(self, rough: bool) -> Drafter:
        """The prepared sequential heads, which the decoder has to have.

        Args:
            rough: as for :meth:`DecoderSession.project`.
        """
        if rough not in self._drafters:
            # A shortlist is of the whole output layer.
            widened = self._shortlisted is not None
            drafter = self._prepared.drafter(self._precision_for(rough), widened)
            assert drafter is not None
            self._drafters[rough] = drafter
        return self._drafters[rough]

    def direct_drafts(self, rough: bool) -> Optional[DirectDrafts]:
        """See :meth:`DirectSteps.drafts`."""
        if rough not in self._compiled_drafters:
            self._compiled_drafters[rough] = self.drafter(rough).compiled()
        compiled = self._compiled_drafters[rough]
        packed = getattr(self._draft_vocabulary(rough), "packed", None)
        if compiled is None or packed is None:
            return None
        return DirectDrafts(compiled, packed, self.types)

    def draft_logits(self, states: Tensor, rough: bool) -> Tensor:
        """See :meth:`DecoderSession.draft_logits`."""
        outputs = self.drafter(rough).outputs(states)
        return self._logits(self._draft_vocabulary(rough), outputs, rough)

    def _draft_vocabulary(self, rough: bool) -> LinearLayer:
        """The output layer behind sequential heads."""
        if rough not in self._draft_vocabularies:
            self._draft_vocabularies[rough] = self._prepare_draft_vocabulary(rough)
        return self._draft_vocabularies[rough]

    def _prepare_draft_vocabulary(self, rough: bool) -> LinearLayer:
        if self._shortlisted is None:
            n_types = self._proposals.n_types if self._few_types(rough) else None
            low_rank = self._prepared.low_rank_output(self._precision_for(rough), n_types)
            if low_rank is not None:
                return low_rank
        return self._output(rough).vocabulary

    def _logits(self, vocabulary: LinearLayer, states: Tensor, rough: bool) -> Tensor:
        """An output layer over its inputs ``[..., C]``."""
        logits = vocabulary(states)
        if self._few_types(rough):
            n_lacking = self._embed.size(0) - logits.size(-1)
            logits = F.pad(logits, (0, n_lacking), value=-math.inf)
        return logits

    def pending(
        self, features: Tensor, first: int, last: int, rough: bool
    ) -> Optional[PendingProduct]:
        """See :meth:`DecoderSession.pending`."""
        heads, vocabulary = self._output(rough)
        packed = getattr(vocabulary, "packed", None)
        if packed is None:
            return None
        return PendingProduct(_states(heads, features, first, last), packed, self.types)

    def direct(self, first: int, last: int, rough: bool) -> Optional[DirectOutput]:
        """See :meth:`DirectSteps.output`."""
        heads, vocabulary = self._output(rough)
        packed = getattr(vocabulary, "packed", None)
        if packed is None:
            return None
        if heads is None or (last == 1 and heads.first_is_identity):
            return DirectOutput(None, packed, self.types)
        compiled = heads.compiled(first, last)
        return None if compiled is None else DirectOutput(compiled, packed, self.types)

    def logits(self, features: Tensor) -> Tensor:
        """See :meth:`DecoderSession.logits`."""
        heads, vocabulary = self._output(rough=False)
        packed = getattr(vocabulary, "packed", None)
        if packed is None or heads is not None:
            return self.project(features, 0, 1, rough=False)[..., 0, :]
        size = features.numel() // features.size(-1) * packed.structure.outputs
        if size > self._memory.numel():
            self._memory = features.new_empty(size)
        return packed(features, out=self._memory)

    def spread(self, scores: Tensor) -> Tensor:
        """See :meth:`DecoderSession.spread`."""
        return scores if self._shortlisted is None else self._shortlisted.spread(scores)

    def _few_types(self, rough: bool) -> bool:
        """Whether the first types alone are computed."""
        # A shortlist has few types itself, and the right ones.
        return rough and self._proposals.n_types is not None and self._shortlisted is None

    def _output(self, rough: bool) -> Output:
        """The layers; prepared when they are first asked for, as most methods propose nothing."""
        if rough not in self._outputs:
            heads, vocabulary = self._prepare(rough)
            own = None if heads is None else heads.of_session()
            self._outputs[rough] = Output(own, vocabulary)
        return self._outputs[rough]

    def _precision_for(self, rough: bool) -> Precision:
        if rough and self._proposals.rounds and self._has_heads:
            return rough_precision(self._precision, self._embed.dtype, self._embed.device)
        return self._precision

    def _prepare(self, rough: bool) -> Output:
        precision = self._precision_for(rough)
        if self._few_types(rough):
            return self._prepared.proposals(precision, self._proposals.n_types)
        if self._shortlisted is None:
            return self._prepared.output(precision)
        return Output(self._prepared.heads(precision), self._shortlisted)


def _states(heads: Optional[HeadWeights], features: Tensor, first: int, last: int) -> Tensor:
    """The output layer's inputs: ``[..., C]`` to ``[..., last - first, C]``."""
    return features.unsqueeze(-2) if heads is None else heads(features, first, last)
