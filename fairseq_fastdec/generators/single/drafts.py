"""Drafts: guesses that fill the window until the model has answered (``--draft``)."""

from abc import ABC, abstractmethod
from typing import Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..options import DecodingOptions
from .batch import Batch
from .ngrams import NgramPool

# No output holds this token, so an n-gram at the start of a sentence equals no other.
BEFORE_FIRST = -1


class DraftSource(ABC):
    """Guesses tokens. A wrong guess costs an iteration, never a different output."""

    def begin(self, batch: Batch) -> None:
        """Prepare for a new batch, in which every sentence still has a row."""

    @abstractmethod
    def fill(self, batch: Batch, kept: Tensor, n_kept: Tensor) -> Tensor:
        """Drafts of each row's next N tokens.

        Args:
            kept: int64 ``[R, N]``, the last iteration's answers for these positions, then PAD.
            n_kept: int64 ``[R]``, how many answers there are.

        Returns:
            int64 ``[R, N]``
        """

    def learn(self, batch: Batch, n_new: Tensor) -> None:
        """Look at the n_new tokens ``[R]`` that were just appended to each row."""


class PadDraft(DraftSource):
    """PAD, the paper's initialisation (section 3.3)."""

    def fill(self, batch: Batch, kept: Tensor, n_kept: Tensor) -> Tensor:
        return kept


class CopyDraft(DraftSource):
    """The source token at the same position."""

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self._symbols = SymbolMap(source, target)

    def begin(self, batch: Batch) -> None:
        self._source = self._symbols.sources(batch)

    def fill(self, batch: Batch, kept: Tensor, n_kept: Tensor) -> Tensor:
        offsets = torch.arange(kept.size(1), device=kept.device)
        positions = batch.lengths[:, None] + offsets
        rows = self._source[batch.sentence]
        copied = rows.gather(1, positions.clamp(max=rows.size(1) - 1))
        is_new = (offsets >= n_kept[:, None]) & (positions < rows.size(1))
        return torch.where(is_new, copied, kept)


class PreviousDraft(DraftSource):
    """The tokens before the window once more."""

    def __init__(self, pad: int) -> None:
        self._pad = pad

    def fill(self, batch: Batch, kept: Tensor, n_kept: Tensor) -> Tensor:
        is_new = torch.arange(kept.size(1), device=kept.device) >= n_kept[:, None]
        return torch.where(is_new, batch.tail(kept.size(1), self._pad), kept)


class NgramDraft(DraftSource):
    """The tokens that followed the last ones when these came before, in the outputs so far."""

    def __init__(self, order: int, across_sentences: bool, replace_answers: bool) -> None:
        """
        Args:
            order: the longest n-gram; its first n - 1 tokens are looked up, then fewer and fewer.
            across_sentences: learn from all outputs of the run, not only from the sentence's own.
            replace_answers: look up every position, not only those without an answer. A token
                that followed before is right more often than an answer to a wrong token.
        """
        self._order = order
        self._across_sentences = across_sentences
        self._replace_answers = replace_answers
        self._shared = NgramPool(order)

    def begin(self, batch: Batch) -> None:
        if self._across_sentences:
            self._pools = [self._shared] * batch.n_sentences
        else:
            self._pools = [NgramPool(self._order) for _ in range(batch.n_sentences)]

    def fill(self, batch: Batch, kept: Tensor, n_kept: Tensor) -> Tensor:
        if kept.size(1) == 0:
            return kept
        contexts = batch.tail(self._order - 1, BEFORE_FIRST)
        n_fixed = torch.zeros_like(n_kept) if self._replace_answers else n_kept
        rows = zip(*(column.tolist() for column in (batch.sentence, contexts, kept, n_fixed)))
        drafts = [self._pools[sentence].continued(*row) for sentence, *row in rows]
        return torch.tensor(drafts, dtype=kept.dtype, device=kept.device)

    def learn(self, batch: Batch, n_new: Tensor) -> None:
        longest = int(n_new.max())
        if longest == 0:
            return
        tails = batch.tail(longest + self._order - 1, BEFORE_FIRST).tolist()
        for sentence, tail, n in zip(batch.sentence.tolist(), tails, n_new.tolist()):
            self._pools[sentence].learn(tail, n)


class SourceDraft(NgramDraft):
    """The tokens behind the last ones in the source: for names, numbers and code that are kept."""

    def __init__(
        self, order: int, source: Dictionary, target: Dictionary, replace_answers: bool
    ) -> None:
        super().__init__(order, False, replace_answers)
        self._symbols = SymbolMap(source, target)

    def begin(self, batch: Batch) -> None:
        super().begin(batch)
        for pool, row, length in zip(
            self._pools, self._symbols.sources(batch).tolist(), batch.source_lengths.tolist()
        ):
            pool.learn([BEFORE_FIRST] * (self._order - 1) + row[:length], length)

    def learn(self, batch: Batch, n_new: Tensor) -> None:
        """Learn nothing: the pools hold the source, and no output."""


class SymbolMap:
    """Source tokens as target tokens, by their symbols; PAD for those that the target lacks."""

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self._source_pad = source.pad()
        indices = torch.tensor([target.index(symbol) for symbol in source.symbols])
        self._table = indices.masked_fill(indices.eq(target.unk()), target.pad())

    def sources(self, batch: Batch) -> Tensor:
        """The batch's sources in target tokens ``[B, S]``, padding on the right."""
        source = batch.sample["net_input"]["src_tokens"]
        content_first = source.eq(self._source_pad).long().argsort(dim=1, stable=True)
        self._table = self._table.to(source.device)
        return self._table[source.gather(1, content_first)]


def draft_source(
    options: DecodingOptions,
    source: Optional[Dictionary],
    target: Dictionary,
    replace_answers: bool,
) -> DraftSource:
    """The drafts that ``--draft`` asks for; ``replace_answers``: see :class:`NgramDraft`.

    Args:
        source: ``None`` where sources are no tokens.

    Raises:
        ValueError: for drafts from such sources.
    """
    name, order = options.draft_name, options.ngram_order
    if name in ("copy", "source") and source is None:
        raise ValueError(
            f"--draft {name}: the model's sources are not tokens of a dictionary; use another draft"
        )
    if name == "copy":
        return CopyDraft(source, target)
    if name == "previous":
        return PreviousDraft(target.pad())
    if name == "ngram":
        return NgramDraft(order, str(options.ngram_pool) == "run", replace_answers)
    if name == "source":
        return SourceDraft(order, source, target, replace_answers)
    return PadDraft()
