"""The drafts of ``--draft-file`` as tokens."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..data.draft_lines import DraftLines
from ..translating.text import numbers_of


class DraftFile:
    """Drafts in the order of the input.

    Attributes:
        segmented: splits a line into subwords (default: identity).
    """

    def __init__(self, path: str, dictionary: Dictionary) -> None:
        """
        Args:
            dictionary: the target dictionary.

        Raises:
            ValueError: if the file cannot be read.
        """
        self._path, self._dictionary = path, dictionary
        self.segmented: Callable[[str], str] = str
        self._n_lines = 0
        self._line_of: dict[tuple[int, ...], int] = {}
        self._lines = DraftLines(path)

    def begin_buffer(self, sources: Sequence[Tensor]) -> None:
        """Assign the next lines to these sources, each int64 ``[n]``.

        fairseq-interactive splits a buffer of lines into batches without sentence numbers, so
        drafts are looked up by source. Of equal sources, the draft of the last one is used.
        """
        lines = range(self._n_lines, self._n_lines + len(sources))
        self._n_lines = lines.stop
        self._line_of = {tuple(source.tolist()): line for source, line in zip(sources, lines)}

    def of_sample(self, sample: dict[str, Any], pad: int) -> list[Tensor]:
        """The drafts of a fairseq batch, looked up by sentence number or by source.

        Raises:
            ValueError: if a source has no line.
        """
        if "id" in sample:
            return self.of(sample["id"].tolist())
        rows = sample["net_input"]["src_tokens"].tolist()
        sources = [tuple(token for token in row if token != pad) for row in rows]
        if not all(source in self._line_of for source in sources):
            raise ValueError(
                f"--draft-file {self._path}: the task changes sources, so their lines cannot be "
                "found; use fairseq-generate or python -m fairseq_fastdec translate"
            )
        return self.of([self._line_of[source] for source in sources])

    def of(self, lines: Sequence[int]) -> list[Tensor]:
        """The drafts in some lines, counted from 0: int64 ``[D]`` with EOS, empty for none.

        Raises:
            ValueError: for a line beyond the last.
        """
        return [self._draft(line) for line in self._lines.of(lines)]

    def _draft(self, line: str) -> Tensor:
        if not line.strip():
            return torch.zeros(0, dtype=torch.int64)
        return torch.tensor(numbers_of(self._dictionary, self.segmented(line).split()))
