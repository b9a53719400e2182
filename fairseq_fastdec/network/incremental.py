"""A network for other models, by fairseq's incremental decoding."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from .caches import ALL_ROWS, Rows, on_device


@dataclass
class RowGroup:
    """Rows that were encoded together and have the same length, so that fairseq can decode them.

    Attributes:
        rows: int64 ``[G]``, the indices of the rows in the network.
        tokens: int64 ``[G, n + T]``: the n tokens of the rows, and T tokens of the last step.
        encoder_out: the output of the encoder, with an entry for each row.
        states: the decoder's incremental states after n, n + 1, ... n + T tokens.
    """

    rows: Tensor
    tokens: Tensor
    encoder_out: Any
    states: list[dict[str, Any]]

    def keep(self, n: int) -> None:
        """Keep the first n tokens of the last step, and remove the others."""
        n_fed = len(self.states) - 1
        self.tokens = self.tokens[:, : self.tokens.size(1) - n_fed + n]
        self.states = [self.states[n]]


class IncrementalNetwork:
    """A network for any model that fairseq can decode incrementally.

    fairseq's incremental state is for rows of equal length. It can be reordered, but two states
    cannot be joined. So the rows of each :meth:`encode` form a group, which is split when its rows
    differ in length. A group is fed token by token, and stores the state after each token until
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
        self.reset()

    @property
    def n_rows(self) -> int:
        """The number of rows, R."""
        return sum(group.rows.numel() for group in self._groups)

    def reset(self) -> None:
        """Remove all rows."""
        self._groups: list[RowGroup] = []

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
        self._groups.append(RowGroup(self.n_rows + order, no_tokens, encoder_out, [{}]))

    @torch.no_grad()
    def step(self, tokens: Tensor, rows: slice = ALL_ROWS) -> Tensor:
        """Feed int64 ``[R, T]`` to R rows.

        Returns:
            features ``[R, T, V]``: the model's log-probabilities
        """
        self._fed = torch.arange(self.n_rows, device=tokens.device)[rows]
        place = self._fed.new_full((self.n_rows,), -1)
        place[self._fed] = torch.arange(self._fed.numel(), device=tokens.device)
        self._groups = self._divided(place.ge(0))
        features = []
        for group in self._groups:
            group.keep(0)
            if place[group.rows[0]] >= 0:
                features.append((place[group.rows], self._feed(group, tokens[place[group.rows]])))
        places, outputs = (torch.cat(part) for part in zip(*features))
        return outputs[places.argsort()]

    @torch.no_grad()
    def keep(self, n: Tensor) -> None:
        """Keep the first n int64 ``[R]`` tokens of the last step, and remove the others."""
        kept = n.new_zeros(self.n_rows).index_copy(0, self._fed, n)
        self._groups = self._divided(kept)
        for group in self._groups:
            group.keep(int(kept[group.rows[0]]))

    def tighten(self, longest: int) -> None:
        """fairseq's decoders know the lengths."""

    @torch.no_grad()
    def select(self, rows: Rows) -> None:
        """Row i becomes a copy of row ``rows[i]``; fed tokens are removed."""
        selected = []
        for group in self._groups:
            group.keep(0)
            place = group.rows.new_full((self.n_rows,), -1)
            place[group.rows] = torch.arange(group.rows.numel(), device=group.rows.device)
            places = place[on_device(rows, place.device)]
            new_rows = places.ge(0).nonzero().squeeze(1)
            if new_rows.numel():
                selected.append(self._gathered(group, places[new_rows], new_rows))
        self._groups = selected

    def scores(self, features: Tensor) -> Tensor:
        """The log-probabilities ``[..., V]`` that :meth:`step` returned."""
        return features

    def _feed(self, group: RowGroup, new: Tensor) -> Tensor:
        """Feed int64 ``[G, T]`` to a group: log-probabilities ``[G, T, V]``."""
        n_before = group.tokens.size(1)
        group.tokens = torch.cat([group.tokens, new], dim=1)
        outputs = []
        for end in range(n_before + 1, group.tokens.size(1) + 1):
            # Decoders change the state in place, but the previous one may still be needed.
            state = copy.deepcopy(group.states[-1])
            scores, *extra = self._model.decoder.forward(
                group.tokens[:, :end], encoder_out=group.encoder_out, incremental_state=state
            )
            net_output = (scores[:, -1:] / self._temperature, *extra)
            outputs.append(self._model.get_normalized_probs(net_output, log_probs=True))
            group.states.append(state)
        return torch.cat(outputs, dim=1)

    def _divided(self, labels: Tensor) -> list[RowGroup]:
        """Split groups, so that all rows of a group have the same label; labels ``[R]``."""
        return [part for group in self._groups for part in self._parts(group, labels[group.rows])]

    def _parts(self, group: RowGroup, labels: Tensor) -> Iterator[RowGroup]:
        values = labels.unique()
        for value in values:
            members = labels.eq(value).nonzero().squeeze(1)
            # Copied, since encoders and decoders reorder in place.
            part = group if values.numel() == 1 else copy.deepcopy(group)
            yield self._gathered(part, members, part.rows[members])

    def _gathered(self, group: RowGroup, members: Tensor, rows: Tensor) -> RowGroup:
        """Members int64 ``[G']`` of a group as these ``rows``; the old group becomes invalid."""
        n_members, encoder_out = group.rows.numel(), group.encoder_out
        if not torch.equal(members, torch.arange(n_members, device=members.device)):
            encoder_out = self._model.encoder.reorder_encoder_out(encoder_out, members)
            for state in group.states:
                self._reorder(state, members, n_members)
        return RowGroup(rows, group.tokens[members], encoder_out, group.states)

    def _reorder(self, state: dict[str, Any], members: Tensor, n_members: int) -> None:
        reorder = self._model.decoder.reorder_incremental_state_scripting
        if members.numel() == n_members:
            # fairseq's cross-attention ignores an order with an unchanged number of rows, assuming
            # that beams are reordered within their sentence. So change the number, and undo this.
            reorder(state, torch.cat([members, members[:1]]))
            members = torch.arange(n_members, device=members.device)
        reorder(state, members)


def _source_lengths(net_input: dict[str, Any]) -> Tensor:
    """The lengths of the sources, int64 ``[B]``; zeros if the batch does not have them."""
    if "src_lengths" in net_input:
        return net_input["src_lengths"]
    padding = net_input.get("padding_mask")
    if padding is not None:
        return (~padding).sum(dim=1)
    content = next(value for value in net_input.values() if isinstance(value, Tensor))
    return torch.zeros(content.size(0), dtype=torch.long, device=content.device)
