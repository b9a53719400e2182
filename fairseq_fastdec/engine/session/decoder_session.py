"""The decoder session: one model, many rows, each at its own position."""

from typing import Dict, Optional, Tuple, Union

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..cuda_graphs.graphs import StepGraphs
from ..cuda_graphs.recorders import RECORDERS
from ..cuda_graphs.static_step import Decoder, RowState, SourceLayout
from ..network.attention import CausalMasks, causal_mask, padding_mask, tree_mask
from ..network.cache import KeyValueCache
from ..network.compiled_decoder import CompiledDecoder
from ..network.encoder import SourceEncoder
from ..network.forward import ForwardPass, RowKeys, SourceKeys
from ..network.heads import HeadWeights
from ..network.prepared_model import Output, PreparedDecoder
from ..network.source_grid import SourceGrid
from ..network.support import check_supported
from ..network.weights import DecoderWeights
from ..products.precision import precision_of, rough_precision
from .compaction import compaction
from .shortlist import Shortlist, ShortlistedOutput
from .tree import TokenTree


class DecoderSession:
    """Runs a stock transformer decoder for ragged rows, several tokens a step.

    A row is one prefix being decoded; it belongs to one source sentence, and the rows of a source
    share its cross-attention keys and values. A step feeds T tokens to every row; a commit keeps
    some of them. What is not committed is forgotten: the next step overwrites it. The first rows
    can be paused: then only the others are stepped, at the cost of the others only.

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
    """

    normalized = False  # what project returns are logits

    def __init__(
        self,
        model: FairseqEncoderDecoderModel,
        precision: str = "model",
        equal_steps: bool = False,
        shortlist: Optional[Shortlist] = None,
        cuda_graphs: str = "auto",
    ) -> None:
        """
        Args:
            precision, equal_steps: see :func:`~..products.precision.precision_of`.
            shortlist: computes the logits of its target types only (default: of all).
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
        self._prepared = PreparedDecoder(model.decoder, self._precision)
        self._version: Optional[int] = None
        self._shortlisted = None if shortlist is None else ShortlistedOutput(shortlist)
        self._graphs = StepGraphs(RECORDERS[cuda_graphs])

    @property
    def weights(self) -> DecoderWeights:
        """The prepared weights, from the first :meth:`reset` on."""
        return self._weights

    @property
    def heads(self) -> Optional[HeadWeights]:
        """The prepared prediction heads, ``None`` for a stock decoder."""
        return self._output(rough=False).heads

    @property
    def forward_pass(self) -> ForwardPass:
        """What a step computes, from the first :meth:`reset` on."""
        return self._forward

    @property
    def n_rows(self) -> int:
        """How many rows there are now, without those that are paused."""
        return self._row_source.numel() - self._paused

    @property
    def block_size(self) -> int:
        """How many prediction heads the decoder has: k of a blockwise model, 0 of a stock one."""
        return getattr(self._decoder, "block_size", 0)

    @property
    def tokens_per_step(self) -> int:
        """How many tokens the decoder predicts at once, and lets see each other."""
        return getattr(self._decoder, "tokens_per_step", 1)

    @torch.no_grad()
    def reset(self, max_len: int) -> None:
        """Forget all rows and prepare for rows of up to ``max_len`` tokens.

        Tokens fed beyond ``max_len`` are computed with the last position; they must not be kept.
        """
        self._encode.prepare()
        version = self._prepared.refresh()
        if version != self._version:
            self._prepare()
            self._version = version
        device = self._decoder.embed_tokens.weight.device
        if self._forward.reach(max_len):
            self._prepare_graphs()
        if self._shortlisted is not None:
            self._shortlisted.reset()
        self._source_lengths = torch.zeros(0, dtype=torch.long, device=device)
        self._row_source = self._source_lengths
        self._lengths = self._source_lengths
        self._paused = 0
        self._measure_rows()
        self._regroup()

    @torch.no_grad()
    def add(self, net_input: Dict[str, Tensor], forced: Optional[Tensor] = None) -> None:
        """Encode more sentences and append one empty row for each.

        Args:
            net_input: what fairseq's batches hold: ``src_tokens`` ``[B, S]``, padded on either
                side, ``src_lengths`` ``[B]``, and whatever else the encoder takes.
            forced: target tokens that a shortlist must not leave out, int64 ``[B, P]``, padded.
        """
        states, lengths = self._encode(net_input)
        self._remember_sources(states, lengths)
        if self._shortlisted is not None:
            self._shortlisted.add(net_input["src_tokens"], forced)
        first = self._source_lengths.numel() - lengths.numel()
        new_rows = torch.arange(first, first + lengths.numel(), device=lengths.device)
        self._row_source = torch.cat([self._row_source, new_rows])
        self._lengths = torch.cat([self._lengths, torch.zeros_like(new_rows)])
        self._measure_rows()
        self._regroup()

    @torch.no_grad()
    def pause(self, n_rows: int) -> None:
        """Let the first ``n_rows`` rows rest; all others go on.

        Until the next call, :meth:`step`, :meth:`commit`, :meth:`select` and :attr:`n_rows` know
        the other rows only, and number them from 0; :meth:`add` appends to them. Paused rows lose
        nothing: ``pause(0)`` brings them back.
        """
        if n_rows != self._paused:
            self._paused = n_rows
            self._measure_rows()
            self._regroup()

    @torch.no_grad()
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
        """
        if self._graphs.active and tree is None:
            return self._graphs.step(self._row_state(), tokens, self._step)
        return self._step(tokens, tree)

    def _step(self, tokens: Tensor, tree: Optional[TokenTree] = None) -> Tensor:
        n_new = tokens.size(1)
        longest = max(self._longest + n_new, self._longest_paused)
        self._rows_cache.reserve(self._lengths.numel(), longest)
        if self._compiled is not None:
            return self.compiled_step(tokens, tree)
        rows = RowKeys(
            self._rows_cache,
            slice(self._paused, self._lengths.numel()),
            self._new_places(n_new),
            n_keys=self._longest + n_new,
            mask=self._self_attention_mask(n_new, tree),
            depths=None if tree is None else tree.depths,
        )
        return self._forward(tokens, rows, self._keys_of_sources())

    def compiled_step(self, tokens: Tensor, tree: Optional[TokenTree] = None) -> Tensor:
        """:meth:`step`, by compiled code."""
        return self._compiled(
            tokens,
            (self._rows_cache, self._paused),
            self._lengths[self._paused :],
            self._sources_cache,
            self._row_source[self._paused :],
            self._source_lengths,
            self._forward.positions,
            None if tree is None else tree.parents,
        )

    @torch.no_grad()
    def commit(self, n: Union[int, Tensor], path: Optional[Tensor] = None) -> None:
        """Keep the first n tokens of the last step, the same number for all rows or ``[R]``.

        Args:
            n: multiples of :attr:`tokens_per_step`.
            path: of a tree, the first n of these tokens instead, each of which follows the one
                before: int64 ``[R, D]``, D at least n; what is behind the n is any token's index.
        """
        if path is not None:
            self._rows_cache.gather(self._lengths[self._paused :], path, first=self._paused)
        self._lengths = self._joined(self._lengths, self._lengths[self._paused :] + n)
        if isinstance(n, int):
            self._shortest += n
            self._longest += n
        else:
            self._measure_rows()

    @torch.no_grad()
    def select(self, rows: Tensor) -> None:
        """Row i becomes what row ``rows[i]`` was; sources without rows leave.

        Args:
            rows: int64 ``[R']``; rows may be dropped, repeated and reordered.
        """
        n_rows = self._paused + max(rows.numel(), self.n_rows)
        self._rows_cache.reserve(n_rows, max(self._longest, self._longest_paused))
        self._rows_cache.rearrange(rows, self._longest, first=self._paused)
        sources = self._row_source[self._paused :][rows]
        same_sources = torch.equal(sources, self._row_source[self._paused :])
        if self._shortest == self._longest:
            lengths = self._lengths.new_full(rows.shape, self._longest)
            self._lengths = self._joined(self._lengths, lengths)
        else:
            lengths = self._lengths[self._paused :][rows]
            self._lengths = self._joined(self._lengths, lengths)
            self._measure_rows()
        if not same_sources:
            self._row_source = self._joined(self._row_source, sources)
            self._drop_sources_without_rows()
            self._regroup()

    @torch.no_grad()
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
        heads, vocabulary = self._output(rough)
        features = features.unsqueeze(-2) if heads is None else heads(features, first, last)
        return vocabulary(features)

    @torch.no_grad()
    def logits(self, features: Tensor) -> Tensor:
        """p_1's logits ``[..., V]``, or ``[..., K]``, in memory that the next call may use again.

        The system gives large stretches of memory page by page when they are first written to,
        which takes ten times as long as writing to them again: 14 ms for 320 rows of 37,000 types.
        """
        heads, vocabulary = self._output(rough=False)
        packed = getattr(vocabulary, "packed", None)
        if packed is None or heads is not None:
            return self.project(features)[..., 0, :]
        size = features.numel() // features.size(-1) * packed.structure.outputs
        if size > self._logits.numel():
            self._logits = features.new_empty(size)
        return packed(features, out=self._logits)

    @torch.no_grad()
    def spread(self, scores: Tensor) -> Tensor:
        """Scores of what :meth:`project` computes, as scores of the whole vocabulary.

        Args:
            scores: ``[..., K]``; logits, or anything made of them type by type.

        Returns:
            ``[..., V]``, ``-inf`` outside of the shortlist. Without one, ``scores`` as they are.
        """
        return scores if self._shortlisted is None else self._shortlisted.spread(scores)

    def _prepare(self) -> None:
        weights = self._weights = self._prepared.weights()
        self._outputs: Dict[bool, Output] = {}
        self._logits = weights.embed.new_empty(0)
        if self._shortlisted is not None:
            self._shortlisted.prepare(self._prepared.vocabulary_rows())
        self._compiled = CompiledDecoder.of(weights, self.tokens_per_step)
        # Compiled attention sums up a token's keys alike in any step.
        own = None if self._compiled is not None else self._precision.attention
        dtype = own or weights.embed.dtype
        shape = (len(weights.layers), weights.n_heads, weights.head_dim)
        self._rows_cache = KeyValueCache(*shape, dtype, weights.embed.device)
        self._sources_cache = KeyValueCache(*shape, dtype, weights.embed.device)
        self._masks = CausalMasks(dtype, weights.embed.device, self.tokens_per_step)
        self._forward = ForwardPass(self._decoder, weights)
        self._prepare_graphs()

    def _output(self, rough: bool) -> Output:
        """Prepared when it is first asked for: most methods propose nothing."""
        if rough not in self._outputs:
            embed, precision = self._decoder.embed_tokens.weight, self._precision
            if rough and self.block_size:
                precision = rough_precision(precision, embed.dtype, embed.device)
            if self._shortlisted is None:
                self._outputs[rough] = self._prepared.output(precision)
            else:
                self._outputs[rough] = Output(self._prepared.heads(precision), self._shortlisted)
        return self._outputs[rough]

    def _prepare_graphs(self) -> None:
        embed = self._weights.embed
        caches = (self._rows_cache, self._sources_cache)
        rounding = self._precision.rounding(embed.dtype)
        self._graphs.prepare(
            Decoder(self._forward, *caches, self.tokens_per_step, rounding, embed.device)
        )

    def _row_state(self) -> RowState:
        if self._layout is None:
            self._layout = SourceLayout(self._row_source, self._source_lengths)
        longest = max(self._longest, self._longest_paused)
        return RowState(self._lengths, self._paused, longest, self._layout)

    def _joined(self, all_rows: Tensor, going_on: Tensor) -> Tensor:
        """What is known of all rows, with news of those that are not paused."""
        return torch.cat([all_rows[: self._paused], going_on]) if self._paused else going_on

    def _remember_sources(self, states: Tensor, lengths: Tensor) -> None:
        weights = self._weights
        n_sources, longest = states.shape[:2]
        start = self._source_lengths.numel()
        longest_now = int(self._source_lengths.max()) if start else 0
        self._sources_cache.reserve(start + n_sources, max(longest, longest_now))
        key_values = weights.cross_key_values(states).view(
            n_sources, longest, len(weights.layers), 2, weights.n_heads, weights.head_dim
        )
        self._sources_cache.write_all(slice(start, start + n_sources), key_values)
        self._source_lengths = torch.cat([self._source_lengths, lengths])

    def _drop_sources_without_rows(self) -> None:
        keep = torch.zeros_like(self._source_lengths, dtype=torch.bool)
        keep[self._row_source] = True
        if bool(keep.all()):
            return
        order = compaction(keep)
        self._sources_cache.rearrange(order, int(self._source_lengths.max()))
        self._source_lengths = self._source_lengths[order]
        if self._shortlisted is not None:
            self._shortlisted.keep(order)
        new_index = torch.empty_like(keep, dtype=torch.long)
        new_index[order] = torch.arange(order.numel(), device=order.device)
        self._row_source = new_index[self._row_source]

    def _measure_rows(self) -> None:
        """Learn what the host must know of the rows: the extremes of their lengths."""
        self._shortest, self._longest = _extremes(self._lengths[self._paused :])
        self._longest_paused = _extremes(self._lengths[: self._paused])[1]

    def _regroup(self) -> None:
        """The rows belong to the sources in another way than before."""
        self._layout: Optional[SourceLayout] = None
        self._source_keys: Optional[SourceKeys] = None

    def _keys_of_sources(self) -> SourceKeys:
        if self._source_keys is None:
            row_source = self._row_source[self._paused :]
            # Rows come and go at the end, and their sources with them: those of paused rows lie
            # before.
            first = int(row_source.min()) if self._paused else 0
            lengths = self._source_lengths[first:]
            shortest, longest = _extremes(lengths)
            cache, mask = self._sources_cache, None
            if shortest < longest:
                mask = padding_mask(lengths, longest, cache.dtype)
            grid = SourceGrid.of(row_source - first, lengths.numel())
            slots = slice(first, self._source_lengths.numel())
            self._source_keys = SourceKeys(cache, slots, longest, mask, grid)
        return self._source_keys

    def _new_places(self, n_new: int) -> Union[int, Tensor]:
        if self._shortest == self._longest:
            return self._longest
        lengths = self._lengths[self._paused :]
        return lengths[:, None] + torch.arange(n_new, device=lengths.device)

    def _self_attention_mask(self, n_new: int, tree: Optional[TokenTree]) -> Optional[Tensor]:
        if tree is not None:
            lengths, n_keys = self._lengths[self._paused :], self._longest + n_new
            return tree_mask(lengths, tree.sees, n_keys, self._rows_cache.dtype)
        if self._shortest == self._longest:
            alone = n_new <= self.tokens_per_step
            return None if alone else self._masks.of(self._longest, n_new)
        past, n_keys = self._lengths[self._paused :], self._longest + n_new
        return causal_mask(past, n_new, n_keys, self._rows_cache.dtype, self.tokens_per_step)


def _extremes(lengths: Tensor) -> Tuple[int, int]:
    """The smallest and the largest of the lengths; 0 and 0 of none."""
    if lengths.numel() == 0:
        return 0, 0
    shortest, longest = torch.stack(lengths.aminmax()).tolist()
    return shortest, longest
