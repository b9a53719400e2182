"""One side of a parallel corpus as flat arrays."""

from typing import NamedTuple, Optional

import numpy as np
from fairseq.data import Dictionary
from fairseq.tasks.translation import load_langpair_dataset

NO_LIMIT = 2**31 - 1


class FlatSentences(NamedTuple):
    """Sentence i is ``tokens[offsets[i] : offsets[i + 1]]``, without EOS.

    ``tokens`` is int32 ``[N]``, ``offsets`` int64 ``[B + 1]``.
    """

    tokens: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """int64 ``[B]``"""
        return np.diff(self.offsets)

    def headed_by(self, token: int) -> "FlatSentences":
        """The same sentences with one token before each."""
        tokens = np.insert(self.tokens, self.offsets[:-1], token)
        return FlatSentences(tokens, self.offsets + np.arange(self.offsets.size))


def read(
    data: str,
    split: str,
    languages: tuple[str, str],
    dictionaries: tuple[Dictionary, Dictionary],
    n_sentences: Optional[int] = None,
) -> tuple[FlatSentences, FlatSentences]:
    """Read the sentences of both languages of a directory made by fairseq-preprocess.

    Args:
        n_sentences: read only this many pairs, evenly spread over the corpus.

    Raises:
        FileNotFoundError: if the split is missing.
    """
    (source, target), (source_dictionary, target_dictionary) = languages, dictionaries
    pairs = load_langpair_dataset(
        data, split, source, source_dictionary, target, target_dictionary,
        combine=True, dataset_impl=None, upsample_primary=1, left_pad_source=True,
        left_pad_target=False, max_source_positions=NO_LIMIT, max_target_positions=NO_LIMIT,
    )  # fmt: skip
    chosen: np.ndarray = np.arange(len(pairs))
    if n_sentences is not None and n_sentences < chosen.size:
        chosen = np.linspace(0, chosen.size - 1, n_sentences).astype(np.int64)
    return (
        _flat(pairs.src, chosen, source_dictionary.eos()),
        _flat(pairs.tgt, chosen, target_dictionary.eos()),
    )


def _flat(dataset, chosen: np.ndarray, eos: int) -> FlatSentences:
    sentences = [dataset[index].numpy().astype(np.int32) for index in chosen.tolist()]
    lengths = [sentence.size for sentence in sentences]
    tokens = np.concatenate([np.zeros(0, np.int32), *sentences])
    inside = tokens != eos
    owners = np.repeat(np.arange(len(sentences)), lengths)[inside]
    counts = np.bincount(owners, minlength=len(sentences))
    return FlatSentences(tokens[inside], np.concatenate([[0], counts.cumsum()]))
