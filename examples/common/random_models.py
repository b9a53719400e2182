"""Writes checkpoints with random weights and data of random words in fairseq's formats."""

from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

import torch
from fairseq.data import Dictionary, indexed_dataset
from torch import Tensor, nn


def save_checkpoint(network: nn.Module, options: Namespace, path: Path, dtype: torch.dtype) -> None:
    """Write a checkpoint like fairseq-train before the first update.

    Args:
        network: converted to ``dtype`` in place.
        options: the options of the model and its task.
        dtype: the type of the parameters in the file.
    """
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 0}
    state = {
        "args": options,
        # Converting the whole network keeps shared parameters shared, so they are written once.
        "model": network.to(dtype).state_dict(),
        "optimizer_history": [history],
        "extra_state": {},
    }
    torch.save(state, path)


def random_sentences(dictionary: Dictionary, n_sentences: int, length: int) -> Tensor:
    """Sentences of random words: int32 ``[n_sentences, length]``, EOS at the end."""
    words = torch.randint(dictionary.nspecial, len(dictionary), (n_sentences, length - 1))
    ends = torch.full((n_sentences, 1), dictionary.eos())
    return torch.cat([words, ends], dim=1).int()


def write_side(
    data: Path, languages: tuple[str, str], language: str, dictionary: Dictionary,
    sentences: Iterable[Tensor], split: str = "test",
) -> None:  # fmt: skip
    """Write one language of a data set in the format of fairseq-preprocess.

    Args:
        languages: the source and the target language.
        sentences: int ``[m]`` each, with EOS.
        split: the name of the set.
    """
    prefix = data / f"{split}.{'-'.join(languages)}.{language}"
    builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", vocab_size=len(dictionary))
    for sentence in sentences:
        builder.add_item(sentence)
    builder.finalize(f"{prefix}.idx")
    dictionary.save(str(data / f"dict.{language}.txt"))
