"""A network for stock fairseq transformers, with or without prediction heads."""

from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from ..packing.positions import positions_of
from ..packing.prepared_model import prepared
from ..packing.stock_decoders import is_recurrent, layers_of
from .attention import attend, hidden_keys, mask_of
from .caches import ALL_ROWS, RowCache, Rows, Sharing, SourceCache


class _Step(NamedTuple):
    """The parts of a step that all layers have in common.

    Attributes:
        rows: those that are extended.
        places: of the new tokens in the cache: rows int64 ``[R', 1]``, positions int64 ``[R', T]``.
        mask: of the keys of the rows, ``[R', T, L]``.
        sharing: how the rows attend to their sources.
    """

    rows: slice
    places: tuple[Tensor, Tensor]
    mask: Tensor
    sharing: Sharing


class TransformerNetwork:
    """A stock transformer decoder whose rows may differ in length.

    However tokens are divided into steps, the logits equal those of
    ``model.decoder(prev_output_tokens, encoder_out)`` up to rounding.

    Attributes:
        tokens_per_step: the number of tokens that the decoder predicts at once; they see each
            other.
        block_size: the number of prediction heads, including p_1; 0 without heads.
        has_sequential_heads: whether the heads are sequential.
    """

    is_normalized = False
    accepts_ended_rows = True

    def __init__(
        self, model: Any, temperature: float = 1.0, n_positions: Optional[int] = None
    ) -> None:
        """
        Args:
            model: a model for which :func:`~.support.departure_from_stock` is ``None``, or a
                language model that passes :func:`~.support.check_language_model`.
            temperature: the divisor of logits.
            n_positions: the number of positions to prepare (default: the decoder's maximum).
        """
        self._encoder: Any = getattr(model, "encoder", None)
        self._original = self._decoder = model.decoder
        self._layers = layers_of(model.decoder)
        self._temperature = temperature
        self._n_positions = n_positions or model.decoder.max_positions()
        self.tokens_per_step: int = getattr(model.decoder, "tokens_per_step", 1)
        self.block_size: int = getattr(model.decoder, "block_size", 0)
        self.has_sequential_heads: bool = getattr(model.decoder, "heads_are_sequential", False)
        self.reset()

    @property
    def n_rows(self) -> int:
        """The number of rows, R."""
        return self._rows.lengths.numel()

    def reset(self) -> None:
        """Remove all rows."""
        like = self._decoder.embed_tokens.weight.detach()
        shape = (len(self._layers), self._layers[0].self_attn.embed_dim)
        self._rows, self._sources = RowCache(*shape, like), SourceCache(*shape, like)
        self._step: Optional[_Step] = None
        self._positions = positions_of(self._decoder, self._n_positions, like)

    @torch.no_grad()
    def encode(self, net_input: dict[str, Any]) -> None:
        """Encode B sources, and append an empty row for each.

        Args:
            net_input: the ``net_input`` of fairseq's batches, such as ``src_tokens`` int64
                ``[B, S]``, padded on either side, and ``src_lengths`` int64 ``[B]``.
        """
        self._read_parameters()
        encoded = self._encoder.forward_torchscript(net_input)
        states = encoded["encoder_out"][0].transpose(0, 1)
        padding = next(iter(encoded["encoder_padding_mask"]), None)
        if padding is None:
            padding = torch.zeros(states.shape[:2], dtype=torch.bool, device=states.device)
        keys_values = [
            torch.stack([layer.encoder_attn.k_proj(states), layer.encoder_attn.v_proj(states)])
            for layer in self._layers
        ]
        self._sources.add(torch.stack(keys_values), padding)
        self._rows.add(states.size(0))

    def add(self, n: int) -> None:
        """Append n empty rows of a language model, which have empty sources."""
        self._read_parameters()
        like = self._decoder.embed_tokens.weight
        padding = torch.zeros(n, 0, dtype=torch.bool, device=like.device)
        shape = (len(self._layers), 2, n, 0, self._layers[0].self_attn.embed_dim)
        self._sources.add(like.new_zeros(shape), padding)
        self._rows.add(n)

    @torch.no_grad()
    def step(self, tokens: Tensor, rows: slice = ALL_ROWS) -> Tensor:
        """Append T tokens to each row.

        Args:
            tokens: int64 ``[R, T]``, T a multiple of :attr:`tokens_per_step`. Rows with fewer
                tokens can have any padding.
            rows: the R rows that are extended (default: all).

        Returns:
            features ``[R, T, C]``, like those of ``decoder.extract_features``
        """
        n_new, like = tokens.size(1), self._decoder.embed_tokens.weight
        n_keys = self._rows.reserve(rows, n_new)
        places = self._rows.places_after(rows, n_new)
        mask = mask_of(hidden_keys(places[1], n_keys, self.tokens_per_step), like.detach())
        self._step = _Step(rows, places, mask, self._sources.sharing(rows))
        return self.forward(tokens, self._step)

    def forward(self, tokens: Tensor, step: _Step) -> Tensor:
        """All layers of a step; ``torch.compile(fullgraph=True)`` can capture it."""
        x = self._embed(tokens, step.places[1])
        for index, layer in enumerate(self._layers):
            x = self._self_attention(index, layer, x, step)
            if layer.encoder_attn is not None:
                x = self._cross_attention(index, layer, x, step)
            x = _feed_forward(layer, x)
        if self._decoder.layer_norm is not None:
            x = self._decoder.layer_norm(x)
        return x if self._decoder.project_out_dim is None else self._decoder.project_out_dim(x)

    def keep(self, n: Tensor) -> None:
        """Keep the first n int64 ``[R]`` tokens of the last step, and remove the others."""
        assert self._step is not None
        self._rows.keep(self._step.rows, n, self._step.places[1].size(1))

    def tighten(self, longest: int) -> None:
        """State that no row has more than ``longest`` tokens, so that fewer keys are read."""
        self._rows.tighten(longest)

    def select(self, rows: Rows) -> None:
        """Row i becomes a copy of row ``rows[i]``; see :data:`.caches.Rows`."""
        self._rows.select(rows)
        self._sources.select(rows)
        self._step = None

    def scores(self, features: Tensor) -> Tensor:
        """The logits of p_1: features ``[..., C]`` to ``[..., V]``."""
        return self.head_scores(features, 0, 1).squeeze(-2)

    def head_scores(self, features: Tensor, first: int, last: int) -> Tensor:
        """The logits of parallel heads ``first ... last - 1``: ``[..., last - first, V]``.

        Head 0 is p_1, the only one of models without parallel heads.
        """
        if self.block_size and not self.has_sequential_heads:
            return self._logits(self._decoder.head_features(features, first, last))
        return self._logits(features.unsqueeze(-2))

    def begin_drafts(self, features: Tensor) -> Tensor:
        """The first states of sequential heads: features ``[R, C]`` to ``[R, C]``."""
        return self._decoder.heads.begin(features)

    def extend_drafts(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Advance states of sequential heads by one token each.

        Args:
            states: ``[R, 1, C]``, of all rows.
            tokens: int64 ``[R, 1]``, the next token of each state.

        Returns:
            states ``[R, 1, C]``
        """
        heads, decoder = self._decoder.heads, self._decoder
        states = heads.read_token(states, decoder.embed_scale * decoder.embed_tokens(tokens))
        queries = heads.query(heads.source_norm(states))
        sharing = self._sources.sharing(ALL_ROWS)
        found = self._attend_to_sources(len(self._layers) - 1, queries, sharing)
        return heads.feed_forward(states + heads.source(found))

    def draft_scores(self, states: Tensor) -> Tensor:
        """The logits ``[..., V]`` of the token after each state ``[..., C]``."""
        return self._logits(self._decoder.heads.output(states))

    def _read_parameters(self) -> None:
        """Follow changes of the model. Until then it is not read: compiled code may decode it."""
        self._decoder = prepared(self._original).by_columns()
        self._layers = layers_of(self._decoder)

    def _logits(self, states: Tensor) -> Tensor:
        logits = self._decoder.output_layer(states)
        return logits if self._temperature == 1.0 else logits / self._temperature

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Embed tokens and their positions, int64 ``[R, T]``: ``[R, T, C]``."""
        decoder = self._decoder
        x = decoder.embed_scale * decoder.embed_tokens(tokens)
        if decoder.project_in_dim is not None:
            x = decoder.project_in_dim(x)
        if self._positions is not None:
            # Drafts may exceed the last position; outputs do not.
            x = x + self._positions[positions.clamp(max=self._positions.size(0) - 1)]
        return x if decoder.layernorm_embedding is None else decoder.layernorm_embedding(x)

    def _self_attention(self, index: int, layer: Any, x: Tensor, step: _Step) -> Tensor:
        residual, attention = x, layer.self_attn
        if layer.normalize_before:
            x = layer.self_attn_layer_norm(x)
        if is_recurrent(layer):
            x = residual + self._recurrence(index, attention, x, step)
            return x if layer.normalize_before else layer.self_attn_layer_norm(x)
        self._rows.write(index, step.places, attention.k_proj(x), attention.v_proj(x))
        keys, values = self._rows.read(index, step.rows, step.mask.size(-1))
        x = attend(attention.q_proj(x), keys, values, step.mask, attention.num_heads)
        x = attention.out_proj(x)
        if layer.c_attn is not None:  # NormFormer's --scale-heads
            x = x * layer.c_attn.repeat_interleave(attention.head_dim)
        if layer.attn_ln is not None:  # NormFormer's --scale-attn
            x = layer.attn_ln(x)
        x = residual + x
        return x if layer.normalize_before else layer.self_attn_layer_norm(x)

    def _recurrence(self, index: int, unit: Any, x: Tensor, step: _Step) -> Tensor:
        """The outputs of a recurrent unit; the cache has its state after each token as keys."""
        states, _ = self._rows.read(index, step.rows, step.mask.size(-1))
        rows = torch.arange(x.size(0), device=x.device)
        lengths = step.places[1][:, 0]
        before = states[rows, (lengths - 1).clamp(min=0)].masked_fill(lengths.eq(0)[:, None], 0)
        states = unit.states(x.transpose(0, 1), before).transpose(0, 1)
        self._rows.write(index, step.places, states, states)
        return torch.relu(states)

    def _cross_attention(self, index: int, layer: Any, x: Tensor, step: _Step) -> Tensor:
        residual, attention = x, layer.encoder_attn
        if layer.normalize_before:
            x = layer.encoder_attn_layer_norm(x)
        found = self._attend_to_sources(index, attention.q_proj(x), step.sharing)
        x = residual + attention.out_proj(found)
        return x if layer.normalize_before else layer.encoder_attn_layer_norm(x)

    def _attend_to_sources(self, index: int, queries: Tensor, sharing: Sharing) -> Tensor:
        """The attention of one layer to sources: queries ``[R, T, E]`` to ``[R, T, E]``."""
        keys, values = self._sources.read(index, sharing)
        n_heads = self._layers[index].encoder_attn.num_heads
        in_slots = queries if sharing.rows is None else queries.index_select(0, sharing.rows)
        of_sources = in_slots.view(len(keys), -1, queries.size(-1))
        found = attend(of_sources, keys, values, sharing.mask, n_heads).view_as(in_slots)
        return found if sharing.slots is None else found.index_select(0, sharing.slots)


def _feed_forward(layer: Any, x: Tensor) -> Tensor:
    residual = x
    if layer.normalize_before:
        x = layer.final_layer_norm(x)
    x = layer.activation_fn(layer.fc1(x))
    if layer.ffn_layernorm is not None:  # NormFormer's --scale-fc
        x = layer.ffn_layernorm(x)
    x = layer.fc2(x)
    if layer.w_resid is not None:  # NormFormer's --scale-resids
        residual = layer.w_resid * residual
    x = residual + x
    return x if layer.normalize_before else layer.final_layer_norm(x)
