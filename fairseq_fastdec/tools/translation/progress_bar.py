"""A bar that shows how many lines are done, how fast, and how long it will take."""

from typing import Optional

from tqdm import tqdm

from .chunks import Chunk


class LineBar:
    """tqdm's bar of the lines of an input, whose number may only be guessed while it is read."""

    def __init__(self, n_lines: Optional[int], is_shown: bool) -> None:
        """
        Args:
            n_lines: of the whole input; ``None`` if nobody knows.
        """
        # tqdm would start a thread, and processes with threads must not be forked.
        tqdm.monitor_interval = 0
        self._bar = tqdm(total=n_lines, unit=" sentences", disable=not is_shown)
        self._is_known = n_lines is not None
        self._n_read = 0

    def has_read(self, chunk: Chunk, share: Optional[float]) -> None:
        """
        Args:
            share: of the input that has been read, from 0 to 1, if that is known.
        """
        self._n_read += chunk.n_lines
        if not self._is_known and share:
            self._bar.total = round(self._n_read / share)

    def count_earlier(self, n: int) -> None:
        """Count lines that were translated before, and say nothing of the speed."""
        if not self._bar.disable:
            self._bar.initial += n
        self._bar.update(n)

    def update(self, n: int) -> None:
        """Count lines that were translated; fewer than none where they were lost."""
        self._bar.update(n)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()
