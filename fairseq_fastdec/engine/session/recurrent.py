"""The session for fairseq's LSTMs: all rows in one call of the decoder, whatever their lengths."""

from dataclasses import dataclass
from typing import Dict, List, Optional, Union

import torch
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.models.lstm import LSTMDecoder, LSTMEncoder
from torch import Tensor, nn

from ..network.encoder import select_sentences
from .fairseq_session import FairseqSession, refuse_trees, source_lengths


def is_recurrent(model: nn.Module) -> bool:
    """Whether :class:`RecurrentSession` can run a model: ``lstm`` as fairseq has it."""
    # A class that is derived from these may keep more than their state.
    return (
        isinstance(model, FairseqEncoderDecoderModel)
        and type(model.decoder) is LSTMDecoder
        and type(model.encoder) is LSTMEncoder
    )


@dataclass
class _Rows:
    """Some rows.

    Attributes:
        source: int64 ``[R]``, the column of each row's source in :class:`_Sources`.
        state: ``[2 L + 1, R, H]``: hidden states and cells of the L layers, then what attention
            gave to the last token, which is fed with the next.
    """

    source: Tensor
    state: Tensor

    def gather(self, rows: Tensor) -> "_Rows":
        """Row i becomes what row ``rows[i]`` was: int64 ``[R']``."""
        return _Rows(self.source[rows], self.state.index_select(1, rows))

    def joined(self, others: "_Rows") -> "_Rows":
        """These rows, and others behind them."""
        state = torch.cat([self.state, others.state], dim=1)
        return _Rows(torch.cat([self.source, others.source]), state)


@dataclass
class _Sources:
    """The encoded sources.

    Attributes:
        outputs: ``[S, B, C]``.
        padding: bool ``[S, B]``; sources stand left of it.
    """

    outputs: Tensor
    padding: Tensor

    def gather(self, columns: Tensor) -> "_Sources":
        """The sources in these columns, int64 ``[B']``."""
        return _Sources(
            self.outputs.index_select(1, columns), self.padding.index_select(1, columns)
        )

    def joined(self, others: "_Sources") -> "_Sources":
        """These sources, and others behind them, in the width of the longest."""
        width = max(own.padding.logical_not().sum(0).max().item() for own in (self, others))
        both = [own.of_width(int(width)) for own in (self, others)]
        return _Sources(
            torch.cat([own.outputs for own in both], dim=1),
            torch.cat([own.padding for own in both], dim=1),
        )

    def of_width(self, width: int) -> "_Sources":
        """The same with another number of positions S, at least the longest source's."""
        missing = max(width - self.padding.size(0), 0)
        outputs = nn.functional.pad(self.outputs[:width], (0, 0, 0, 0, 0, missing))
        return _Sources(
            outputs, nn.functional.pad(self.padding[:width], (0, 0, 0, missing), value=True)
        )


class RecurrentSession(FairseqSession):
    """The interface of :class:`DecoderSession` for ``lstm``, whose state knows no positions.

    So rows of all lengths, encoded at any time, are decoded together: a refilled stream takes one
    call of fairseq's decoder a step, not one for each refill. The states after all tokens of a
    step are kept until the commit, so that keeping fewer of them needs no recomputation.
    """

    def __init__(self, model: FairseqEncoderDecoderModel, temperature: float = 1.0) -> None:
        """
        Args:
            model: one for which :func:`is_recurrent` is true.
            temperature: see :class:`FairseqSession`.
        """
        super().__init__(model, temperature)
        self._decoder = model.decoder
        self.reset(0)

    @property
    def n_rows(self) -> int:
        """The number of rows now, without those that are paused."""
        return 0 if self._rows is None else self._rows.source.numel()

    def reset(self, max_len: int) -> None:
        """Forget all rows; new ones may be of any length."""
        self._sources: Optional[_Sources] = None
        self._resting: Optional[_Rows] = None
        self._rows: Optional[_Rows] = None
        self._forget_step()

    @torch.no_grad()
    def add(self, net_input: Dict[str, Tensor], forced: Optional[Tensor] = None) -> None:
        """Encode more sentences, and append an empty row for each; ``forced`` is ignored."""
        # The encoder needs the sources in this order.
        order = source_lengths(net_input).argsort(descending=True, stable=True)
        encoded = self._model.encoder.forward_torchscript(select_sentences(net_input, order))
        outputs, hiddens, cells, padding = encoded
        own = order.argsort()
        new = _Rows(own, self._first_state(hiddens, cells)[:, own])
        sources = _Sources(outputs, padding)
        old = self._sources_in_use()
        if old is not None:
            new.source += old.padding.size(1)
            sources = old.joined(sources)
        self._sources = sources
        self._rows = new if self._rows is None else self._rows.joined(new)
        self._forget_step()

    def _step(self, tokens: Tensor) -> Tensor:
        assert self._rows is not None and self._sources is not None
        if self._read is None:
            self._read = self._sources.gather(self._rows.source)
        self._states = [self._rows.state]
        return torch.cat([self._feed_one(self._read, column) for column in tokens.split(1, 1)], 1)

    @torch.no_grad()
    def commit(self, n: Union[int, Tensor], path: Optional[Tensor] = None) -> None:
        """Keep the first n tokens of the last step, the same number for all rows or ``[R]``.

        Args:
            path: must be ``None``.

        Raises:
            ValueError: for a path.
        """
        refuse_trees(path)
        if self._rows is None or not self._states:
            return
        if isinstance(n, int):
            self._rows.state = self._states[n]
        else:
            everyone = torch.arange(n.numel(), device=n.device)
            kept = torch.stack(self._states)[n, :, everyone]
            self._rows.state = kept.transpose(0, 1)
        self._states = []

    @torch.no_grad()
    def select(self, rows: Tensor) -> None:
        """Row i becomes what row ``rows[i]`` was; tokens that are not committed are lost.

        Args:
            rows: int64 ``[R']``; rows may be dropped, repeated and reordered.
        """
        if self._rows is None:
            return
        before = self._rows.source
        self._rows = self._rows.gather(rows)
        self._states = []
        if not torch.equal(self._rows.source, before):
            self._read = None

    @torch.no_grad()
    def pause(self, n_rows: int) -> None:
        """Let the first ``n_rows`` rows rest; see :meth:`DecoderSession.pause`.

        Raises:
            ValueError: if there are fewer rows.
        """
        n_resting = 0 if self._resting is None else self._resting.source.numel()
        if not 0 <= n_rows <= n_resting + self.n_rows:
            raise ValueError(f"pause({n_rows}): the session has {n_resting + self.n_rows} rows")
        if self._rows is None or n_rows == n_resting:
            return
        rows = self._rows if self._resting is None else self._resting.joined(self._rows)
        self._resting = _Rows(rows.source[:n_rows], rows.state[:, :n_rows])
        self._rows = _Rows(rows.source[n_rows:], rows.state[:, n_rows:])
        self._forget_step()

    def _forget_step(self) -> None:
        """Forget what was fed and not committed, and which sources the rows read."""
        self._states: List[Tensor] = []
        self._read: Optional[_Sources] = None

    def _first_state(self, hiddens: Tensor, cells: Tensor) -> Tensor:
        """The state before the first token, as fairseq's decoder takes it from the encoder's.

        Args:
            hiddens, cells: the encoder's last ones, ``[L, B, E]``.

        Returns:
            ``[2 L + 1, B, H]``, see :class:`_Rows`
        """
        decoder = self._decoder
        hiddens, cells = hiddens[: decoder.num_layers], cells[: decoder.num_layers]
        if decoder.encoder_hidden_proj is not None:
            hiddens, cells = decoder.encoder_hidden_proj(hiddens), decoder.encoder_cell_proj(cells)
        return torch.cat([hiddens, cells, torch.zeros_like(hiddens[:1])])

    def _sources_in_use(self) -> Optional[_Sources]:
        """The sources without those of rows that are gone; ``None`` if no row is left."""
        parts = [rows for rows in (self._resting, self._rows) if rows is not None]
        if self._sources is None or not any(rows.source.numel() for rows in parts):
            return None
        used = torch.cat([rows.source for rows in parts]).unique()
        place = used.new_zeros(self._sources.padding.size(1))
        place[used] = torch.arange(used.numel(), device=used.device)
        for rows in parts:
            rows.source = place[rows.source]
        return self._sources.gather(used)

    def _feed_one(self, read: _Sources, tokens: Tensor) -> Tensor:
        """Feed ``[R, 1]`` tokens behind the last state: log-probabilities ``[R, 1, V]``.

        Args:
            read: the source of each row.
        """
        decoder, state = self._decoder, self._states[-1]
        n = decoder.num_layers
        cached = {"prev_hiddens": state[:n], "prev_cells": state[n:-1], "input_feed": state[-1]}
        incremental: Dict[str, Dict[str, Optional[Tensor]]] = {}
        decoder.set_incremental_state(incremental, "cached_state", cached)
        # Where there is a state, the decoder does not look at what the encoder ended with.
        encoded = (read.outputs, state[:n], state[n:-1], read.padding)
        scores, *extra = decoder.forward(tokens, encoder_out=encoded, incremental_state=incremental)
        hiddens, cells, feed = decoder.get_cached_state(incremental)
        self._states.append(torch.stack([*hiddens, *cells, feed]))
        return self._log_probs(scores, extra)
