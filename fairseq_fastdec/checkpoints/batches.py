"""Batches of sentences of similar lengths, like those of fairseq but created faster."""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.data import LanguagePairDataset
from torch import Tensor


def batches_of(
    task: Any,
    tokens: Sequence[Tensor],
    data: Any,
    max_positions: Any,
    seed: int,
    leaves_out_long: bool = True,
) -> Any:
    """The batches that a task makes of sentences.

    Args:
        tokens: the tokens of each sentence, int64 ``[n]`` with EOS; at least one sentence.
        data: the group ``dataset`` of fairseq's configuration.
        max_positions: from :func:`max_positions_of`.
        leaves_out_long: whether longer sentences are left out; otherwise they raise an error.
    """
    dataset = task.build_dataset_for_inference(tokens, [len(line) for line in tokens])
    if is_collated_as_sources(dataset):
        dataset.collater = functools.partial(sources_as_batch, dataset)
    batches = task.get_batch_iterator(
        dataset,
        max_tokens=data.max_tokens,
        max_sentences=data.batch_size,
        max_positions=max_positions,
        ignore_invalid_inputs=leaves_out_long,
        required_batch_size_multiple=data.required_batch_size_multiple,
        seed=seed,
        disable_iterator_cache=True,
    )
    return batches.next_epoch_itr(shuffle=False)


def max_positions_of(task: Any, models: Iterable[Any]) -> Any:
    """The limits of a task and its models, as fairseq combines them."""
    limits = (model.max_positions() for model in models)
    return utils.resolve_max_positions(task.max_positions(), *limits)


class DirectBatches:
    """A task's batches without fairseq's data loader.

    Starting the loader takes longer than decoding a sentence with a small model.

    Attributes:
        is_possible: whether the task's datasets are supported, see :func:`is_collated_as_sources`,
            and keep the tokens unchanged.
    """

    def __init__(self, task: Any, tokens: Tensor) -> None:
        """
        Args:
            tokens: any sentence, int64 ``[n]`` with EOS, for a trial dataset.
        """
        self._task = task
        dataset = task.build_dataset_for_inference([tokens], [len(tokens)])
        self.is_possible = is_collated_as_sources(dataset) and torch.equal(
            dataset[0]["source"], tokens
        )
        self._pad = task.source_dictionary.pad() if self.is_possible else None
        # Shared by all batches, since it is never modified.
        self._first = torch.zeros(1, dtype=torch.int64)

    def single(self, tokens: Tensor) -> dict[str, Any]:
        """The batch of one sentence, int64 ``[n]`` with EOS."""
        n = len(tokens)
        # A text can contain the padding symbol, which fairseq does not count.
        n_words = n - tokens.tolist().count(self._pad)
        return {
            "id": self._first,
            "nsentences": 1,
            "ntokens": n_words,
            "net_input": {"src_tokens": tokens[None], "src_lengths": torch.tensor([n_words])},
            "target": None,
        }

    def several(
        self,
        tokens: Sequence[Tensor],
        max_tokens: Optional[int],
        max_sentences: Optional[int],
        longest: Optional[float] = None,
    ) -> Iterator[dict[str, Any]]:
        """Batches of sentences, shortest first, as fairseq's options limit them.

        Args:
            longest: sentences with more tokens, including EOS, are skipped.
        """
        dataset = self._task.build_dataset_for_inference(tokens, [len(line) for line in tokens])
        sizes = dataset.src_sizes
        order = np.argsort(sizes, kind="stable")
        if longest is not None:
            order = order[sizes[order] <= longest]
        for batch in dataset.batch_by_size(order, max_tokens, max_sentences):
            yield sources_as_batch(dataset, [dataset[number] for number in batch])


def sources_as_batch(
    dataset: LanguagePairDataset,
    samples: Sequence[dict[str, Any]],
    pad_to_length: Optional[dict[str, int]] = None,
) -> dict[str, Any]:
    """``LanguagePairDataset.collater`` for sentences without targets.

    fairseq calls torch several times per sentence; this function calls it for all at once.
    """
    if not samples:
        return {}
    sources = [sample["source"] for sample in samples]
    sizes = torch.tensor([len(source) for source in sources])
    width = max(int(sizes.max()), (pad_to_length or {}).get("source", 0))
    places, pad = torch.arange(width), dataset.src_dict.pad()
    if dataset.left_pad_source:
        places = width - 1 - places
    tokens = sources[0].new_full((len(sources), width), pad)
    tokens[places < sizes[:, None]] = torch.cat(sources)
    lengths, order = tokens.ne(pad).sum(dim=1).sort(descending=True)
    return {
        "id": torch.tensor([sample["id"] for sample in samples])[order],
        "nsentences": len(samples),
        "ntokens": lengths.sum().item(),
        "net_input": {"src_tokens": tokens[order], "src_lengths": lengths},
        "target": None,
    }


def is_collated_as_sources(dataset: Any) -> bool:
    """Return True for fairseq's ``LanguagePairDataset`` with nothing but sources."""
    return (
        type(dataset) is LanguagePairDataset
        and dataset.tgt is None
        and dataset.align_dataset is None
        and dataset.constraints is None
        and dataset.src_lang_id is None
        and dataset.tgt_lang_id is None
        and dataset.pad_to_multiple == 1
    )
