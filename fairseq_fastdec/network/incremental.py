"""The steps of any other model, through fairseq's incremental decoding."""

import copy
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

State = Dict[str, Any]


@dataclass
class RowGroup:
    """Rows of equal length that were encoded together, which fairseq can decode together.

    Attributes:
        rows: int64 ``[G]``, their numbers in the network.
        tokens: int64 ``[G, n + T]``: n tokens that the rows have, and T of a step.
        encoder_out: what the encoder returned, with an entry for each row.
        states: the decoder's incremental states after n, n + 1, ... n + T tokens.
        is_fed: whether the group took the last step.
    """

    rows: Tensor
    tokens: Tensor
    encoder_out: Any
    states: List[State]
    is_fed: bool = True


class IncrementalNetwork:
    """Any model with fairseq's incremental decoding, its rows of different lengths in groups.

    fairseq's incremental state is for rows of equal length. It can be reordered, but two states
    cannot be joined. So the rows of one :meth:`encode` are a group, and a group whose rows come to
    differ in length is divided. Each group is fed token by token, and keeps the state after each
    token until :meth:`keep` says which one stays.

    Features are the model's own log-probabilities, ``[R, T, V]``.
    """

    tokens_per_step = 1
    block_size = 0
    has_sequential_heads = False

    def __init__(self, model: FairseqEncoderDecoderModel, temperature: float = 1.0) -> None:
        """
        Args:
            model: one for which :func:`~.support.decodes_incrementally` is true.
            temperature: divides what the decoder returns, where fairseq's generator divides it.
        """
        self._model = model
        self._temperature = temperature
        self.reset()

    @property
    def n_rows(self) -> int:
        """R."""
        return sum(group.rows.numel() for group in self._groups)

    def reset(self) -> None:
        """Forget all rows."""
        self._groups: List[RowGroup] = []

    def encode(self, net_input: Dict[str, Any]) -> None:
        """Encode B sources, and append an empty row for each; see :class:`TransformerNetwork`."""
        # fairseq's attention is told how many rows a source has; here a row has its own entry.
        self._model.decoder.set_beam_size(1)
        # Recurrent encoders need the longest source first.
        order = _source_lengths(net_input).argsort(descending=True, stable=True)
        ordered = {
            name: value[order] if isinstance(value, Tensor) else value
            for name, value in net_input.items()
        }
        encoder_out = self._model.encoder.forward_torchscript(ordered)
        tokens = order.new_empty(order.numel(), 0)
        self._groups.append(RowGroup(self.n_rows + order, tokens, encoder_out, [{}]))

    def step(
        self, tokens: Tensor, parents: Optional[Tensor] = None, rows: Optional[Tensor] = None
    ) -> Tensor:
        """Feed T tokens to each row, behind those that it has.

        Args:
            tokens: int64 ``[R, T]``.
            parents: must be ``None``.
            rows: int64 ``[R]``, the rows that take the step (default: all).

        Returns:
            the model's log-probabilities ``[R, T, V]``

        Raises:
            ValueError: for a tree.
        """
        if parents is not None:
            raise ValueError("trees of tokens: fairseq's incremental decoding cannot feed them")
        place = torch.arange(self.n_rows, device=tokens.device)
        if rows is not None:
            place = torch.full_like(place, -1).index_copy(0, rows, place[: rows.numel()])
        self._divide(place.ge(0))
        fed = [group for group in self._groups if bool(place[group.rows[0]] >= 0)]
        for group in self._groups:
            group.is_fed = group in fed
        outputs = [self._feed(group, tokens[place[group.rows]]) for group in fed]
        features = outputs[0].new_empty(*tokens.shape, outputs[0].size(-1))
        for group, output in zip(fed, outputs):
            features[place[group.rows]] = output
        self._place = place
        return features

    def keep(self, n: Tensor, path: Optional[Tensor] = None) -> None:
        """Keep the first n tokens int64 ``[R]`` of the last step, and forget the others."""
        is_fed = self._place.ge(0)
        kept = torch.where(is_fed, n[self._place.clamp(min=0)], -1)
        self._divide(kept)
        for group in self._groups:
            if group.is_fed:
                count = int(kept[group.rows[0]])
                n_fed = len(group.states) - 1
                group.tokens = group.tokens[:, : group.tokens.size(1) - n_fed + count]
                group.states = [group.states[count]]

    def select(self, rows: Tensor) -> None:
        """Row i becomes what row ``rows[i]`` was, int64 ``[R']``; fed tokens are forgotten."""
        place = rows.new_full((self.n_rows,), -1)
        selected = []
        for group in self._groups:
            place.fill_(-1)[group.rows] = torch.arange(group.rows.numel(), device=rows.device)
            members = place[rows]
            own = members.ge(0).nonzero().squeeze(1)
            if own.numel():
                selected.append(self._gathered(group, members[own], own))
        self._groups = selected

    def log_probs(self, features: Tensor) -> Tensor:
        """The log-probabilities ``[..., V]`` that :meth:`step` returned."""
        return features

    def _feed(self, group: RowGroup, new: Tensor) -> Tensor:
        """Feed int64 ``[G, T]`` to a group: log-probabilities ``[G, T, V]``."""
        length = group.tokens.size(1) - len(group.states) + 1
        group.tokens = torch.cat([group.tokens[:, :length], new], dim=1)
        group.states = group.states[:1]
        outputs = []
        for end in range(length + 1, group.tokens.size(1) + 1):
            # Decoders change their state in place, and the earlier one may be needed again.
            state = copy.deepcopy(group.states[-1])
            scores, *extra = self._model.decoder.forward(
                group.tokens[:, :end], encoder_out=group.encoder_out, incremental_state=state
            )
            net_output = (scores[:, -1:] / self._temperature, *extra)
            outputs.append(self._model.get_normalized_probs(net_output, log_probs=True))
            group.states.append(state)
        return torch.cat(outputs, dim=1)

    def _divide(self, labels: Tensor) -> None:
        """Divide groups so that all rows of a group have one label; labels ``[R]``."""
        self._groups = [part for group in self._groups for part in self._parts(group, labels)]

    def _parts(self, group: RowGroup, labels: Tensor) -> Iterator[RowGroup]:
        values = labels[group.rows].unique()
        for value in values:
            members = labels[group.rows].eq(value).nonzero().squeeze(1)
            # The parts share nothing, since encoders and decoders reorder in place.
            own = group if values.numel() == 1 else copy.deepcopy(group)
            yield self._gathered(own, members, own.rows[members])

    def _gathered(self, group: RowGroup, members: Tensor, rows: Tensor) -> RowGroup:
        """A group of some members int64 ``[G']``, as these ``rows``; the old group is used up."""
        n_members, model = group.rows.numel(), self._model
        encoder_out = group.encoder_out
        if not torch.equal(members, torch.arange(n_members, device=members.device)):
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, members)
            for state in group.states:
                self._reorder(state, members, n_members)
        return RowGroup(rows, group.tokens[members], encoder_out, group.states, group.is_fed)

    def _reorder(self, state: State, members: Tensor, n_members: int) -> None:
        reorder = self._model.decoder.reorder_incremental_state_scripting
        if members.numel() == n_members:
            # fairseq's cross-attention ignores an order of unchanged size, which it takes for beams
            # that change places within their sentence. It obeys orders of other sizes.
            reorder(state, torch.cat([members, members[:1]]))
            members = torch.arange(n_members, device=members.device)
        reorder(state, members)


def _source_lengths(net_input: Dict[str, Any]) -> Tensor:
    """The sources' lengths int64 ``[B]``; zeros if the batch says nothing, as all are equal then."""
    if "src_lengths" in net_input:
        return net_input["src_lengths"]
    padding = net_input.get("padding_mask")
    if padding is not None:
        return (~padding).sum(dim=1)
    content = next(value for value in net_input.values() if isinstance(value, Tensor))
    return torch.zeros(content.size(0), dtype=torch.long, device=content.device)
