"""From text to a model's tokens and back, as fairseq-interactive does it."""

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

from ..results import Problem
from .moses import skip_idle_work
from .vocabulary import MOST_WORDS, joined, numbered

logger = logging.getLogger(__name__)

# By the mark of its subwords, how each BPE joins them: its name, and the option of its file.
MARKS = {"@@": ("subword_nmt", "--bpe-codes"), "\u2581": ("sentencepiece", "--sentencepiece-model")}


class PlainText(NamedTuple):
    """Tokens as text.

    Attributes:
        text: for people: subwords joined, detokenised.
        n_tokens: subwords, without EOS.
    """

    text: str
    n_tokens: int


class TextCodec:
    """A tokeniser, a BPE and a task's dictionaries. Any number of threads may call it.

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
            tokenizer: with ``encode(str) -> str`` and ``decode(str) -> str``, or ``None``.
            bpe: likewise.
            post_process: fairseq's ``--post-process``.
            codes: the BPE's file.
        """
        self._task = task
        self.tokenizer, self.bpe, self.codes = tokenizer, bpe, codes
        skip_idle_work(tokenizer)
        self._post_process = post_process
        # Programs for tokenising need not stand calls from several threads.
        self._lock = threading.Lock()

    @classmethod
    def of_command_line(cls, cfg: Any, task: Any) -> "TextCodec":
        """The codec of fairseq-generate's configuration."""
        tokenizer, bpe = task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)
        return cls(task, tokenizer, bpe, cfg.common_eval.post_process)

    def encode(self, texts: Sequence[str]) -> list[Union[Tensor, Problem]]:
        """The tokens of lines, int64 ``[n]`` with EOS, as the task makes them."""
        with self._lock:
            if not encodes_as_fairseq(self._task):
                return [self._tried(self._as_the_task_does, text) for text in texts]
            lines = [self._tried(self._numbers, text) for text in texts]
        tensors = iter(as_tensors([line for line in lines if isinstance(line, list)]))
        return [next(tensors) if isinstance(line, list) else line for line in lines]

    def draft(self, texts: Sequence[str]) -> Tensor:
        """The tokens of translations, each with EOS: int64 ``[D]``.

        Those that the tokeniser does not take are left out.
        """
        with self._lock:
            found = [self._tried(self._segmented, text) for text in texts]
        target, numbers = self._task.target_dictionary, list[int]()
        for own in found:
            if isinstance(own, str):
                numbers += numbers_of(target, own)
        return torch.tensor(numbers, dtype=torch.int64)

    def decode(self, hypotheses: Sequence[Tensor], stripped: set[int]) -> list[PlainText]:
        """Text of tokens, each ``[m]``.

        Args:
            stripped: the tokens that the generator has left out of its output.
        """
        numbers = torch.cat(list(hypotheses)).tolist() if hypotheses else []
        ends = list(itertools.accumulate(len(tokens) for tokens in hypotheses))
        with self._lock:
            return [
                self._decoded(numbers[start:end], stripped) for start, end in zip([0, *ends], ends)
            ]

    def forget_words(self) -> None:
        """Forget the words that the BPE has seen, where these are many; it segments them anew."""
        seen = getattr(getattr(self.bpe, "bpe", None), "cache", None)
        if isinstance(seen, dict) and len(seen) > MOST_WORDS:
            with self._lock:
                seen.clear()

    def _decoded(self, numbers: list[int], stripped: set[int]) -> PlainText:
        kept = [number for number in numbers if number not in stripped]
        text = words(self._task.target_dictionary, kept, self._post_process)
        for decoder in (self.bpe, self.tokenizer):
            if decoder is not None:
                text = decoder.decode(text)
        return PlainText(text, len(kept))

    def _tried(self, encode: Callable[[str], Any], text: str) -> Any:
        try:
            return encode(text)
        except Exception as error:  # a tokeniser of others may raise anything
            return Problem(
                "not tokenised", f"the tokeniser or BPE says {type(error).__name__}: {error}"
            )

    def _as_the_task_does(self, text: str) -> Tensor:
        (tokens,), _ = self._task.get_interactive_tokens_and_lengths([text], self._segmented)
        return tokens

    def _numbers(self, text: str) -> list[int]:
        return numbers_of(self._task.source_dictionary, self._segmented(text))

    def _segmented(self, text: str) -> str:
        for encoder in (self.tokenizer, self.bpe):
            if encoder is not None:
                text = encoder.encode(text)
        return text


def warn_of_subwords(cfg: Any, task: Any, data: str) -> None:
    """Warn if the command line joins no subwords, and the dictionary has them.

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
    """A word of a dictionary that is part of a word, by its mark; ``None`` if there is none."""
    return next((word for word in dictionary.symbols if any(mark in word for mark in MARKS)), None)


def encodes_as_fairseq(task: Any) -> bool:
    """Whether the task and its dictionary look words up as fairseq's base classes do."""
    return (
        type(task).get_interactive_tokens_and_lengths
        is FairseqTask.get_interactive_tokens_and_lengths
        and looks_up_as_fairseq(task.source_dictionary)
    )


def looks_up_as_fairseq(dictionary: Any) -> bool:
    """Whether :func:`numbers_of` gives what the dictionary's own ``encode_line`` gives."""
    kind = type(dictionary)
    return (
        issubclass(kind, Dictionary)
        and kind.encode_line is Dictionary.encode_line
        and kind.index is Dictionary.index
    )


def numbers_of(dictionary: Dictionary, text: str) -> list[int]:
    """``dictionary.encode_line(text)``, which writes each number into a tensor by itself."""
    return numbered(dictionary.indices, dictionary.unk_index, dictionary.eos_index, text)


def as_tensors(lines: Sequence[Sequence[int]]) -> Sequence[Tensor]:
    """Numbers as tensors, int64: parts of one, since each call of torch takes its time."""
    whole = np.fromiter(itertools.chain.from_iterable(lines), np.int64)
    return torch.from_numpy(whole).split([len(line) for line in lines])


def words(dictionary: Dictionary, numbers: list[int], post_process: Optional[str]) -> str:
    """``dictionary.string(numbers, post_process)``, which asks several functions for each word."""
    kind = type(dictionary)
    if kind.string is not Dictionary.string or kind.__getitem__ is not Dictionary.__getitem__:
        return dictionary.string(numbers, post_process)
    ends = (dictionary.eos_index, dictionary.bos_index)
    text = joined(dictionary.symbols, dictionary.unk_word, ends, numbers)
    return data_utils.post_process(text, post_process)
