"""A session computes with a network, made of one version of its decoder's weights."""

from typing import Optional

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor

from ..cuda_graphs.graphs import StepGraphs
from ..cuda_graphs.static_step import StaticDecoder
from ..network.compiled_decoder import CompiledDecoder
from ..network.forward import ForwardPass
from ..network.prepared_model import PreparedDecoder
from ..network.weights import DecoderWeights
from ..products.precision import Precision
from .caches import SessionCaches
from .output_layer import OutputLayer, ProposalWays
from .row_table import RowTable
from .shortlist import Shortlist
from .source_groups import SourceGroups
from .step_runners import CompiledRunner, GraphRunner, StepRunner, TorchRunner


class DecoderNetwork:
    """Weights, caches, output layer, and the runner that takes the steps.

    Attributes:
        version: which version of the decoder's parameters this was made of.
        weights: the prepared weights, all from token ids to features.
        forward_pass: the step as torch computes it, and the embeddings of the positions.
        compiled: the step as compiled code computes it; ``None`` if it cannot.
        caches: the keys and values of the session's rows and sources.
        runner: takes the session's steps, by whichever of these ways is fastest.
        output: from features to logits.
    """

    def __init__(
        self,
        decoder: TransformerDecoderBase,
        prepared: PreparedDecoder,
        version: int,
        precision: Precision,
        shortlist: Optional[Shortlist],
        graphs: StepGraphs,
        proposals: ProposalWays = ProposalWays(),
    ) -> None:
        """
        Args:
            prepared: the decoder's weights in that precision.
            shortlist: the target types whose logits are computed (default: all).
            proposals: how rough proposals are computed.
            graphs: records steps where there is a recorder for the weights' device.
        """
        weights = prepared.weights()
        tokens_per_step = tokens_per_step_of(decoder)
        self.version = version
        self.weights: DecoderWeights = weights
        self.forward_pass = ForwardPass(decoder, weights)
        self.compiled = CompiledDecoder.of(weights, tokens_per_step)
        self.caches = self._empty_caches(precision)
        self.output = OutputLayer(
            prepared, precision, block_size_of(decoder) > 0, shortlist, proposals
        )
        self._sources = SourceGroups(self.caches)
        self._graphs = graphs
        self._static = StaticDecoder(
            self.forward_pass,
            *self.caches,
            tokens_per_step,
            precision.rounding(weights.embed.dtype),
            weights.embed.device,
        )
        self._eager = self._eager_runner(tokens_per_step)
        self.runner = self._choose_runner()

    def begin(self, max_len: int) -> None:
        """Prepare for new rows of up to ``max_len`` tokens, and for new sources."""
        if self.forward_pass.reach(max_len):
            # Recordings hold the old embeddings of the positions.
            self.runner = self._choose_runner()
        self.output.forget_sources()

    def add_sources(self, rows: RowTable, states: Tensor) -> None:
        """Keep the keys and values of sources that the table is about to add.

        Args:
            states: the encoder's, ``[B, S, C]``, padded on the right.
        """
        weights = self.weights
        shape = (*states.shape[:2], len(weights.layers), 2, weights.n_heads, weights.head_dim)
        self.caches.add_sources(rows, weights.cross_key_values(states).view(shape))

    def extend_drafts(self, rows: RowTable, states: Tensor, tokens: Tensor, rough: bool) -> Tensor:
        """See :meth:`DecoderSession.extend_drafts`."""
        last_layer = len(self.weights.layers) - 1
        sources = self._sources.keys(rows)
        return self.output.drafter(rough).step(
            states, tokens, lambda queries: sources.attend(last_layer, queries)
        )

    def _empty_caches(self, precision: Precision) -> SessionCaches:
        """Caches without rows, in the dtypes that the runner reads fastest."""
        weights = self.weights
        own = weights.embed.dtype
        on_cpu = weights.embed.device.type == "cpu"
        rounded_to = precision.keys_values if on_cpu else None
        # Compiled attention converts what it reads, and adds up a token's keys in the same order in
        # every step. So it keeps equal steps equal without sums in fp64. Torch would have to
        # convert all keys and values in every step.
        if self.compiled is not None:
            return SessionCaches.make_for(weights, rounded_to or own)
        return SessionCaches.make_for(weights, precision.attention or own, rounded_to)

    def _choose_runner(self) -> StepRunner:
        """Recordings where there is a recorder, else the runner without them."""
        self._graphs.prepare(self._static)
        return GraphRunner(self._graphs, self._eager) if self._graphs.active else self._eager

    def _eager_runner(self, tokens_per_step: int) -> StepRunner:
        """Compiled code where it can compute such a decoder, else torch."""
        if self.compiled is not None:
            return CompiledRunner(self.compiled, self.forward_pass, self.caches)
        device = self.weights.embed.device
        return TorchRunner(self.forward_pass, self.caches, tokens_per_step, device)


def block_size_of(decoder: TransformerDecoderBase) -> int:
    """The number of prediction heads: k of a blockwise model, 0 of a stock one."""
    return getattr(decoder, "block_size", 0)


def tokens_per_step_of(decoder: TransformerDecoderBase) -> int:
    """The number of tokens that a decoder predicts at once, and lets see each other."""
    return getattr(decoder, "tokens_per_step", 1)
