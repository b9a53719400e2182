"""A range of sentences of a dataset, for decoding a part of it."""

from typing import Any

import numpy as np
from fairseq.data import BaseWrapperDataset


class SentenceRange(BaseWrapperDataset):
    """A pair dataset whose batches only have a range of sentences, with unchanged numbers."""

    def __init__(self, dataset: Any, sentences: range) -> None:
        """
        Args:
            dataset: the dataset of a translation task.
            sentences: the range of sentence numbers.
        """
        super().__init__(dataset)
        self._sentences = sentences

    def ordered_indices(self) -> np.ndarray:
        """The sentences by source length, then target length, like a test set in fairseq-generate.

        fairseq's method would sort the whole dataset for each part, and shuffles training data.

        Returns:
            int64 ``[len(sentences)]``
        """
        sizes = self.dataset.sizes[self._sentences.start : self._sentences.stop]
        least_important_first = np.atleast_2d(sizes.T)[::-1]
        return np.lexsort(least_important_first) + self._sentences.start
