"""Scores of given translations by fairseq's own scorer, for models that torch decodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from fairseq import utils
from fairseq.data import LanguagePairDataset
from fairseq.sequence_scorer import SequenceScorer

from ..engine.searches import Output
from ..fairseq_patches.mapped_checkpoints import read_weights
from .task_start import Start
from .whole_batches import output_of


class PairToScore(NamedTuple):
    """A sentence and its translation.

    Attributes:
        source: the tokens of the sentence, with EOS.
        start: what the task adds.
        target: the tokens of the translation, without EOS.
    """

    source: list[int]
    start: Start
    target: list[int]


def scores_in_torch(
    models: Sequence[Any],
    dictionaries: tuple[Any, Any],
    pairs: Mapping[int, PairToScore],
    batch_size: Optional[int],
    max_tokens: Optional[int],
    device: torch.device,
) -> Iterator[tuple[int, Output]]:
    """Yield the keys of pairs with their targets as hypotheses.

    Args:
        models: the ensemble, on ``device``.
        dictionaries: of the source and the target.
        pairs: at least one.
        batch_size, max_tokens: the sentences and tokens that are scored at once.
    """
    eos, keys = dictionaries[1].eos(), list(pairs)
    starts = [pair.start for pair in pairs.values()]
    bos = torch.tensor([eos if start.bos is None else start.bos for start in starts])
    sources = [torch.as_tensor(start.source) for start in starts]
    targets = [torch.tensor([*own.start.prefix, *own.target, eos]) for own in pairs.values()]
    sizes = [np.array([len(line) for line in lines]) for lines in (sources, targets)]
    dataset = LanguagePairDataset(
        sources, sizes[0], dictionaries[0], targets, sizes[1], dictionaries[1], shuffle=False
    )
    read_weights(models)
    scorer = SequenceScorer(dictionaries[1])
    for numbers in dataset.batch_by_size(dataset.ordered_indices(), max_tokens, batch_size):
        batch = dataset.collater([dataset[number] for number in numbers])
        batch["net_input"]["prev_output_tokens"][:, 0] = bos[batch["id"]]
        if device.type != "cpu":
            batch = utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
        for number, (found,) in zip(batch["id"].tolist(), scorer.generate(models, batch)):
            yield keys[number], output_of(found)
