"""Adds targets in the order of decoding to batches."""

from typing import Any, Optional

import torch
from fairseq.data import BaseWrapperDataset, Dictionary, LanguagePairDataset
from torch import Tensor

from .special_tokens import end_token, start_tokens
from .token_order import TokenOrder, fold, shifted

FOLDED = "folded_target"


class ReorderedDataset(BaseWrapperDataset):
    """A pair dataset whose batches also have targets in the order of decoding.

    ``target`` keeps the natural order, for printing and scoring. ``folded_target`` is for the
    criterion, ``net_input.prev_output_tokens`` is the matching decoder input, and ``ntokens``
    counts the folded tokens.
    """

    def __init__(
        self, dataset: LanguagePairDataset, order: TokenOrder, dictionary: Dictionary
    ) -> None:
        """
        Args:
            dataset: a dataset with targets that end in EOS and are padded on the right, or without
                targets. Its target sizes are replaced by those of the folded targets.
            dictionary: the target dictionary, with ``<eod>`` if the order needs it.
        """
        super().__init__(dataset)
        self.src, self.tgt = dataset.src, dataset.tgt
        self._order = order
        self._dictionary = dictionary
        if dataset.tgt_sizes is not None:
            dataset.tgt_sizes = order.folded_length(dataset.tgt_sizes - 1)

    def collater(
        self, samples: list[dict[str, Any]], pad_to_length: Optional[dict[str, int]] = None
    ) -> dict[str, Any]:
        """Collate a batch, and add the folded targets."""
        batch = self.dataset.collater(samples, pad_to_length)
        if batch.get("target") is None:
            return batch
        folded = self._folded(batch["target"])
        start = start_tokens(self._order, self._dictionary)
        batch[FOLDED] = folded
        batch["net_input"]["prev_output_tokens"] = shifted(folded, start, self._dictionary.pad())
        batch["ntokens"] = int(folded.ne(self._dictionary.pad()).sum())
        return batch

    def _folded(self, target: Tensor) -> Tensor:
        pad, eos = self._dictionary.pad(), self._dictionary.eos()
        lengths = target.ne(pad).sum(dim=1, keepdim=True)
        lengths -= target.gather(1, (lengths - 1).clamp(min=0)).eq(eos).long()
        beyond = torch.arange(target.size(1)) >= lengths
        content = target.masked_fill(beyond, pad)[:, : int(lengths.max())]
        end = end_token(self._order, self._dictionary)
        folded = fold(content, self._order, end, pad)
        multiple = self.dataset.pad_to_multiple
        return torch.nn.functional.pad(folded, (0, -folded.size(1) % multiple), value=pad)
