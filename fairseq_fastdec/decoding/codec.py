"""Converts text to a model's tokens and back, like fairseq-interactive."""

import itertools
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..translating.long_words import speed_up_long_words
from ..translating.moses import skip_idle_work
from ..translating.results import Problem
from ..translating.vocabulary import (
    MOST_WORDS,
    detokenized,
    joined,
    not_tokenized,
    numbered,
    segmented,
)

logger = logging.getLogger(__name__)

# The mark of subwords, the name of the BPE that uses it, and the option for its file.
MARKS = {"@@": ("subword_nmt", "--bpe-codes"), "\u2581": ("sentencepiece", "--sentencepiece-model")}


class PlainText(NamedTuple):
    """Tokens as text.

    Attributes:
        text: the detokenised text.
        n_tokens: the number of tokens, without EOS.
    """

    text: str
    n_tokens: int


class TextCodec:
    """A tokeniser, a BPE and a task's dictionaries. Methods are thread-safe.

    Attributes:
        tokenizer, bpe, codes: see the arguments.
    """

    def __init__(
        self,
        task: Any,
        tokenizer: Any,
        bpe: Any,
        post_process: Optional[str] = None,
        codes: Optional[str] = None,
    ) -> None:
        """
        Args:
            tokenizer: an object with ``encode(str) -> str`` and ``decode(str) -> str``, or
                ``None``.
            bpe: likewise.
            post_process: fairseq's ``--post-process``.
            codes: the path of the BPE's file.
        """
        self._task = task
        self.tokenizer, self.bpe, self.codes = tokenizer, bpe, codes
        skip_idle_work(tokenizer)
        speed_up_long_words(bpe)
        self._post_process = post_process
        # Tokenisers may not be thread-safe.
        self._lock = threading.Lock()

    @classmethod
    def of_command_line(cls, cfg: Any, task: Any) -> "TextCodec":
        """Create a codec from fairseq-generate's configuration."""
        tokenizer, bpe = task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)
        return cls(task, tokenizer, bpe, cfg.common_eval.post_process)

    def encode(self, texts: Sequence[str]) -> list[Union[Tensor, Problem]]:
        """The tokens of texts, int64 ``[n]`` with EOS, as the task encodes them."""
        with self._lock:
            if not encodes_as_fairseq(self._task):
                return [self._tried(self._as_the_task_does, text) for text in texts]
            lines = [self._tried(self._numbers, text) for text in texts]
        tensors = iter(as_tensors([line for line in lines if isinstance(line, list)]))
        return [next(tensors) if isinstance(line, list) else line for line in lines]

    def draft(self, texts: Sequence[str]) -> Tensor:
        """The tokens of translations, each with EOS: int64 ``[D]``.

        Translations that the tokeniser rejects are skipped.
        """
        with self._lock:
            found = [self._tried(self._segmented, text) for text in texts]
        target, numbers = self._task.target_dictionary, list[int]()
        for subwords in found:
            if isinstance(subwords, str):
                numbers += numbers_of(target, subwords)
        return torch.tensor(numbers, dtype=torch.int64)

    def decode(self, hypotheses: Sequence[Tensor], stripped: set[int]) -> list[PlainText]:
        """The texts of hypotheses, each ``[m]``.

        Args:
            stripped: the tokens that are removed from outputs.
        """
        numbers = torch.cat(list(hypotheses)).tolist() if hypotheses else []
        ends = list(itertools.accumulate(len(tokens) for tokens in hypotheses))
        with self._lock:
            return [
                self._decoded(numbers[start:end], stripped) for start, end in zip([0, *ends], ends)
            ]

    def forget_words(self) -> None:
        """Clear the BPE's cache of words if it has become large."""
        seen = getattr(getattr(self.bpe, "bpe", None), "cache", None)
        if isinstance(seen, dict) and len(seen) > MOST_WORDS:
            with self._lock:
                seen.clear()

    def _decoded(self, numbers: list[int], stripped: set[int]) -> PlainText:
        kept = [number for number in numbers if number not in stripped]
        text = words(self._task.target_dictionary, kept, self._post_process)
        return PlainText(detokenized(text, (self.bpe, self.tokenizer)), len(kept))

    def _tried(self, encode: Callable[[str], Any], text: str) -> Any:
        try:
            return encode(text)
        except Exception as error:  # third-party tokenisers may raise anything
            return not_tokenized(error)

    def _as_the_task_does(self, text: str) -> Tensor:
        (tokens,), _ = self._task.get_interactive_tokens_and_lengths([text], self._segmented)
        return tokens

    def _numbers(self, text: str) -> list[int]:
        return numbers_of(self._task.source_dictionary, self._segmented(text))

    def _segmented(self, text: str) -> str:
        return segmented(text, (self.tokenizer, self.bpe))


def warn_of_subwords(cfg: Any, task: Any, data: str) -> None:
    """Warn if the dictionary has subwords that the command line does not join.

    Args:
        data: the directory of the dictionaries.
    """
    if task.build_bpe(cfg.bpe) is not None or cfg.common_eval.post_process is not None:
        return
    for mark, (name, option) in MARKS.items():
        subword = next((word for word in task.target_dictionary.symbols if mark in word), None)
        if subword is not None:
            codes = os.path.join(data, "bpe.codes")
            file = codes if name == "subword_nmt" and os.path.isfile(codes) else "FILE"
            logger.warning(
                "--bpe: not given, so subwords such as %s stay in the output; give --bpe %s %s %s, "
                "and --tokenizer if the model was trained with one; for input in subwords, give "
                "--post-process %s",
                subword, name, option, file, name,
            )  # fmt: skip


def subword_in(dictionary: Dictionary) -> Optional[str]:
    """A symbol of a dictionary with the mark of a subword; ``None`` if there is none."""
    return next((word for word in dictionary.symbols if any(mark in word for mark in MARKS)), None)


def encodes_as_fairseq(task: Any) -> bool:
    """Return True if the task and its dictionary encode like fairseq's base classes."""
    return (
        type(task).get_interactive_tokens_and_lengths
        is FairseqTask.get_interactive_tokens_and_lengths
        and looks_up_as_fairseq(task.source_dictionary)
    )


def looks_up_as_fairseq(dictionary: Any) -> bool:
    """Return True if :func:`numbers_of` is equivalent to the dictionary's ``encode_line``."""
    kind = type(dictionary)
    return (
        issubclass(kind, Dictionary)
        and kind.encode_line is Dictionary.encode_line
        and kind.index is Dictionary.index
    )


def numbers_of(dictionary: Dictionary, text: str) -> list[int]:
    """A faster ``dictionary.encode_line(text)``, which would fill a tensor element by element."""
    return numbered(dictionary.indices, dictionary.unk_index, dictionary.eos_index, text)


def as_tensors(lines: Sequence[Sequence[int]]) -> Sequence[Tensor]:
    """Convert lists to int64 tensors: views of one tensor, to save calls of torch."""
    whole = np.fromiter(itertools.chain.from_iterable(lines), np.int64)
    return torch.from_numpy(whole).split([len(line) for line in lines])


def words(dictionary: Dictionary, numbers: list[int], post_process: Optional[str]) -> str:
    """A faster ``dictionary.string(numbers, post_process)``, with fewer calls per word."""
    kind = type(dictionary)
    if kind.string is not Dictionary.string or kind.__getitem__ is not Dictionary.__getitem__:
        return dictionary.string(numbers, post_process)
    ends = (dictionary.eos_index, dictionary.bos_index)
    text = joined(dictionary.symbols, dictionary.unk_word, ends, numbers)
    return data_utils.post_process(text, post_process)
