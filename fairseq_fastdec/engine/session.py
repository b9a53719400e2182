"""The decoder session: one model, many rows, each at its own position."""

from typing import Dict, Optional, Tuple, Union

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor
from torch.nn import functional as F

from .attention import attend, causal_mask, padding_mask
from .cache import KeyValueCache
from .compaction import compaction
from .encoder import SourceEncoder
from .precision import precision_of
from .shortlist import Shortlist, ShortlistedOutput
from .staleness import Watch
from .support import check_supported
from .weights import DecoderWeights, LayerWeights, position_table


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
    ) -> None:
        """
        Args:
            precision, equal_steps: see :func:`~fairseq_fastdec.engine.precision.precision_of`.
            shortlist: computes the logits of its target types only (default: of all).

        Raises:
            UnsupportedModel: if the decoder is not a stock fairseq transformer decoder.
            ValueError: if the model's device cannot compute in that precision.
        """
        check_supported(model)
        device = model.decoder.embed_tokens.weight.device
        self._precision = precision_of(precision, device, equal_steps)
        self._encode = SourceEncoder(model.encoder, self._precision)
        self._decoder = model.decoder
        self._watch = Watch(model.decoder)
        self._weights: Optional[DecoderWeights] = None
        self._shortlisted = None if shortlist is None else ShortlistedOutput(shortlist)

    @property
    def weights(self) -> DecoderWeights:
        """The prepared weights, from the first :meth:`reset` on."""
        return self._weights

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
        if self._watch.changed():
            self._prepare()
        device = self._decoder.embed_tokens.weight.device
        self._max_len = max_len
        if self._positions is not None and self._positions.size(0) < max_len:
            self._positions = self._position_table(max(max_len, 256))
        if self._shortlisted is not None:
            self._shortlisted.reset()
        self._source_lengths = torch.zeros(0, dtype=torch.long, device=device)
        self._row_source = self._source_lengths
        self._lengths = self._source_lengths
        self._paused = 0
        self._measure_rows()
        self._measure_sources()

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
        self._measure_sources()

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
            self._measure_sources()

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:
        """Feed T tokens to every row, after the tokens that the row has committed.

        Args:
            tokens: int64 ``[R, T]``, T a multiple of :attr:`tokens_per_step`. Rows that have fewer
                to feed are filled up with anything: features of later tokens never reach those of
                earlier steps, and only committed tokens stay.

        Returns:
            features ``[R, T, C]`` as ``decoder.extract_features`` gives them.
        """
        n_new = tokens.size(1)
        longest = max(self._longest + n_new, self._longest_paused)
        self._rows_cache.reserve(self._lengths.numel(), longest)
        lengths = self._lengths[self._paused :]
        positions = lengths[:, None] + torch.arange(n_new, device=tokens.device)
        x = self._embed(tokens, positions)
        mask = self._self_attention_mask(n_new)
        for index, layer in enumerate(self._weights.layers):
            x = self._self_attention(index, layer, x, positions, mask)
            x = self._cross_attention(index, layer, x)
            x = layer.feed_forward(x)
        if self._weights.final_norm is not None:
            x = self._weights.final_norm(x)
        if self._weights.project_out is not None:
            x = self._weights.project_out(x)
        return x

    def commit(self, n: Union[int, Tensor]) -> None:
        """Keep the first n tokens of the last step, the same number for all rows or ``[R]``.

        Args:
            n: multiples of :attr:`tokens_per_step`.
        """
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
            self._measure_sources()

    @torch.no_grad()
    def project(self, features: Tensor, first: int = 0, last: int = 1) -> Tensor:
        """The output layer over heads ``first ... last - 1`` (head 0 is p_1).

        Args:
            features: ``[..., C]`` from :meth:`step`.

        Returns:
            logits ``[..., last - first, V]``; with a shortlist, of its K types only, ``[..., last -
            first, K]``: :meth:`spread` makes V of them.
        """
        if self._weights.heads is None:
            features = features.unsqueeze(-2)
        else:
            features = self._weights.heads(features, first, last)
        output = self._weights.vocabulary if self._shortlisted is None else self._shortlisted
        return output(features)

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
        everything = self._shortlisted is None
        self._weights = DecoderWeights.of(self._decoder, self._precision, everything)
        if self._shortlisted is not None:
            self._shortlisted.prepare(self._precision.rows_of(self._decoder.output_projection))
        weights = self._weights
        dtype = self._precision.attention or weights.embed.dtype
        shape = (len(weights.layers), weights.n_heads, weights.head_dim)
        self._rows_cache = KeyValueCache(*shape, dtype, weights.embed.device)
        self._sources_cache = KeyValueCache(*shape, dtype, weights.embed.device)
        self._positions = self._position_table(256)
        self._watch.reset()

    def _position_table(self, n_positions: int) -> Optional[Tensor]:
        return position_table(self._decoder, n_positions, like=self._weights.embed)

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
        for index in range(len(weights.layers)):
            slots = slice(start, start + n_sources)
            self._sources_cache.write(index, slots, 0, key_values[:, :, index])
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

    def _measure_sources(self) -> None:
        """Learn how the rows belong to the sources, and how far the sources' padding reaches."""
        self._source_mask = None
        self._grid = None
        row_source = self._row_source[self._paused :]
        # Rows come and go at the end, and their sources with them: those of paused rows lie before.
        first = int(row_source.min()) if self._paused and row_source.numel() else 0
        lengths = self._source_lengths[first:]
        self._sources = slice(first, self._source_lengths.numel())
        shortest, self._longest_source = _extremes(lengths)
        if shortest < self._longest_source:
            dtype = self._sources_cache.dtype
            self._source_mask = padding_mask(lengths, self._longest_source, dtype)
        if row_source.numel():
            self._grid = _SourceGrid.of(row_source - first, lengths.numel())

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        weights = self._weights
        x = weights.embed_scale * F.embedding(tokens, weights.embed)
        if weights.project_in is not None:
            x = weights.project_in(x)
        if self._positions is not None:
            x = x + self._positions[positions.clamp(max=self._positions.size(0) - 1)]
        if weights.embed_norm is not None:
            x = weights.embed_norm(x)
        return x

    def _self_attention_mask(self, n_new: int) -> Optional[Tensor]:
        ragged = self._shortest < self._longest
        together = self.tokens_per_step
        if n_new <= together and not ragged:
            return None
        past = self._lengths[self._paused :]
        past = past if ragged else past[:1]
        dtype = self._rows_cache.dtype
        return causal_mask(past, n_new, self._longest + n_new, dtype, together)

    def _self_attention(
        self, index: int, layer: LayerWeights, x: Tensor, positions: Tensor, mask: Optional[Tensor]
    ) -> Tensor:
        n_rows, n_new, _ = x.shape
        residual = x
        if layer.pre_norm:
            x = layer.self_norm(x)
        weights = self._weights
        qkv = layer.self_qkv(x).view(n_rows, n_new, 3, weights.n_heads, weights.head_dim)
        rows = slice(self._paused, self._paused + n_rows)
        if self._shortest == self._longest:
            self._rows_cache.write(index, rows, self._longest, qkv[:, :, 1:])
        else:
            self._rows_cache.write_ragged(index, rows, positions, qkv[:, :, 1:])
        keys, values = self._rows_cache.read(index, rows, self._longest + n_new)
        x = layer.self_out(attend(qkv[:, :, 0].transpose(1, 2), keys, values, mask))
        if layer.self_attn_norm is not None:
            x = layer.self_attn_norm(x)
        x = residual + x
        return x if layer.pre_norm else layer.self_norm(x)

    def _cross_attention(self, index: int, layer: LayerWeights, x: Tensor) -> Tensor:
        n_rows, n_new, _ = x.shape
        residual = x
        if layer.pre_norm:
            x = layer.cross_norm(x)
        weights = self._weights
        queries = layer.cross_query(x).view(n_rows, n_new, weights.n_heads, weights.head_dim)
        keys, values = self._sources_cache.read(index, self._sources, self._longest_source)
        queries = self._grid.spread(queries).transpose(1, 2)
        context = self._grid.collect(attend(queries, keys, values, self._source_mask), n_new)
        x = residual + layer.cross_out(context)
        return x if layer.pre_norm else layer.cross_norm(x)


class _SourceGrid:
    """Rows laid out as ``[sources, rows of a source]``, so that sources' keys are never copied.

    Cross-attention has no causal mask: the rows of one source are just more queries to it.
    """

    def __init__(self, n_sources: int, width: int, row_source: Optional[Tensor]) -> None:
        self._n_sources = n_sources
        self._width = width
        self._row_source = row_source
        self._slot = None if row_source is None else _rank_within(row_source)

    @classmethod
    def of(cls, row_source: Tensor, n_sources: int) -> "_SourceGrid":
        n_rows = row_source.numel()
        width = n_rows // n_sources
        in_order = torch.arange(n_rows, device=row_source.device) // max(width, 1)
        if n_rows == n_sources * width and torch.equal(row_source, in_order):
            return cls(n_sources, width, None)
        return cls(n_sources, int(row_source.bincount().max()), row_source)

    def spread(self, queries: Tensor) -> Tensor:
        """``[R, T, H, D]`` to ``[S, G * T, H, D]``; slots without a row hold anything."""
        n_new, n_heads, head_dim = queries.shape[1:]
        if self._row_source is not None:
            grid = queries.new_empty(self._n_sources, self._width, n_new, n_heads, head_dim)
            grid[self._row_source, self._slot] = queries
            queries = grid
        return queries.reshape(self._n_sources, self._width * n_new, n_heads, head_dim)

    def collect(self, context: Tensor, n_new: int) -> Tensor:
        """``[S, G * T, C]`` back to ``[R, T, C]``."""
        grid = context.view(self._n_sources, self._width, n_new, -1)
        if self._row_source is None:
            return grid.flatten(0, 1)
        return grid[self._row_source, self._slot]


def _extremes(lengths: Tensor) -> Tuple[int, int]:
    """The smallest and the largest of the lengths; 0 and 0 of none."""
    if lengths.numel() == 0:
        return 0, 0
    shortest, longest = torch.stack(lengths.aminmax()).tolist()
    return shortest, longest


def _rank_within(groups: Tensor) -> Tensor:
    """For each element, how many earlier elements are of the same group: int64 ``[R]``."""
    by_group, order = groups.sort(stable=True)
    first_of_group = torch.searchsorted(by_group, by_group)
    rank = torch.empty_like(groups)
    rank[order] = torch.arange(groups.numel(), device=groups.device) - first_of_group
    return rank
