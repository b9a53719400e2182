"""The session for models that the engine cannot run: it uses fairseq's incremental decoding."""

import copy
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ..network.encoder import select_sentences
from .fairseq_session import FairseqSession, refuse_trees, source_lengths

State = Dict[str, Any]


@dataclass
class _Group:
    """Rows that fairseq can decode together, since they were encoded at once and have one length.

    Attributes:
        rows: int64 ``[G]``, the rows' numbers in the session.
        length: how many tokens each row has committed.
        tokens: int64 ``[G, length + T]``, the committed tokens and the T of a step that is not.
        encoder_out: what the encoder returned, one entry for each row, in the encoder's own form.
        states: the decoder's incremental states after ``length ... length + T`` tokens.
    """

    rows: Tensor
    length: int
    tokens: Tensor
    encoder_out: Any
    states: List[State]

    def keep(self, n: int) -> None:
        """Commit the first n tokens of the step, and forget the others."""
        self.length += n
        self.tokens = self.tokens[:, : self.length]
        self.states = [self.states[n]]


class IncrementalSession(FairseqSession):
    """The interface of :class:`DecoderSession` for any fairseq model with incremental decoding.

    It is slower than the engine, but needs no more of a model than fairseq's own generator does. So
    it runs ``lstm``, ``fconv``, transformers with an adaptive softmax, and models of other plugins.

    fairseq's incremental state is for rows of equal length and encoder outputs of equal width, and
    can be reordered but not joined. So rows live in groups. Each :meth:`add` makes a group, and a
    group whose rows come to differ in length is divided. A step of one token calls the decoder once
    for each group, a step of T tokens T times, since tokens are fed one by one. The group keeps the
    states between them until the commit, so that keeping fewer tokens needs no recomputation.
    """

    def __init__(self, model: FairseqEncoderDecoderModel, temperature: float = 1.0) -> None:
        """
        Args:
            model: one for which :func:`~.fairseq_session.decodes_incrementally` is true.
            temperature: see :class:`FairseqSession`.
        """
        super().__init__(model, temperature)
        self._groups: List[_Group] = []
        self._paused: List[_Group] = []

    @property
    def n_rows(self) -> int:
        """The number of rows now, without those that are paused."""
        return sum(group.rows.numel() for group in self._groups)

    def reset(self, max_len: int) -> None:
        """Forget all rows; new ones may be as long as the model's positions allow."""
        self._groups, self._paused = [], []

    @torch.no_grad()
    def add(self, net_input: Dict[str, Tensor], forced: Optional[Tensor] = None) -> None:
        """Encode more sentences and append one empty row for each.

        Args:
            net_input: what fairseq's batches hold: ``src_tokens`` ``[B, S]``, padded on either
                side, ``src_lengths`` ``[B]``, and whatever else the encoder takes.
            forced: ignored, since this session has no shortlist.
        """
        # fairseq's fast attention takes rows for beams of the width that --beam had (5 by default),
        # and decodes other numbers of rows wrongly.
        self._model.decoder.set_beam_size(1)
        # Recurrent encoders need the sources in this order.
        order = source_lengths(net_input).argsort(descending=True, stable=True)
        encoder_out = self._model.encoder.forward_torchscript(select_sentences(net_input, order))
        tokens = order.new_empty(order.numel(), 0)
        self._groups.append(_Group(self.n_rows + order, 0, tokens, encoder_out, [{}]))

    def _step(self, tokens: Tensor) -> Tensor:
        outputs = [self._feed(group, tokens[group.rows]) for group in self._groups]
        features = outputs[0].new_empty(*tokens.shape, outputs[0].size(-1))
        for group, output in zip(self._groups, outputs):
            features[group.rows] = output
        return features

    @torch.no_grad()
    def commit(self, n: Union[int, Tensor], path: Optional[Tensor] = None) -> None:
        """Keep the first n tokens of the last step, the same number for all rows or ``[R]``.

        Args:
            path: must be ``None``, as a tree, see :meth:`step`.

        Raises:
            ValueError: for a path.
        """
        refuse_trees(path)
        kept = []
        for group in self._groups:
            counts = torch.full_like(group.rows, n) if isinstance(n, int) else n[group.rows]
            for count, part, members in _divide(group, counts):
                part.keep(count)
                kept.append(self._gather(part, members, part.rows[members]))
        self._groups = kept

    @torch.no_grad()
    def select(self, rows: Tensor) -> None:
        """Row i becomes what row ``rows[i]`` was; tokens that are not committed are lost.

        Args:
            rows: int64 ``[R']``; rows may be dropped, repeated and reordered.
        """
        n_rows, selected = self.n_rows, []
        for group in self._groups:
            place = rows.new_full((n_rows,), -1)
            place[group.rows] = torch.arange(group.rows.numel(), device=rows.device)
            members = place[rows]
            new_rows = members.ge(0).nonzero().squeeze(1)
            if new_rows.numel():
                selected.append(self._gather(group, members[new_rows], new_rows))
        self._groups = selected

    @torch.no_grad()
    def pause(self, n_rows: int) -> None:
        """Let the first ``n_rows`` rows rest; see :meth:`DecoderSession.pause`.

        Raises:
            ValueError: if there are fewer rows.
        """
        n_before = sum(group.rows.numel() for group in self._paused)
        if not 0 <= n_rows <= n_before + self.n_rows:
            raise ValueError(f"pause({n_rows}): the session has {n_before + self.n_rows} rows")
        groups = self._paused + [replace(g, rows=g.rows + n_before) for g in self._groups]
        self._paused, self._groups = [], []
        for group in groups:
            for goes_on, part, members in _divide(group, group.rows.ge(n_rows)):
                rows = part.rows[members] - n_rows * goes_on
                part = self._gather(part, members, rows)
                (self._groups if goes_on else self._paused).append(part)

    def _feed(self, group: _Group, new: Tensor) -> Tensor:
        """Feed ``[G, T]`` tokens to a group: log-probabilities ``[G, T, V]``."""
        group.tokens = torch.cat([group.tokens[:, : group.length], new], dim=1)
        group.states = group.states[:1]
        outputs = []
        for length in range(group.length + 1, group.tokens.size(1) + 1):
            # Decoders write into their state in place, and the old one may be needed again.
            state = copy.deepcopy(group.states[-1])
            scores, *extra = self._model.decoder.forward(
                group.tokens[:, :length], encoder_out=group.encoder_out, incremental_state=state
            )
            outputs.append(self._log_probs(scores[:, -1:], extra))
            group.states.append(state)
        return torch.cat(outputs, dim=1)

    def _gather(self, group: _Group, members: Tensor, rows: Tensor) -> _Group:
        """A group of some members, with these ``rows``; the old group must not be used again."""
        n_members = group.rows.numel()
        encoder_out, state = group.encoder_out, group.states[0]
        everyone = torch.arange(n_members, device=members.device)
        if not torch.equal(members, everyone):
            encoder_out = self._model.encoder.reorder_encoder_out(encoder_out, members)
            self._reorder(state, members, n_members)
        return _Group(rows, group.length, group.tokens[members], encoder_out, [state])

    def _reorder(self, state: State, members: Tensor, n_before: int) -> None:
        reorder = self._model.decoder.reorder_incremental_state_scripting
        if members.numel() == n_before:
            # fairseq's cross-attention skips an order of unchanged size, since it takes the rows
            # for beams that change places within their sentence. An order of another size is not
            # skipped.
            reorder(state, torch.cat([members, members[:1]]))
            members = torch.arange(n_before, device=members.device)
        reorder(state, members)


def _divide(group: _Group, labels: Tensor) -> Iterator[Tuple[int, _Group, Tensor]]:
    """Divide a group by labels ``[G]``.

    Yields:
        for each label, a group to gather its members from, and the members, int64 ``[G']``. The
        groups share nothing, since encoders and decoders reorder in place.
    """
    values = labels.unique().tolist()
    for value in values:
        own = group if len(values) == 1 else copy.deepcopy(group)
        yield value, own, labels.eq(value).nonzero().squeeze(1)
