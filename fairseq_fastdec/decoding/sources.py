"""The sources of a batch: text or speech.

fairseq's batches store them under one of three names, as in its ``SequenceGenerator``:
``src_tokens`` for text, and for speech with ``src_lengths``; ``source`` and ``features`` for audio
models with a padding mask.
"""

from typing import Any, NamedTuple, Union

import torch
from torch import Tensor

NAMES = ("src_tokens", "source", "features")


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
