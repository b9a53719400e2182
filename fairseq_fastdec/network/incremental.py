"""A network for other models, by fairseq's incremental decoding."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.lstm import LSTMDecoder
from torch import Tensor

from .caches import ALL_ROWS, Rows, on_host


@dataclass
class RowGroup:
    """Rows that were encoded together and have the same length, so that fairseq can decode them.

    The rows of an LSTM can have different lengths.

    Attributes:
        batch: the number of their batch.
        rows: int64 ``[G]``, the indices of the rows in the network.
        sources: int64 ``[G]``, the indices of their sources in the batch that was encoded.
        tokens: int64 ``[G, n + T]``: the n tokens of the rows, none for an LSTM, and T tokens of
            the last step.
        encoder_out: the output of the encoder, with an entry for each row.
        states: the decoder's incremental states after n, n + 1, ... n + T tokens.
    """

    batch: int
    rows: np.ndarray
    sources: np.ndarray
    tokens: Tensor
    encoder_out: Any
    states: list[dict[str, Any]]

    def keep(self, n: int) -> None:
        """Keep the first n tokens of the last step, and remove the others."""
        n_removed = len(self.states) - 1 - n
        self.tokens = self.tokens[:, : self.tokens.size(1) - n_removed]
        self.states = [self.states[n]]


class IncrementalNetwork:
    """A network for any model that fairseq can decode incrementally.

    fairseq's incremental state is for rows of equal length. So the rows of each :meth:`encode` form
    a group, which is split when its rows differ in length, and joined when they are fed at the same
    length again. A group is fed token by token, and stores the state after each token until
    :meth:`keep` selects one of them. The methods are those of
    :class:`~.transformer.TransformerNetwork`.
    """

    tokens_per_step = 1
    block_size = 0
    has_sequential_heads = False
    is_normalized = True
    accepts_ended_rows = False

    def __init__(self, model: FairseqEncoderDecoderModel, temperature: float = 1.0) -> None:
        """
        Args:
            model: a model for which :func:`~.support.decodes_incrementally` is true.
            temperature: the divisor of the decoder's output, as in fairseq's generator.
        """
        self._model = model
        self._temperature = temperature
        # The state of an LSTM does not depend on the number of tokens, so lengths can differ.
        self._has_lengths = type(model.decoder) is not LSTMDecoder
        self.reset()

    @property
    def n_rows(self) -> int:
        """The number of rows, R."""
        return sum(group.rows.size for group in self._groups)

    def reset(self) -> None:
        """Remove all rows."""
        self._groups: list[RowGroup] = []
        self._n_batches = 0

    @torch.no_grad()
    def encode(self, net_input: dict[str, Any]) -> None:
        """Encode B sources, and append an empty row for each."""
        # Rows do not share sources, as the rows of a beam do in fairseq.
        self._model.decoder.set_beam_size(1)
        # Recurrent encoders expect the longest source first.
        order = _source_lengths(net_input).argsort(descending=True, stable=True)
        ordered = {
            name: value[order] if isinstance(value, Tensor) else value
            for name, value in net_input.items()
        }
        encoder_out = self._model.encoder.forward_torchscript(ordered)
        no_tokens = order.new_empty(order.numel(), 0)
        sources = order.cpu().numpy()
        rows = self.n_rows + sources
        self._groups.append(RowGroup(self._n_batches, rows, sources, no_tokens, encoder_out, [{}]))
        self._n_batches += 1

    @torch.no_grad()
    def step(self, tokens: Tensor, rows: slice = ALL_ROWS) -> Tensor:
        """Feed int64 ``[R, T]`` to R rows.

        Returns:
            features ``[R, T, V]``: the model's log-probabilities
        """
        self._fed = rows
        is_fed = np.zeros(self.n_rows, dtype=bool)
        is_fed[rows] = True
        fed: dict[tuple[int, int, int], list[RowGroup]] = {}
        waiting = []
        for group in self._divided(is_fed):
            group.keep(0)
            if not self._has_lengths:
                group.tokens = group.tokens[:, :0]
            if is_fed[group.rows[0]]:
                # Before the first token, a state is empty.
                key = group.batch, group.tokens.size(1), len(group.states[0])
                fed.setdefault(key, []).append(group)
            else:
                waiting.append(group)
        joined = [self._joined(groups) for groups in fed.values()]
        self._groups = [*waiting, *joined]
        places = [group.rows - (rows.start or 0) for group in joined]
        outputs = [
            self._feed(group, tokens[self._indices(own)]) for group, own in zip(joined, places)
        ]
        order = np.concatenate(places).argsort()
        return torch.cat(outputs)[self._indices(order)]

    @torch.no_grad()
    def keep(self, n: Tensor) -> None:
        """Keep the first n int64 ``[R]`` tokens of the last step, and remove the others."""
        kept = np.zeros(self.n_rows, dtype=np.int64)
        kept[self._fed] = n.cpu().numpy()
        self._groups = self._divided(kept)
        for group in self._groups:
            group.keep(kept[group.rows[0]])

    def tighten(self, longest: int) -> None:
        """fairseq's decoders know the lengths."""

    @torch.no_grad()
    def select(self, rows: Rows) -> None:
        """Row i becomes a copy of row ``rows[i]``; fed tokens are removed."""
        owners, places = np.empty((2, self.n_rows), dtype=np.int64)
        for number, group in enumerate(self._groups):
            owners[group.rows], places[group.rows] = number, np.arange(group.rows.size)
        chosen = np.array(on_host(rows), dtype=np.int64)
        owners, places = owners[chosen], places[chosen]
        selected = []
        for number, group in enumerate(self._groups):
            new_rows = np.flatnonzero(owners == number)
            if new_rows.size:
                group.keep(0)
                selected.append(self._gathered(group, places[new_rows], new_rows))
        self._groups = selected

    def scores(self, features: Tensor) -> Tensor:
        """The log-probabilities ``[..., V]`` that :meth:`step` returned."""
        return features

    def _feed(self, group: RowGroup, new: Tensor) -> Tensor:
        """Feed int64 ``[G, T]`` to a group: log-probabilities ``[G, T, V]``."""
        group.tokens = torch.cat([group.tokens, new], dim=1)
        outputs, n = [], group.tokens.size(1)
        for end in range(n - new.size(1) + 1, n + 1):
            # Decoders change the state in place, but the previous one may still be needed.
            state = copied(group.states[-1])
            scores, *extra = self._model.decoder.forward(
                group.tokens[:, :end], encoder_out=group.encoder_out, incremental_state=state
            )
            net_output = (scores[:, -1:] / self._temperature, *extra)
            outputs.append(self._model.get_normalized_probs(net_output, log_probs=True))
            group.states.append(state)
        return torch.cat(outputs, dim=1)

    def _indices(self, numbers: np.ndarray) -> Tensor:
        """Numbers on the model's device."""
        return torch.from_numpy(numbers).to(self._groups[0].tokens.device)

    def _joined(self, groups: list[RowGroup]) -> RowGroup:
        """One group of the rows of several, whose batch and lengths are equal."""
        if len(groups) == 1:
            return groups[0]
        first, *others = groups
        rows = np.concatenate([group.rows for group in groups])
        end = first.rows.size
        # Copies of the first row make room for those of the others.
        enlarged = np.zeros_like(rows)
        enlarged[:end] = np.arange(end)
        indices = self._indices(enlarged)
        encoder_out = self._model.encoder.reorder_encoder_out(first.encoder_out, indices)
        self._reorder(first.states[0], indices, is_permuted=False)
        for group in others:
            own = (group.encoder_out, group.states[0])
            write_rows((encoder_out, first.states[0]), own, first=end)
            end += group.rows.size
        sources = np.concatenate([group.sources for group in groups])
        tokens = torch.cat([group.tokens for group in groups])
        return RowGroup(first.batch, rows, sources, tokens, encoder_out, first.states)

    def _divided(self, labels: np.ndarray) -> list[RowGroup]:
        """Split groups, so that all rows of a group have the same label; labels ``[R]``."""
        return [part for group in self._groups for part in self._parts(group, labels[group.rows])]

    def _parts(self, group: RowGroup, labels: np.ndarray) -> Iterator[RowGroup]:
        values = np.unique(labels)
        for value in values:
            members = np.flatnonzero(labels == value)
            # Copied, since encoders and decoders reorder in place.
            part = group if value == values[-1] else copy.deepcopy(group)
            yield self._gathered(part, members, group.rows[members])

    def _gathered(self, group: RowGroup, members: np.ndarray, rows: np.ndarray) -> RowGroup:
        """Members int64 ``[G']`` of a group as these ``rows``; the old group becomes invalid."""
        sources, encoder_out, tokens = group.sources[members], group.encoder_out, group.tokens
        if not np.array_equal(members, np.arange(group.rows.size)):
            have_moved = not np.array_equal(sources, group.sources)
            indices = self._indices(members)
            tokens = tokens[indices]
            if have_moved:
                encoder_out = self._model.encoder.reorder_encoder_out(encoder_out, indices)
            for state in group.states:
                self._reorder(state, indices, have_moved and members.size == group.rows.size)
        return RowGroup(group.batch, rows, sources, tokens, encoder_out, group.states)

    def _reorder(self, state: dict[str, Any], members: Tensor, is_permuted: bool) -> None:
        """Reorder a state.

        Args:
            is_permuted: whether rows have other sources, and are as many as before.
        """
        reorder = self._model.decoder.reorder_incremental_state_scripting
        if is_permuted:
            # fairseq's cross-attention ignores an order with an unchanged number of rows, assuming
            # that beams are reordered within their sentence. So change the number, and undo this.
            reorder(state, torch.cat([members, members[:1]]))
            members = torch.arange(members.numel(), device=members.device)
        reorder(state, members)


def copied(state: Any) -> Any:
    """A copy of a state of tensors, faster than by ``copy.deepcopy``."""
    if isinstance(state, dict):
        return {name: copied(part) for name, part in state.items()}
    return state.clone() if isinstance(state, Tensor) else copy.deepcopy(state)


def write_rows(whole: Any, own: Any, first: int) -> None:
    """Write a state or encoder output into one of more rows, from row ``first`` on.

    The dimension of the rows is the one in which their tensors differ.
    """
    if isinstance(whole, Tensor):
        for dim, (n, n_own) in enumerate(zip(whole.shape, own.shape)):
            if n != n_own:
                whole.narrow(dim, first, n_own).copy_(own)
    elif isinstance(whole, dict):
        for name, part in whole.items():
            write_rows(part, own[name], first)
    elif isinstance(whole, (list, tuple)):
        for part, its in zip(whole, own):
            write_rows(part, its, first)


def _source_lengths(net_input: dict[str, Any]) -> Tensor:
    """The lengths of the sources, int64 ``[B]``; zeros if the batch does not have them."""
    if "src_lengths" in net_input:
        return net_input["src_lengths"]
    padding = net_input.get("padding_mask")
    if padding is not None:
        return (~padding).sum(dim=1)
    content = next(value for value in net_input.values() if isinstance(value, Tensor))
    return torch.zeros(content.size(0), dtype=torch.long, device=content.device)
