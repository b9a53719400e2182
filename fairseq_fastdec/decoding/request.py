"""A batch on its way into a method: sources, prefixes, drafts, and the checks of their tokens.

fairseq's batches store sources under one of three names, as in its ``SequenceGenerator``:
``src_tokens`` for text, and for speech with ``src_lengths``; ``source`` and ``features`` for audio
models with a padding mask.

Tokens that are not in a dictionary would index memory beyond the embedding. torch reports this only
on some devices, much later, and without naming the input that contains the token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.token_generation_constraints import unpack_constraints
from torch import Tensor

from ..engine.searches import Phrases
from .constraints import prefix_lengths

NAMES = ("src_tokens", "source", "features")
BINARISED = (
    "the data were binarised with another dictionary: binarise them with those of the model "
    "(fairseq-preprocess --srcdict, --tgtdict)"
)


class Sources(NamedTuple):
    """The sources of a batch.

    Attributes:
        content: int64 ``[B, S]``, tokens padded on either side; or floats ``[B, S, ...]``, frames
            of speech, padded on the right.
        lengths: int64 ``[B]``, tokens or frames, without padding.
        net_input: all inputs of the encoder.
    """

    content: Tensor
    lengths: Tensor
    net_input: dict[str, Any]

    @classmethod
    def of(cls, sample: dict[str, Any], pad: int) -> "Sources":
        """
        Args:
            sample: a fairseq batch with ``net_input``.
            pad: the source dictionary's padding index, unused for speech.

        Raises:
            ValueError: for a batch without sources.
        """
        net_input = sample["net_input"]
        name = next((name for name in NAMES if name in net_input), None)
        if name is None:
            raise ValueError(f"net_input: has {', '.join(net_input)}; give {' or '.join(NAMES)}")
        content = net_input[name]
        if are_tokens(content):
            if content.dtype != torch.int64:
                content = content.long()
                net_input = {**net_input, name: content}
            return cls(content, content.ne(pad).sum(dim=1), net_input)
        if "src_lengths" in net_input:
            return cls(content, net_input["src_lengths"], net_input)
        padding = net_input.get("padding_mask")
        if padding is None:
            n_sources, width = content.shape[:2]
            lengths = torch.full((n_sources,), width, device=content.device)
        else:
            lengths = padding.size(-1) - padding.sum(dim=-1)
        return cls(content, lengths, net_input)

    @property
    def n(self) -> int:
        """B, the number of sources."""
        return self.content.size(0)

    @property
    def width(self) -> int:
        """S, the padded length, by which fairseq multiplies --max-len-a."""
        return self.content.size(1)

    @property
    def device(self) -> torch.device:
        """The device of the sources."""
        return self.content.device


def are_tokens(content: Tensor) -> bool:
    """Whether sources are tokens of a dictionary, not frames of speech."""
    return not (content.is_floating_point() or content.is_complex() or content.dtype == torch.bool)


def without_padding(net_input: dict[str, Any], pad: int) -> dict[str, Any]:
    """Remove the columns that are padding in all sources of a batch.

    Args:
        net_input: of a fairseq batch.
        pad: the source dictionary's padding index, unused for speech.
    """
    sources = Sources.of({"net_input": net_input}, pad)
    columns: Union[Tensor, slice]
    if are_tokens(sources.content):
        columns = sources.content.ne(pad).any(dim=0)
    else:
        columns = slice(int(sources.lengths.max()))
    return {
        name: value[:, columns] if name in (*NAMES, "padding_mask") and value is not None else value
        for name, value in net_input.items()
    }


@dataclass
class Request:
    """B sentences to translate, already checked.

    Attributes:
        sources: the sources.
        ids: the sentence numbers, for messages and random states.
        bos: the token before the first.
        prefix: forced first tokens int64 ``[B, P]``, padded on the right, or ``None``.
        drafts: for each output, int64 ``[D]``, empty for none; ``None`` if the batch has no drafts.
        horizons: the tokens of each output that Jacobi decoding solves in blocks, int64 ``[B]``;
            ``None`` for those of the method's options.
        random_states: for sampling, uint64 ``[B]``, or ``None``.
        constraints: the phrases that each output has to contain, as lists of tokens; ``None`` if
            the batch has none.
        ordered: whether outputs have them in this order.
        forbidden: the phrases that each output may not contain; ``None`` if the batch has none.
        return_attention: whether hypotheses need their attention to the source.
    """

    sources: Sources
    ids: list[int]
    bos: int
    prefix: Optional[Tensor] = None
    drafts: Optional[Sequence[Tensor]] = None
    horizons: Optional[np.ndarray] = None
    random_states: Optional[np.ndarray] = None
    constraints: Optional[list[Phrases]] = None
    ordered: bool = False
    forbidden: Optional[list[Phrases]] = None
    return_attention: bool = False

    @property
    def n(self) -> int:
        """B, the number of sentences."""
        return self.sources.n

    @property
    def device(self) -> torch.device:
        """The device of the sources."""
        return self.sources.device

    @property
    def source_tokens(self) -> Optional[np.ndarray]:
        """The sources int64 ``[B, S]``, padded; ``None`` if they are not tokens."""
        content = self.sources.content
        return content.cpu().numpy() if are_tokens(content) else None

    @property
    def prefix_width(self) -> int:
        """P, the number of columns of the prefix."""
        return 0 if self.prefix is None else self.prefix.size(1)

    @property
    def prefix_tokens(self) -> Optional[np.ndarray]:
        """The prefix int64 ``[B, P]``; ``None`` if there is none or it is empty."""
        return None if self.prefix is None or not self.prefix_width else self.prefix.cpu().numpy()

    def n_forced(self, pad: int) -> np.ndarray:
        """The number of tokens that the prefix forces in each sentence, int64 ``[B]``."""
        if self.prefix is None:
            return np.zeros(self.n, dtype=np.int64)
        return prefix_lengths(self.prefix, pad).cpu().numpy()


def phrases_of(constraints: Optional[Tensor], target: Dictionary) -> Optional[list[Phrases]]:
    """The phrases of each sentence in fairseq's packed constraints; ``None`` if there are none.

    Args:
        constraints: int64 ``[B, P]``, see fairseq's ``pack_constraints``.

    Raises:
        ValueError: for tokens that are not in the dictionary.
    """
    if constraints is None:
        return None
    check_ids("constraints", constraints[:, 1:], target, "encode them with the target's dictionary")
    return [[phrase.tolist() for phrase in unpack_constraints(row)] for row in constraints]


def check_ids(what: str, ids: Tensor, dictionary: Dictionary, remedy: str) -> None:
    """Raise an error for ids outside of a dictionary; on a GPU, with a single transfer.

    Args:
        ids: integers of any shape.

    Raises:
        ValueError: for such an id; it names ``what``, the id and the remedy.
    """
    if not ids.numel():
        return
    least, most = torch.stack(ids.aminmax()).tolist()
    if least < 0 or most >= len(dictionary):
        wrong = least if least < 0 else most
        raise ValueError(
            f"{what}: the token {wrong} is not in the dictionary of {len(dictionary)} types; "
            f"{remedy}"
        )


def check_request(
    sources: Sources,
    numbers: Sequence[int],
    prefix: Optional[Tensor],
    bos: int,
    source: Optional[Dictionary],
    target: Dictionary,
) -> None:
    """Raise an error for tokens that are not in the ``source`` or ``target`` dictionary.

    Args:
        sources: if they are not tokens, only their lengths are checked.
        numbers: the sentence numbers for error messages.
        prefix: forced first tokens ``[B, P]``, or ``None``.
        bos: the token before the first.

    Raises:
        ValueError: for such tokens, for empty sources, and for a prefix of the wrong shape or with
            padding before a token.
    """
    if source is not None and are_tokens(sources.content):
        check_ids("src_tokens", sources.content, source, BINARISED)
    _check_not_empty(sources, numbers)
    if not 0 <= bos < len(target):
        raise ValueError(
            f"bos_token: the token {bos} is not in the dictionary of {len(target)} types; give one "
            "that is, or omit it for EOS"
        )
    if prefix is None:
        return
    n_sentences = sources.n
    if prefix.dim() != 2 or prefix.size(0) != n_sentences or not are_tokens(prefix):
        raise ValueError(
            f"prefix_tokens: {prefix.dtype} {list(prefix.shape)} for {n_sentences} sentences; give "
            f"whole numbers [{n_sentences}, P], padded on the right"
        )
    check_ids("prefix_tokens (--prefix-size)", prefix, target, BINARISED)
    prefix_lengths(prefix, target.pad())  # raises for padding before a token


def _check_not_empty(sources: Sources, numbers: Sequence[int]) -> None:
    """Raise an error for empty sources, whose attention would be NaN.

    fairseq's own generator fails with an assertion or an error about shapes. Its data never contain
    such a source: an empty line is EOS.
    """
    is_empty = sources.lengths.eq(0)
    if is_empty.any():
        empty = ", ".join(str(numbers[row]) for row in is_empty.nonzero().flatten().tolist())
        raise ValueError(
            f"src_tokens: only padding in sentences {empty}; leave them out, or end every source "
            "with EOS"
        )
