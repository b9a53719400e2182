"""The models and batches of a row, on a device."""

import copy
import functools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from fairseq import utils
from fairseq.data import Dictionary
from torch import nn

import fairseq_fastdec
from benchmarks.compare.fairseq_runner import DTYPES
from benchmarks.profile_engine.command import random_dictionary, random_model, translation
from examples.common.en_de import EN_DE, MODEL
from examples.common.random_models import random_sentences
from examples.engine.base import HEADS as KINDS_OF_HEADS
from examples.engine.base import say_one_word
from fairseq_fastdec.checkpoints.batches import DirectBatches
from fairseq_fastdec.checkpoints.codec import as_tensors
from fairseq_fastdec.tasks.translation_double_token import (
    TranslationDoubleTokenConfig,
    TranslationDoubleTokenTask,
)

from .rows import BUNDLED, HEADS, ONE_WORD, PAIRS, Row, Scale, Size, sentences_of

BLOCK_SIZE = 8
HEADS_OPTIONS = {"block_size": BLOCK_SIZE, **KINDS_OF_HEADS["split"]}


class Prepared(NamedTuple):
    """The input of a search.

    Attributes:
        models: the ensemble.
        dictionary: the target dictionary.
        batches: fairseq's.
        limits: of the lengths of outputs, by fairseq's names.
    """

    models: list[nn.Module]
    dictionary: Dictionary
    batches: list[dict[str, Any]]
    limits: dict[str, int]


class Models:
    """The models of one row after another.

    Those of the latest model and precision stay on the device, and random ones also on the CPU.
    """

    def __init__(self, scale: Scale, device: str) -> None:
        self._scale, self._device = scale, device
        self._of: tuple[str, str] = ("", "")
        self._kept: dict[str, Prepared] = {}
        self._random: dict[tuple[str, str], tuple[nn.Module, Dictionary]] = {}

    def reference(self, row: Row, kind: str) -> Prepared:
        """For fairseq's search, which has no pairs: the model with heads takes as long."""
        return self.prepared(row, HEADS if kind == PAIRS else kind)

    def prepared(self, row: Row, kind: str) -> Prepared:
        """The models of a kind, with the batches of the row."""
        if self._of != row[:2]:
            self._of, self._kept = (row.model, row.precision), {}
        if kind not in self._kept:
            self._kept[kind] = self._load(row, kind)
        kept = self._kept[kind]
        sentences = self._sentences(row, kept.dictionary)
        return kept._replace(batches=[self._moved(batch) for batch in sentences])

    def _load(self, row: Row, kind: str) -> Prepared:
        if row.model == BUNDLED:
            translator = bundled()
            models, dictionary = translator.models, translator.task.target_dictionary
            limits = dict(self._scale.text_limits)
        else:
            size = self._scale.sizes[row.model]
            if (row.model, kind) not in self._random:
                self._random[row.model, kind] = random_network(size, kind)
            model, dictionary = self._random[row.model, kind]
            models, length = [model] * size.n_members, self._scale.target_length - 1
            # All outputs have the same length: those of random weights would not end.
            limits = {"min_len": length, "max_len_a": 0, "max_len_b": length}
        dtype = DTYPES[row.precision]
        # Members have the same weights, and memory of their own.
        own = [copy.deepcopy(model).to(self._device, dtype) for model in models]
        return Prepared(own, dictionary, [], limits)

    def _sentences(self, row: Row, dictionary: Dictionary) -> Iterable[dict[str, Any]]:
        n_sentences = sentences_of(row, self._scale)
        if row.model == BUNDLED:
            return text_batches(n_sentences, row.batch)
        return random_batches(dictionary, n_sentences, self._scale.source_length, row.batch)

    def _moved(self, batch: dict[str, Any]) -> dict[str, Any]:
        return utils.apply_to_sample(lambda tensor: tensor.to(self._device), batch)


@functools.cache
def bundled() -> Any:
    """The bundled model on the CPU, with its task and codec."""
    return fairseq_fastdec.load(MODEL)


def text_batches(n_sentences: int, batch_size: int) -> Iterator[dict[str, Any]]:
    """Batches of the test set's first sentences for the bundled model."""
    translator = bundled()
    lines = (EN_DE / "data" / "test.en").read_text(encoding="utf-8").splitlines()[:n_sentences]
    tokens = as_tensors(list(map(translator.codec.encode, lines)))
    return DirectBatches(translator.task, tokens[0]).several(tokens, None, batch_size)


def random_batches(
    dictionary: Dictionary, n_sentences: int, length: int, batch_size: int
) -> list[dict[str, Any]]:
    """Batches of random sentences without padding."""
    torch.manual_seed(1)
    tokens = random_sentences(dictionary, n_sentences, length).long()
    return [
        {"net_input": {"src_tokens": part, "src_lengths": part.ne(dictionary.pad()).sum(1)}}
        for part in tokens.split(batch_size)
    ]


def random_network(size: Size, kind: str) -> tuple[nn.Module, Dictionary]:
    """A model with random weights on the CPU, and its dictionary."""
    dictionary = random_dictionary(size.n_types)
    torch.manual_seed(1)
    if kind == PAIRS:
        task = of_pairs(dictionary)
        return random_model("double_token_transformer", task, **size.options), dictionary
    options = {**size.options, **HEADS_OPTIONS}
    model = random_model("blockwise_transformer", translation(dictionary), **options)
    if kind == ONE_WORD:
        say_one_word(model)
    return model, dictionary


def of_pairs(dictionary: Dictionary) -> TranslationDoubleTokenTask:
    """The task of models of two tokens per step."""
    return TranslationDoubleTokenTask(TranslationDoubleTokenConfig(), dictionary, dictionary)
