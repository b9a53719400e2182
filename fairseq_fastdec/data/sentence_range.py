"""Some consecutive sentences of a data set, for decoding a part of it."""

from typing import Any

import numpy as np
from fairseq.data import BaseWrapperDataset


class SentenceRange(BaseWrapperDataset):
    """A pair dataset of which only some sentences go into batches; they keep their numbers."""

    def __init__(self, dataset: Any, sentences: range) -> None:
        """
        Args:
            dataset: as ``load_dataset`` of a translation task makes it.
            sentences: consecutive indices of the dataset.
        """
        super().__init__(dataset)
        self._sentences = sentences

    def ordered_indices(self) -> np.ndarray:
        """Sentences by source length, then target length, as fairseq-generate orders a test set.

        fairseq's own order would sort the whole data set again for every part of it, and shuffles
        training data first.

        Returns:
            int64 ``[len(sentences)]``
        """
        sizes = self.dataset.sizes[self._sentences.start : self._sentences.stop]
        least_important_first = np.atleast_2d(sizes.T)[::-1]
        return np.lexsort(least_important_first) + self._sentences.start
