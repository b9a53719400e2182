"""Transformer base with random weights, and sentences of random words for it.

If all outputs have the same length, the time of decoding depends only on the size of a model and
the number of tokens, not on its weights.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from torch import nn

from benchmarks.profile_engine.command import arguments_of, random_dictionary, random_model

from .random_models import random_sentences, save_checkpoint, write_side

TYPES = 37000
# Tokens with EOS.
SOURCE_LENGTH, TARGET_LENGTH = 20, 31
N_SENTENCES = 256
# Every output has TARGET_LENGTH tokens.
FORCED = [
    "--min-len", str(TARGET_LENGTH - 1), "--max-len-a", "0", "--max-len-b", str(TARGET_LENGTH - 1),
]  # fmt: skip


def write_sentences(data: Path, languages: tuple[str, str], n_types: int = TYPES) -> None:
    """Write a test set in the format of fairseq-preprocess."""
    torch.manual_seed(1)
    dictionary = random_dictionary(n_types)
    data.mkdir(exist_ok=True)
    for language, length in zip(languages, (SOURCE_LENGTH, TARGET_LENGTH)):
        sentences = random_sentences(dictionary, N_SENTENCES, length)
        write_side(data, languages, language, dictionary, sentences)


def save_base(
    path: Path, languages: tuple[str, str], seed: int, arch: str = "transformer",
    change: Callable[[nn.Module], None] = lambda network: None, n_types: int = TYPES,
    task: str = "translation", **given: Any,
) -> None:  # fmt: skip
    """Write a checkpoint of transformer base, or of another architecture.

    Args:
        seed: the seed of the random weights.
        arch: the architecture's name.
        change: applied to the random network before it is saved.
        n_types: those of the task's dictionary.
        task: the name of the task, which has its default options.
        given: options of the architecture.
    """
    dictionary = random_dictionary(n_types)
    built = TASK_REGISTRY[task](TASK_DATACLASS_REGISTRY[task](), dictionary, dictionary)
    torch.manual_seed(seed)
    network = random_model(arch, built, **given)
    change(network)
    source, target = languages
    options = arguments_of(
        arch, task=task, source_lang=source, target_lang=target, data=None,
        share_all_embeddings=True, criterion="cross_entropy", optimizer="adam", **given,
    )  # fmt: skip
    save_checkpoint(network, options, path, torch.float32)
