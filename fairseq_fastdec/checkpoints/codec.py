"""The text of a fairseq task as its tokens, like fairseq-interactive."""

import itertools
import logging
import os
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from fairseq.tasks import FairseqTask
from torch import Tensor

from ..translating.text import TextCodec

logger = logging.getLogger(__name__)

# The mark of subwords, the name of the BPE that uses it, and the option for its file.
MARKS = {"@@": ("subword_nmt", "--bpe-codes"), "\u2581": ("sentencepiece", "--sentencepiece-model")}


class PostProcess(NamedTuple):
    """fairseq's ``--post-process`` as a coder."""

    symbol: str

    def encode(self, text: str) -> str:
        """The text itself."""
        return text

    def decode(self, text: str) -> str:
        """Words of subwords."""
        return data_utils.post_process(text, self.symbol)


class TaskCodec(TextCodec):
    """The codec of a task; tasks and dictionaries with methods of their own are asked.

    Attributes:
        codes: see the argument.
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
            tokenizer, bpe: see :class:`TextCodec`.
            post_process: fairseq's ``--post-process``.
            codes: the path of the BPE's file.
        """
        joins = None if post_process is None else PostProcess(post_process)
        super().__init__(task.source_dictionary, task.target_dictionary, (tokenizer, bpe, joins))
        self._own_task = None if encodes_as_fairseq(task) else task
        self.codes = codes

    @classmethod
    def of_command_line(cls, cfg: Any, task: Any) -> "TaskCodec":
        """Create a codec from fairseq-generate's configuration."""
        tokenizer, bpe = task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe)
        return cls(task, tokenizer, bpe, cfg.common_eval.post_process)

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


def as_tensors(lines: Sequence[Sequence[int]]) -> Sequence[Tensor]:
    """Convert lists to int64 tensors: views of one tensor, to save calls of torch."""
    whole = np.fromiter(itertools.chain.from_iterable(lines), np.int64)
    return torch.from_numpy(whole).split([len(line) for line in lines])
