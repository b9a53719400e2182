"""The rows of beams of pairs: what a step feeds them, and what their next tokens add to."""

from typing import Dict, Optional, Tuple

import numpy as np
import torch
from torch import Tensor

from ..top_tokens import Beams


class PairRows:
    """S beams of W' entries each; row ``s * W' + c`` of the session is entry c of the s-th beam.

    Scores of next tokens come row by row: row r's left token is number 2r, its right token 2r + 1.
    Left tokens of a beam compete with each other, and right tokens of an entry.

    The arrays keep their memory from step to step, and may be longer than what is in use.

    Attributes:
        n_beams, n_entries: S and W'.
        next_tokens: int64 ``[N, 2]``, the pairs that are fed next.
        totals: float32 ``[N, 2]``, the entries' scores so far, and 0. A score of ``-inf`` means
            that an entry is missing.
        origins: int64 ``[N]``, the row that each row was before.
        beams: first the beams' left tokens, then each entry's right tokens.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._reserve(1)

    @property
    def n_rows(self) -> int:
        """R."""
        return self.n_beams * self.n_entries

    @property
    def tokens(self) -> Tensor:
        """The pairs that are fed next, int64 ``[R, 2]``, on the host."""
        if self.n_rows not in self._tokens:
            self._tokens[self.n_rows] = self._all_tokens[: self.n_rows]
        return self._tokens[self.n_rows]

    def begin(self, n_beams: int, start: Tuple[int, ...]) -> None:
        """Beams of one entry, the ``start`` pair."""
        if n_beams * self._width > self.origins.size:
            self._reserve(n_beams)
        self.next_tokens[:n_beams] = start
        self.totals[:n_beams] = 0
        self.set_shape(n_beams, 1)

    def set_shape(self, n_beams: int, n_entries: int) -> None:
        """The rows are so many now, and the arrays above know them already."""
        if self._shape == (n_beams, n_entries):
            return
        self._shape = self.n_beams, self.n_entries = n_beams, n_entries
        n_rows, beams = self.n_rows, self.beams
        beams.n_beams, beams.n_rows = n_beams + n_rows, 2 * n_rows
        left = 2 * np.arange(n_rows)
        beams.rows[:n_rows], beams.rows[n_rows : 2 * n_rows] = left, left + 1
        beams.starts[:n_beams] = n_entries * np.arange(n_beams)
        beams.starts[n_beams : n_beams + n_rows + 1] = n_rows + np.arange(n_rows + 1)

    def write(self, pairs: np.ndarray, beams: Optional[np.ndarray] = None) -> bool:
        """Write what the next step is fed, and its rows; their number is set later.

        Args:
            pairs: ``PAIR [S', W]``.
            beams: int64 ``[S']``, the beams that they continue (default: all).

        Returns:
            whether a row was another row before, or has left
        """
        n = pairs.size
        beams = np.arange(pairs.shape[0]) if beams is None else beams
        self.next_tokens[:n] = pairs["tokens"].reshape(-1, 2)
        self.totals[:n, 0] = pairs["total"].reshape(-1)
        self.totals[:n, 1] = 0
        origins = beams[:, None] * self.n_entries + pairs["column"]
        self.origins[:n] = origins.reshape(-1)
        return n != self.n_rows or not np.array_equal(self.origins[:n], np.arange(n))

    def origins_on(self, device: torch.device) -> Tensor:
        """The row that each row was before, int64 ``[R]``."""
        return self._origins[: self.n_rows].to(device)

    def _reserve(self, n_beams: int) -> None:
        n_rows = n_beams * self._width
        self.next_tokens = np.zeros((n_rows, 2), dtype=np.int64)
        self.totals = np.zeros((n_rows, 2), dtype=np.float32)
        self.origins = np.zeros(n_rows, dtype=np.int64)
        self._all_tokens, self._origins = map(torch.from_numpy, (self.next_tokens, self.origins))
        self.beams = Beams(
            np.zeros(2 * n_rows, dtype=np.int64),
            np.zeros(n_beams + n_rows + 1, dtype=np.int64),
            self.totals.reshape(-1),
        )
        self._tokens: Dict[int, Tensor] = {}
        self._shape = (0, 0)
