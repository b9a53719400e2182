"""The decoder session: one model, many rows, each at its own position."""

from typing import Dict, Optional, Union

from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..cuda_graphs.graphs import StepGraphs
from ..cuda_graphs.recorders import RECORDERS
from ..network.drafter import has_sequential_heads
from ..network.encoder import SourceEncoder
from ..network.forward import ForwardPass
from ..network.gradients import without_gradients
from ..network.heads import HeadWeights
from ..network.prepared_model import PreparedDecoder
from ..network.support import check_supported
from ..network.weights import DecoderWeights
from ..products.precision import precision_of
from .decoder_network import DecoderNetwork, block_size_of, tokens_per_step_of
from .direct_steps import DirectSteps
from .output_layer import OutputLayer, PendingProduct, ProposalWays
from .row_table import RowTable
from .shortlist import Shortlist
from .tree import TokenTree


class DecoderSession:
    """Runs a stock transformer decoder for ragged rows, several tokens a step.

    A row is one prefix being decoded; it belongs to one source sentence, and the rows of a source
    share its cross-attention keys and values. A step feeds T tokens to every row; a commit keeps
    some of them. The session forgets all others: the next step overwrites them. The first rows can
    be paused: then a step feeds the other rows only, and costs no more than these.

        session = DecoderSession(model)
        session.reset(max_len)
        session.add(net_input)                    # R sentences, R rows of length 0
        features = session.step(tokens)           # [R, T] -> [R, T, C]
        logits = session.project(features)        # [R, T, V]
        session.commit(n)                         # row r keeps its first n[r] tokens
        session.select(rows)                      # gather, drop or duplicate rows
        session.pause(n)                          # the first n rows rest until the next pause

    For any tokens and any split of them into steps the logits equal those of
    ``model.decoder(prev_output_tokens, encoder_out)``, up to rounding.

    Three objects hold the state: the row table knows the rows, the network computes, and the
    network's caches hold what it computed. Before the first :meth:`reset` there are no rows and no
    network.

    Attributes:
        rows: which rows there are now; for reading only.
        graphs: the recorded steps.
    """

    normalized = False  # project returns logits

    def __init__(
        self,
        model: FairseqEncoderDecoderModel,
        precision: str = "model",
        equal_steps: bool = False,
        shortlist: Optional[Shortlist] = None,
        cuda_graphs: str = "auto",
        proposals: ProposalWays = ProposalWays(),
    ) -> None:
        """
        Args:
            precision, equal_steps: see :func:`~..products.precision.precision_of`.
            shortlist: computes the logits of its target types only (default: of all).
            proposals: how rough proposals are computed.
            cuda_graphs: see :data:`~..cuda_graphs.recorders.RECORDERS`.

        Raises:
            UnsupportedModel: if the decoder is not a stock fairseq transformer decoder.
            ValueError: if the model's device cannot compute in that precision.
        """
        check_supported(model)
        device = model.decoder.embed_tokens.weight.device
        self._precision = precision_of(precision, device, equal_steps)
        self._encode = SourceEncoder(model.encoder, self._precision)
        self._decoder = model.decoder
        self._prepared = PreparedDecoder(model.decoder, self._precision, model.encoder)
        self._shortlist = shortlist
        self._proposals = proposals
        self._network: Optional[DecoderNetwork] = None
        self.graphs = StepGraphs(RECORDERS[cuda_graphs])
        self.rows = RowTable(device)

    @property
    def network(self) -> DecoderNetwork:
        """The session computes with this; it is made anew when the model's parameters have changed.

        Raises:
            RuntimeError: before the first :meth:`reset`.
        """
        if self._network is None:
            raise RuntimeError("the session has no weights yet; call reset(max_len) first")
        return self._network

    @property
    def weights(self) -> DecoderWeights:
        """The prepared weights, from the first :meth:`reset` on."""
        return self.network.weights

    @property
    def heads(self) -> Optional[HeadWeights]:
        """The paper's heads, prepared, ``None`` if there are none; from :meth:`reset` on."""
        return self.network.output.heads

    def whole_output(self) -> OutputLayer:
        """The output layer of all types, whatever the shortlist; from :meth:`reset` on."""
        proposals = self._proposals
        if self._shortlist is not None:
            # A shortlist has few types itself, and the right ones.
            proposals = proposals._replace(n_types=None)
        has_heads = self.block_size > 0
        return OutputLayer(self._prepared, self._precision, has_heads, None, proposals)

    @property
    def forward_pass(self) -> ForwardPass:
        """The computation of a step, from the first :meth:`reset` on."""
        return self.network.forward_pass

    @property
    def encoder(self) -> SourceEncoder:
        """The encoder, prepared from the first :meth:`reset` on."""
        return self._encode

    @property
    def n_rows(self) -> int:
        """The number of rows now, without those that are paused."""
        return self.rows.n_rows

    @property
    def block_size(self) -> int:
        """The number of prediction heads: k of a blockwise model, 0 of a stock one."""
        return block_size_of(self._decoder)

    @property
    def has_sequential_heads(self) -> bool:
        """Whether the heads see the tokens before theirs: then :meth:`extend_drafts` has them."""
        return has_sequential_heads(self._decoder)

    @property
    def tokens_per_step(self) -> int:
        """The number of tokens that the decoder predicts at once, and lets see each other."""
        return tokens_per_step_of(self._decoder)

    @without_gradients
    def reset(self, max_len: int) -> None:
        """Forget all rows and prepare for rows of up to ``max_len`` tokens.

        Tokens fed beyond ``max_len`` are computed with the last position; they must not be kept.
        """
        self._encode.prepare()
        version = self._prepared.refresh()
        if self._network is None or self._network.version != version:
            self._network = DecoderNetwork(
                self._decoder,
                self._prepared,
                version,
                self._precision,
                self._shortlist,
                self.graphs,
                self._proposals,
            )
        self._network.begin(max_len)
        self.rows.clear(self._network.weights.embed.device)

    @without_gradients
    def add(self, net_input: Dict[str, Tensor], forced: Optional[Tensor] = None) -> None:
        """Encode more sentences and append one empty row for each.

        Args:
            net_input: what fairseq's batches hold: ``src_tokens`` ``[B, S]``, padded on either
                side, ``src_lengths`` ``[B]``, and whatever else the encoder takes.
            forced: target tokens that a shortlist must not leave out, int64 ``[B, P]``, padded.

        Raises:
            RuntimeError: before the first :meth:`reset`.
        """
        network = self.network
        states, lengths = self._encode(net_input)
        network.output.add_sources(net_input.get("src_tokens"), forced)
        network.add_sources(self.rows, states)
        self.rows.add(lengths)

    def pause(self, n_rows: int) -> None:
        """Let the first ``n_rows`` rows rest; all others go on.

        Until the next call, :meth:`step`, :meth:`commit`, :meth:`select` and :attr:`n_rows` know
        the other rows only, and number them from 0; :meth:`add` appends to them. Paused rows lose
        nothing: ``pause(0)`` brings them back.

        Raises:
            ValueError: if there are fewer rows.
        """
        self.rows.pause(n_rows)

    def step(self, tokens: Tensor, tree: Optional[TokenTree] = None) -> Tensor:
        """Feed T tokens to every row, after the tokens that the row has committed.

        Args:
            tokens: int64 ``[R, T]``, T a multiple of :attr:`tokens_per_step`. Rows that have fewer
                to feed are filled up with anything: features of later tokens never reach those of
                earlier steps, and only committed tokens stay.
            tree: which of them follow which (default: each the one before). Only for decoders of
                one token a step; on a GPU without a graph.

        Returns:
            features ``[R, T, C]`` as ``decoder.extract_features`` gives them.

        Raises:
            RuntimeError: if there are no rows, or all are paused.
        """
        if not self.rows.n_rows:
            raise RuntimeError("the session has no rows for a step; call reset and add first")
        return self.network.runner.step(self.rows, tokens, tree)

    def commit(self, n: Union[int, Tensor], path: Optional[Tensor] = None) -> None:
        """Keep the first n tokens of the last step, the same number for all rows or ``[R]``.

        Args:
            n: multiples of :attr:`tokens_per_step`.
            path: the tokens of a tree to keep instead of the first n, int64 ``[R, D]``, D at least
                n. Row r keeps those at its first n[r] indices, each of which follows the one
                before; the indices behind them may be any.
        """
        if path is not None:
            self.network.caches.keep_path(self.rows, path)
        self.rows.commit(n)

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row ``rows[i]`` was; sources without rows leave.

        Args:
            rows: int64 ``[R']``; rows may be dropped, repeated and reordered.
        """
        network = self.network
        network.caches.select_rows(self.rows, rows)
        sources = self.rows.select(rows)
        if sources is not None:
            network.caches.select_sources(self.rows, sources)
            network.output.keep_sources(sources)

    @without_gradients
    def project(
        self, features: Tensor, first: int = 0, last: int = 1, rough: bool = False
    ) -> Tensor:
        """The output layer over heads ``first ... last - 1`` (head 0 is p_1).

        Args:
            features: ``[..., C]`` from :meth:`step`.
            rough: with half as many bits, if that is faster, for proposals that are yet to be
                verified; see :func:`~fairseq_fastdec.engine.products.precision.rough_precision`.

        Returns:
            logits ``[..., last - first, V]``; with a shortlist, of its K types only, ``[..., last -
            first, K]``: :meth:`spread` makes V of them.
        """
        return self.network.output.project(features, first, last, rough)

    def pending(
        self, features: Tensor, first: int = 0, last: int = 1, rough: bool = False
    ) -> Optional[PendingProduct]:
        """The product that :meth:`project` would compute, for compiled code to compute and look at.

        Returns:
            states ``[..., last - first, C]`` and the layer; ``None`` if the layer is not packed
            for compiled code.
        """
        return self.network.output.pending(features, first, last, rough)

    def begin_drafts(self, features: Tensor, rough: bool) -> Tensor:
        """The states from which sequential heads go on: ``[R, C]`` to ``[R, 1, C]``.

        Args:
            features: at a position of each row, whose next token is known.
            rough: as for :meth:`project`.
        """
        return self.network.output.drafter(rough).begin(features)[:, None]

    @without_gradients
    def extend_drafts(self, states: Tensor, tokens: Tensor, rough: bool) -> Tensor:
        """Let sequential heads see a token more.

        Args:
            states: ``[R, W, C]``, W of each row; tokens: int64 ``[R, W]``, one behind each.

        Returns:
            states ``[R, W, C]``
        """
        return self.network.extend_drafts(self.rows, states, tokens, rough)

    @without_gradients
    def draft_logits(self, states: Tensor, rough: bool) -> Tensor:
        """The output layer over states of sequential heads, for the token behind each state's last.

        Returns:
            logits as :meth:`project`'s, for states ``[..., C]``.
        """
        return self.network.output.draft_logits(states, rough)

    def direct(self) -> Optional[DirectSteps]:
        """Steps of the rows of now without a tensor in between; ``None`` if torch takes them."""
        return DirectSteps.of(self.network, self.rows)

    @without_gradients
    def logits(self, features: Tensor) -> Tensor:
        """p_1's logits ``[..., V]``, or ``[..., K]``, in memory that the next call may use again.

        The system gives large stretches of memory page by page when they are first written to,
        which takes much longer than writing to them again.
        """
        return self.network.output.logits(features)

    @without_gradients
    def spread(self, scores: Tensor) -> Tensor:
        """Scores of what :meth:`project` computes, as scores of the whole vocabulary.

        Args:
            scores: ``[..., K]``; logits, or anything made of them type by type.

        Returns:
            ``[..., V]``, ``-inf`` outside of the shortlist. Without one, ``scores`` as they are.
        """
        return self.network.output.spread(scores)
