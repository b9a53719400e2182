"""The drafts of ``--draft-file``, one line for each source sentence."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..data.codec import numbers_of


class DraftFile:
    """Drafts in the order of the input.

    Attributes:
        segmented: from a line to subwords (default: the line).
    """

    def __init__(self, path: str, dictionary: Dictionary) -> None:
        """
        Args:
            dictionary: of the target.

        Raises:
            ValueError: if the file cannot be read.
        """
        self._path, self._dictionary = path, dictionary
        self.segmented: Callable[[str], str] = str
        self._n_lines = 0
        self._line_of: dict[tuple[int, ...], int] = {}
        try:
            with open(path, encoding="utf-8") as file:
                self._lines = file.read().split("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"--draft-file {path}: cannot be read ({reason})") from error
        if not self._lines[-1]:
            self._lines.pop()

    def begin_buffer(self, sources: Sequence[Tensor]) -> None:
        """The next lines are for these sources, each int64 ``[n]``.

        fairseq-interactive makes batches of a buffer of lines, and does not say which sentences a
        batch has. Of equal sources, the last one's draft is taken.
        """
        lines = range(self._n_lines, self._n_lines + len(sources))
        self._n_lines = lines.stop
        self._line_of = {tuple(own.tolist()): line for own, line in zip(sources, lines)}

    def of_sample(self, sample: dict[str, Any], pad: int) -> list[Tensor]:
        """The drafts of a batch of fairseq's, by the numbers of its sentences or by its sources.

        Raises:
            ValueError: if there are none.
        """
        if "id" in sample:
            return self.of(sample["id"].tolist())
        rows = sample["net_input"]["src_tokens"].tolist()
        sources = [tuple(token for token in row if token != pad) for row in rows]
        if not all(source in self._line_of for source in sources):
            raise ValueError(
                f"--draft-file {self._path}: the task changes sources, so their lines are not "
                "known; use fairseq-generate or python -m fairseq_fastdec "
                "translate-corpus"
            )
        return self.of([self._line_of[source] for source in sources])

    def of(self, lines: Sequence[int]) -> list[Tensor]:
        """The drafts in some lines, from 0: int64 ``[D]`` with EOS, empty for none.

        Raises:
            ValueError: for a line beyond the last.
        """
        if max(lines) >= len(self._lines):
            raise ValueError(
                f"--draft-file {self._path}: has {len(self._lines)} lines, and the input more "
                "sentences; give one line for each, an empty one for no draft"
            )
        return [self._draft(self._lines[number]) for number in lines]

    def _draft(self, line: str) -> Tensor:
        if not line.strip():
            return torch.zeros(0, dtype=torch.int64)
        return torch.tensor(numbers_of(self._dictionary, self.segmented(line)))
