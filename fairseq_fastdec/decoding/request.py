"""A batch on its way into a method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np
import torch
from torch import Tensor

from .constraints import prefix_lengths
from .sources import Sources, are_tokens


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
    """

    sources: Sources
    ids: list[int]
    bos: int
    prefix: Optional[Tensor] = None
    drafts: Optional[Sequence[Tensor]] = None
    horizons: Optional[np.ndarray] = None
    random_states: Optional[np.ndarray] = None

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
        """The number of tokens that the prefix forces in each sentence, int64 ``[B]``.

        Raises:
            ValueError: for padding before or inside a prefix.
        """
        if self.prefix is None:
            return np.zeros(self.n, dtype=np.int64)
        return prefix_lengths(self.prefix, pad).cpu().numpy()
