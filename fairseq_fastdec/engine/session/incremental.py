"""The session for every other encoder-decoder: through fairseq's own incremental decoding."""

import copy
import inspect
from dataclasses import dataclass, replace
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import torch
from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn

State = Dict[str, Any]


def decodes_incrementally(model: nn.Module) -> bool:
    """Whether :class:`IncrementalSession` can run a model.

    Not so non-autoregressive decoders, which inherit the interface and do not keep it, nor
    decoders with prediction heads or several tokens a step, which only the engine knows how to use.
    """
    if not isinstance(model, FairseqEncoderDecoderModel):
        return False
    decoder = model.decoder
    takes_state = "incremental_state" in inspect.signature(decoder.forward).parameters
    has_heads = hasattr(decoder, "head_features")
    one_token = getattr(decoder, "tokens_per_step", 1) == 1
    stepwise = takes_state and not has_heads and one_token
    return isinstance(decoder, FairseqIncrementalDecoder) and stepwise


@dataclass
class _Group:
    """Rows that fairseq can decode together: encoded at once, and equally long.

    Attributes:
        rows: int64 ``[G]``, where they stand in the session.
        length: how many tokens each has committed.
        tokens: int64 ``[G, length + T]``: these, and the T of a step that is not committed.
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


class IncrementalSession:
    """The interface of :class:`DecoderSession` for any fairseq model with incremental decoding.

    Slower than the engine, but it needs nothing of a model except what fairseq's own generator
    needs: ``lstm``, ``fconv``, transformers with an adaptive softmax, models of other plugins.

    fairseq's incremental state is for rows of equal length and encoder outputs of equal width, and
    can be reordered but not joined. So rows live in groups: one for each :meth:`add`, and a group
    whose rows come to differ in length is divided. Each group is one call of the decoder a step.
    Tokens are fed one by one, so a step with T tokens costs T calls, and the states between them
    are kept until the commit, so that keeping fewer needs no recomputation.
    """

    normalized = True
    block_size = 0
    tokens_per_step = 1

    def __init__(self, model: FairseqEncoderDecoderModel, temperature: float = 1.0) -> None:
        """
        Args:
            model: one for which :func:`decodes_incrementally` is true.
            temperature: divides what the decoder returns, where fairseq's generator divides it.
        """
        self._model = model
        self._temperature = temperature
        self._groups: List[_Group] = []
        self._resting: List[_Group] = []

    @property
    def n_rows(self) -> int:
        """How many rows there are now, without those that are paused."""
        return sum(group.rows.numel() for group in self._groups)

    def reset(self, max_len: int) -> None:
        """Forget all rows; there may be rows of any length that the model's positions allow."""
        self._groups, self._resting = [], []
        # fairseq's fast attention takes rows for beams of the width that --beam had (5 unless
        # given), and decodes other numbers of rows wrongly.
        self._model.decoder.set_beam_size(1)

    @torch.no_grad()
    def add(self, net_input: Dict[str, Tensor], forced: Optional[Tensor] = None) -> None:
        """Encode more sentences and append one empty row for each.

        Args:
            net_input: what fairseq's batches hold: ``src_tokens`` ``[B, S]``, padded on either
                side, ``src_lengths`` ``[B]``, and whatever else the encoder takes.
            forced: of no importance, as there are no shortlists here.
        """
        # Recurrent encoders insist on this order.
        order = net_input["src_lengths"].argsort(descending=True, stable=True)
        encoder_out = self._model.encoder.forward_torchscript(
            {name: value[order] for name, value in net_input.items()}
        )
        tokens = order.new_empty(order.numel(), 0)
        self._groups.append(_Group(self.n_rows + order, 0, tokens, encoder_out, [{}]))

    @torch.no_grad()
    def step(self, tokens: Tensor) -> Tensor:
        """Feed T tokens to every row, after the tokens that the row has committed.

        Args:
            tokens: int64 ``[R, T]``. Rows that have fewer to feed are filled up with anything.

        Returns:
            features ``[R, T, V]``: the model's own log-probabilities.
        """
        outputs = [self._feed(group, tokens[group.rows]) for group in self._groups]
        features = outputs[0].new_empty(*tokens.shape, outputs[0].size(-1))
        for group, output in zip(self._groups, outputs):
            features[group.rows] = output
        return features

    @torch.no_grad()
    def commit(self, n: Union[int, Tensor]) -> None:
        """Keep the first n tokens of the last step, the same number for all rows or ``[R]``."""
        kept = []
        for group in self._groups:
            counts = torch.full_like(group.rows, n) if isinstance(n, int) else n[group.rows]
            for count, part, members in _divided(group, counts):
                part.keep(count)
                kept.append(self._gathered(part, members, part.rows[members]))
        self._groups = kept

    @torch.no_grad()
    def select(self, rows: Tensor) -> None:
        """Row i becomes what row ``rows[i]`` was; what was fed and not committed is lost.

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
                selected.append(self._gathered(group, members[new_rows], new_rows))
        self._groups = selected

    @torch.no_grad()
    def pause(self, n_rows: int) -> None:
        """Let the first ``n_rows`` rows rest; see :meth:`DecoderSession.pause`."""
        n_resting = sum(group.rows.numel() for group in self._resting)
        groups = self._resting + [replace(g, rows=g.rows + n_resting) for g in self._groups]
        self._resting, self._groups = [], []
        for group in groups:
            for goes_on, part, members in _divided(group, group.rows.ge(n_rows)):
                rows = part.rows[members] - n_rows * goes_on
                part = self._gathered(part, members, rows)
                (self._groups if goes_on else self._resting).append(part)

    def project(
        self, features: Tensor, first: int = 0, last: int = 1, rough: bool = False
    ) -> Tensor:
        """``[..., V]`` from :meth:`step` to ``[..., 1, V]``: there is one head, and it is done.

        Args:
            first, last, rough: for the engine's sessions; no choice here.

        Returns:
            log-probabilities, not logits: ``normalized`` says so.
        """
        # A copy, as logits are: generators write into scores.
        return features.unsqueeze(-2).clone()

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
            net_output = (scores[:, -1:] / self._temperature, *extra)
            outputs.append(self._model.get_normalized_probs(net_output, log_probs=True))
            group.states.append(state)
        return torch.cat(outputs, dim=1)

    def _gathered(self, group: _Group, members: Tensor, rows: Tensor) -> _Group:
        """The group made of some members, which stand at ``rows``; the old one is used up."""
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
            # fairseq's cross-attention takes an order of unchanged size for beams that change
            # places within their sentence, and skips it: so go by way of another size.
            reorder(state, torch.cat([members, members[:1]]))
            members = torch.arange(n_before, device=members.device)
        reorder(state, members)


def _divided(group: _Group, labels: Tensor) -> Iterator[Tuple[int, _Group, Tensor]]:
    """For each value of the labels ``[G]`` a group to take its members from, and which these are.

    The groups share nothing: encoders and decoders reorder in place.
    """
    values = labels.unique().tolist()
    for value in values:
        own = group if len(values) == 1 else copy.deepcopy(group)
        yield value, own, labels.eq(value).nonzero().squeeze(1)
