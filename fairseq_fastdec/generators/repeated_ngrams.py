"""fairseq's rule against repeated n-grams, ``--no-repeat-ngram-size``.

A token is forbidden if it would complete an n-gram that the output holds already. The token before
the first one counts as a part of the output, and so does a prefix, whose own tokens are forced
whatever they repeat. Scores of other tokens stay as they are.
"""

from typing import List, Optional, Sequence

import numpy as np
import torch
from torch import Tensor

from ..engine.kernels.repeats import RepeatSearch
from .constraints import GenerationRules


def forbidden_after(context: Sequence[int], size: int) -> List[int]:
    """The rule: what followed the last ``size - 1`` tokens where these came before.

    Args:
        context: the token before the first, and the output so far.
    """
    n = size - 1
    last = context[len(context) - n :]
    return [context[at + n] for at in range(len(context) - n) if list(context[at : at + n]) == last]


class RepeatedNgrams:
    """Says which tokens the rule forbids. For one thread at a time."""

    def __init__(self, size: int, pad: int) -> None:
        """
        Args:
            size: the number of tokens of an n-gram, at least 2.
            pad: stands where a row has fewer forbidden tokens than others; never possible anyway.
        """
        self._size, self._pad = size, pad
        self._compiled = RepeatSearch.of(size, pad)

    @classmethod
    def of(cls, rules: GenerationRules) -> Optional["RepeatedNgrams"]:
        """``None`` where the rules let n-grams come again, or none fits into an output twice."""
        size = rules.no_repeat_ngram_size
        return cls(size, rules.pad) if 0 < size <= rules.max_positions else None

    def after_rows(
        self, tokens: np.ndarray, starts: np.ndarray, lengths: np.ndarray, before_first: int
    ) -> Optional[np.ndarray]:
        """The tokens that are forbidden next, on the host.

        Args:
            tokens: int64 ``[N]``; starts, lengths, before_first: as for :meth:`after_blocks`.

        Returns:
            int64 ``[R, M]``; ``None`` if there are none.
        """
        rows = (torch.from_numpy(array) for array in (tokens, starts, lengths))
        found = self.after_blocks(*rows, before_first)
        return None if found is None else found.squeeze(1).numpy()

    def after_blocks(
        self,
        tokens: Tensor,
        starts: Tensor,
        lengths: Tensor,
        before_first: int,
        block: Optional[Tensor] = None,
        parents: Optional[Tensor] = None,
        comes_next: bool = True,
    ) -> Optional[Tensor]:
        """The tokens that are forbidden after each token of rows' blocks.

        What comes before a token of a block is its row's output and the block up to that token; in
        a tree, the path to it.

        Args:
            tokens: int64 ``[N]``, those of all rows.
            starts, lengths: int64 ``[R]``, where each row's own begin, and how many they are.
            before_first: the token before a row's first.
            block: int64 ``[R, T]`` (default: each row's own last token).
            parents: int64 ``[R, T]``, which token of a tree each follows (default: chains).
            comes_next: whether the first token of a block follows the row's own; otherwise it is
                the row's own last one.

        Returns:
            int64 ``[R, T, M]`` on the tokens' device; ``None`` if there are none.
        """
        device = tokens.device
        given = (tokens, starts, lengths, block, parents)
        tokens, starts, lengths, block, parents = (
            None if part is None else part.cpu().contiguous() for part in given
        )
        rows = (tokens, starts, lengths, before_first, block, parents, comes_next)
        found = self._found(*rows) if self._compiled is None else self._compiled(*rows)
        return None if found is None else found.to(device)

    def _found(
        self,
        tokens: Tensor,
        starts: Tensor,
        lengths: Tensor,
        before_first: int,
        block: Optional[Tensor],
        parents: Optional[Tensor],
        comes_next: bool,
    ) -> Optional[Tensor]:
        """:meth:`after_blocks` where nothing was compiled."""
        found = []
        for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist())):
            output = [before_first, *tokens[start : start + length].tolist()]
            if block is None:
                paths: List[List[int]] = [[]]
            elif parents is None:
                chain = block[row].tolist()
                first = 0 if comes_next else 1
                paths = [chain[first : place + 1] for place in range(len(chain))]
            else:
                paths = _paths(block[row].tolist(), parents[row].tolist())
            found.append([forbidden_after(output + path, self._size) for path in paths])
        most = max((len(own) for row in found for own in row), default=0)
        if most == 0:
            return None
        filled = [[own + [self._pad] * (most - len(own)) for own in row] for row in found]
        return torch.tensor(filled)


def _paths(tokens: List[int], parents: List[int]) -> List[List[int]]:
    """The path to each token of a tree, which it ends."""
    paths: List[List[int]] = []
    for token, parent in zip(tokens, parents):
        paths.append([*(paths[parent] if parent >= 0 else []), token])
    return paths
