"""Drafts: guesses that fill the window until the model has answered (``--draft``)."""

from abc import ABC, abstractmethod
from typing import Any, Dict, List, Optional

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..options import DecodingOptions
from .batch import Batch
from .ngrams import ngram_pools

# No output holds this token, so an n-gram at the start of a sentence equals no other.
BEFORE_FIRST = -1


class DraftSource(ABC):
    """Guesses tokens. A wrong guess costs an iteration, never a different output."""

    def begin(self, batch: Batch) -> None:
        """Prepare for a new batch, in which every sentence still has a row."""

    @abstractmethod
    def fill(
        self, batch: Batch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        """Drafts of each row's next N tokens.

        Args:
            kept: int64 ``[R, N]``, the last iteration's answers for these positions, then PAD.
            n_kept: int64 ``[R]``, how many answers there are.
            certain: int64 ``[R]``, a token of each row that the batch has not been told of yet
                (default: there is none). Drafts are for the tokens behind it.

        Returns:
            int64 ``[R, N]``
        """

    def learn(self, batch: Batch, tokens: Tensor, n_new: Tensor) -> None:
        """Look at what has become certain: the first n_new ``[R]`` of each row's tokens ``[R, T]``.

        Where there is an EOS among them nobody reads what follows it.
        """


class PadDraft(DraftSource):
    """PAD, the paper's initialisation (section 3.3)."""

    def fill(
        self, batch: Batch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        return kept


class CopyDraft(DraftSource):
    """The source token at the same position."""

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self._symbols = SymbolMap(source, target)

    def begin(self, batch: Batch) -> None:
        self._source = self._symbols.sources(batch)

    def fill(
        self, batch: Batch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        offsets = torch.arange(kept.size(1), device=kept.device)
        positions = batch.lengths[:, None] + offsets + (certain is not None)
        rows = self._source[batch.sentence]
        copied = rows.gather(1, positions.clamp(max=rows.size(1) - 1))
        is_new = (offsets >= n_kept[:, None]) & (positions < rows.size(1))
        return torch.where(is_new, copied, kept)


class PreviousDraft(DraftSource):
    """The tokens before the window once more."""

    def __init__(self, pad: int) -> None:
        self._pad = pad

    def fill(
        self, batch: Batch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        is_new = torch.arange(kept.size(1), device=kept.device) >= n_kept[:, None]
        tail = batch.tail(kept.size(1), self._pad)
        if certain is not None and kept.size(1):
            tail = torch.cat([tail[:, 1:], certain[:, None]], dim=1)
        return torch.where(is_new, tail, kept)


class NgramDraft(DraftSource):
    """The tokens that followed the last ones when these came before, in the outputs so far."""

    def __init__(self, order: int, eos: int, across_sentences: bool, replace_answers: bool) -> None:
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
        self._pools = ngram_pools(order, eos)

    def begin(self, batch: Batch) -> None:
        if not self._across_sentences:
            self._pools.forget()
        self._open(batch, batch.tail(self._order - 1, BEFORE_FIRST))

    def _open(self, batch: Batch, contexts: Tensor) -> None:
        """Go on behind these last tokens of each row, int64 ``[R, order - 1]``."""
        own = torch.arange(batch.n_sentences)
        pools = torch.zeros_like(own) if self._across_sentences else own
        of_sentences = contexts
        if not contexts.size(0) == batch.n_sentences == 1:
            of_sentences = own.new_full((batch.n_sentences, self._order - 1), BEFORE_FIRST)
            of_sentences[batch.sentence.cpu()] = contexts.cpu()
        self._pools.open(of_sentences.cpu(), pools)

    def fill(
        self, batch: Batch, kept: Tensor, n_kept: Tensor, certain: Optional[Tensor] = None
    ) -> Tensor:
        if not kept.size(1):
            return kept
        n_fixed = torch.zeros_like(n_kept) if self._replace_answers else n_kept
        rows = (batch.sentence.cpu(), kept.cpu().contiguous(), n_fixed.cpu())
        return self._pools.guess(*rows)[0].to(kept.device)

    def learn(self, batch: Batch, tokens: Tensor, n_new: Tensor) -> None:
        self._learn(batch, tokens, n_new, remembers=True)

    def _learn(self, batch: Batch, tokens: Tensor, n_new: Tensor, remembers: bool) -> None:
        rows = (batch.sentence.cpu(), tokens.cpu().contiguous(), n_new.cpu())
        self._pools.learn(*rows, remembers)


class SourceDraft(NgramDraft):
    """The tokens behind the last ones in the source: for names, numbers and code that are kept."""

    def __init__(
        self, order: int, eos: int, source: Dictionary, target: Dictionary, replace_answers: bool
    ) -> None:
        super().__init__(order, eos, False, replace_answers)
        self._symbols = SymbolMap(source, target)

    def begin(self, batch: Batch) -> None:
        self._pools.forget()
        own = torch.arange(batch.n_sentences)
        before_first = own.new_full((batch.n_sentences, self._order - 1), BEFORE_FIRST)
        self._pools.open(before_first, own)
        sources = self._symbols.sources(batch).cpu()
        self._pools.learn(own, sources, batch.source_lengths.cpu())
        self._open(batch, batch.tail(self._order - 1, BEFORE_FIRST))

    def learn(self, batch: Batch, tokens: Tensor, n_new: Tensor) -> None:
        """Learn nothing: the pools hold the source, and no output."""
        self._learn(batch, tokens, n_new, remembers=False)


class SymbolMap:
    """Source tokens as target tokens, by their symbols; PAD for those that the target lacks."""

    def __init__(self, source: Dictionary, target: Dictionary) -> None:
        self._source_pad = source.pad()
        indices = torch.tensor([target.index(symbol) for symbol in source.symbols])
        self._table = indices.masked_fill(indices.eq(target.unk()), target.pad())

    @property
    def types(self) -> List[int]:
        """The target type of each source type."""
        return self._table.tolist()

    def sources(self, batch: Batch) -> Tensor:
        """The batch's sources in target tokens ``[B, S]``, padding on the right."""
        source = batch.sources.content
        content_first = source.eq(self._source_pad).long().argsort(dim=1, stable=True)
        self._table = self._table.to(source.device)
        return self._table[source.gather(1, content_first)]


def compiled_drafts(
    options: DecodingOptions,
    source: Optional[Dictionary],
    target: Dictionary,
    replaces_answers: bool,
) -> Dict[str, Any]:
    """The arguments of ``_engine.Drafts`` for ``--draft``; others as for :func:`draft_source`.

    Args:
        replaces_answers: see :class:`NgramDraft`.
    """
    drafts: Dict[str, Any] = {"kind": options.draft_name, "replaces_answers": replaces_answers}
    if options.draft_name in ("ngram", "source"):
        drafts["order"] = options.ngram_order
        drafts["across_sentences"] = (
            options.draft_name == "ngram" and str(options.ngram_pool) == "run"
        )
    if options.draft_name in ("copy", "source"):
        assert source is not None  # draft_source has refused others
        drafts["target_types"] = SymbolMap(source, target).types
    return drafts


def draft_source(
    options: DecodingOptions,
    source: Optional[Dictionary],
    target: Dictionary,
    eos: int,
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
        return NgramDraft(order, eos, str(options.ngram_pool) == "run", replace_answers)
    if name == "source":
        return SourceDraft(order, eos, source, target, replace_answers)
    return PadDraft()
