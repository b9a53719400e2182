"""Faster replacements, with equal results, for functions that fairseq calls around decoding.

fairseq's commands look up each token as a tensor, and write tokens into tensors one by one. They
read their configuration for every line, which omegaconf checks each time. Together this takes as
long as fast decoding itself.
"""

import itertools
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor

from ..data.text import input_text
from ..translating.text import numbers_of, words_of
from .wrapping import wrap

# The functions of fairseq's commands that read their configuration for every line.
LOOPS = {"fairseq_cli.generate": "_main", "fairseq_cli.interactive": "main"}
INTERACTIVE = "fairseq_cli.interactive"
# The groups of the configuration that they read.
GROUPS = ("common_eval", "generation")


def install() -> None:
    """Replace the functions, including those of fairseq's commands that are already imported."""
    wrap(Dictionary, "string", _by_look_up)
    wrap(Dictionary, "encode_line", _at_once)
    for name, loop in LOOPS.items():
        # A module in the middle of its import has no loop yet.
        if hasattr(sys.modules.get(name), loop):
            wrap(sys.modules[name], loop, _with_plain_groups)
    if hasattr(sys.modules.get(INTERACTIVE), "buffered_read"):
        wrap(sys.modules[INTERACTIVE], "buffered_read", _read_in_utf8)


def _by_look_up(
    string: Callable,
    dictionary: Dictionary,
    tensor: Any,
    bpe_symbol: Optional[str] = None,
    escape_unk: bool = False,
    extra_symbols_to_ignore: Optional[Iterable[int]] = None,
    unk_string: Optional[str] = None,
    include_eos: bool = False,
    separator: str = " ",
) -> str:
    """``Dictionary.string`` for tensors ``[n]``, with one list look-up per token."""
    known = (Dictionary.__getitem__, Dictionary.unk_string)
    kind = type(dictionary)
    is_simple = isinstance(tensor, Tensor) and tensor.dim() == 1
    if not is_simple or (kind.__getitem__, kind.unk_string) != known:
        return string(
            dictionary, tensor, bpe_symbol, escape_unk, extra_symbols_to_ignore, unk_string,
            include_eos, separator,
        )  # fmt: skip
    ignored = {*(extra_symbols_to_ignore or ()), dictionary.bos()}
    if not include_eos:
        ignored.add(dictionary.eos())
    if unk_string is None:
        unk_string = dictionary.unk_string(escape_unk)
    words = words_of(dictionary, tensor.tolist(), ignored, unk_string)
    return data_utils.post_process(separator.join(words), bpe_symbol)


def _at_once(
    encode_line: Callable,
    dictionary: Dictionary,
    line: str,
    line_tokenizer: Optional[Callable] = None,
    add_if_not_exist: bool = True,
    consumer: Optional[Callable[[str, int], Any]] = None,
    append_eos: bool = True,
    reverse_order: bool = False,
) -> Tensor:
    """``Dictionary.encode_line`` that creates its tensor, int32 ``[n]``, from a list."""
    if line_tokenizer is None:
        # The default tokeniser is not accessible by name in all versions of fairseq.
        line_tokenizer, *_ = encode_line.__defaults__ or ()
    if add_if_not_exist or type(dictionary).index is not Dictionary.index:
        given = (add_if_not_exist, consumer, append_eos, reverse_order)
        return encode_line(dictionary, line, line_tokenizer, *given)
    words = line_tokenizer(line)
    if reverse_order:
        words = words[::-1]
    numbers = numbers_of(dictionary, words)
    if consumer is not None:
        for word, number in zip(words, numbers):
            consumer(word, number)
    return torch.tensor(numbers if append_eos else numbers[:-1], dtype=torch.int32)


def _read_in_utf8(_: Callable, path: str, buffer_size: int) -> Iterator[list[str]]:
    """fairseq's reader of ``--input``, without a byte order mark, and not in the locale's encoding.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not UTF-8, or standard input is closed.
    """
    with input_text(path, newline=None) as file:
        lines = (line.strip() for line in file)
        while buffer := list(itertools.islice(lines, buffer_size)):
            yield buffer


def _with_plain_groups(loop: Callable, cfg: Any, *args: Any) -> Any:
    # fairseq converts a Namespace later.
    return loop(cfg if isinstance(cfg, Namespace) else _Config(cfg), *args)


class _Config:
    """fairseq's configuration, with the groups of :data:`GROUPS` as plain objects."""

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg
        for name in GROUPS:
            group = cfg[name]
            plain = Namespace(**{option: group[option] for option in group})
            plain._get_parent = lambda: cfg
            setattr(self, name, plain)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cfg, name)

    def __str__(self) -> str:
        return str(self._cfg)
