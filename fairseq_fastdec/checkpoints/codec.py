"""The text of a fairseq task as its tokens, like fairseq-interactive."""

import itertools
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..translating.text import TextCodec

# The marks of subwords.
MARKS = ("@@", "\u2581")


class TaskCodec(TextCodec):
    """The codec of a task; tasks and dictionaries with methods of their own are asked.

    Attributes:
        codes, target_codes: see the arguments.
    """

    def __init__(
        self,
        task: Any,
        tokenizer: Any,
        bpe: Any,
        codes: Optional[str] = None,
        target_bpe: Any = None,
        target_codes: Optional[str] = None,
    ) -> None:
        """
        Args:
            tokenizer, bpe: see :class:`TextCodec`.
            codes: the path of the BPE's file.
            target_bpe, target_codes: likewise, if the target language has a BPE of its own.
        """
        dictionaries = (task.source_dictionary, task.target_dictionary)
        of_target = None if target_bpe is None else (tokenizer, target_bpe)
        super().__init__(*dictionaries, (tokenizer, bpe), of_target)
        self._own_task = None if encodes_as_fairseq(task) else task
        self.codes, self.target_codes = codes, target_codes

    def source_numbers(self, text: str) -> list[int]:
        if self._own_task is None:
            return super().source_numbers(text)
        given = ([text], self.segmented)
        (tokens,), _ = self._own_task.get_interactive_tokens_and_lengths(*given)
        return tokens.tolist()

    def words(self, dictionary: Any, numbers: Sequence[int]) -> str:
        kind = type(dictionary)
        if kind.string is not Dictionary.string or kind.__getitem__ is not Dictionary.__getitem__:
            return dictionary.string(numbers)
        return super().words(dictionary, numbers)


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


def as_tensors(lines: Sequence[Sequence[int]]) -> Sequence[Tensor]:
    """Convert lists to int64 tensors: views of one tensor, to save calls of torch."""
    whole = np.fromiter(itertools.chain.from_iterable(lines), np.int64)
    return torch.from_numpy(whole).split([len(line) for line in lines])
