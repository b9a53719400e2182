"""A progress bar with the number of translated lines, the speed and the remaining time."""

from collections.abc import Callable
from typing import Optional

from tqdm import tqdm


class LineBar:
    """A tqdm bar for the lines of an input, whose number may be estimated while it is read."""

    def __init__(
        self,
        n_lines: Optional[int],
        is_shown: bool,
        share_read: Callable[[], Optional[float]] = lambda: None,
    ) -> None:
        """
        Args:
            n_lines: the number of lines of the input; ``None`` if it is unknown.
            share_read: returns the share of the input that has been read, if it is known.
        """
        # tqdm would start a thread, and processes with threads must not be forked.
        tqdm.monitor_interval = 0
        self._bar = tqdm(total=n_lines, unit=" sentences", disable=not is_shown)
        self._share_read = share_read if n_lines is None else lambda: None
        self._n_read = 0
        self.update, self.close = self._bar.update, self._bar.close

    def has_read(self, n_lines: int) -> None:
        """Count lines that have been read."""
        self._n_read += n_lines
        if share := self._share_read():
            self._bar.total = round(self._n_read / share)

    def count_earlier(self, n_lines: int) -> None:
        """Count lines that were translated in an earlier run, which do not affect the speed."""
        if not self._bar.disable:
            self._bar.initial += n_lines
        self._bar.update(n_lines)
