"""Reads the text of ``--draft-file``, one line for each source sentence."""

from collections.abc import Sequence

from .text import opened


class DraftLines:
    """The drafts of a file, in the order of the input."""

    def __init__(self, path: str) -> None:
        """
        Raises:
            ValueError: if the file cannot be read.
        """
        self._path = path
        try:
            with opened(path) as file:
                self._lines = [line.rstrip("\r\n") for line in file]
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"--draft-file {path}: cannot be read ({reason})") from error

    def of(self, numbers: Sequence[int]) -> list[str]:
        """The lines with these numbers, counted from 0; empty for no draft.

        Raises:
            ValueError: for a line beyond the last.
        """
        if max(numbers, default=-1) >= len(self._lines):
            raise ValueError(
                f"--draft-file {self._path}: has {len(self._lines)} lines, fewer than the input "
                "has sentences; give one line for each, an empty one for no draft"
            )
        return [self._lines[number] for number in numbers]
