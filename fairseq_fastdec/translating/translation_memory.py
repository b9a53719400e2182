"""Drafts from a translation memory (``--memory-source``, ``--memory-target``).

Sentences are similar if they share trigrams of tokens. An inverted index of the trigrams is built
once, next to the target file on disk, and memory-mapped. This module does not import torch.
"""

import hashlib
import logging
import os
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.text import check_can_be_read_again, opened, without_mark

logger = logging.getLogger(__name__)

# The least Dice coefficient of the trigrams of two sentences at which a translation is a draft.
LEAST_SIMILAR = 0.4
# The number of translations in a draft: if the first one does not match, the next one may.
MOST_TRANSLATIONS = 2
# The most trigrams that are looked up, rarest first, and the most sentences that contain them.
MOST_LOOKED_UP, MOST_SENTENCES = 64, 20_000
# The number of lines whose tokens are part of the index's name, since they depend on the
# dictionaries and subwords.
N_SAMPLED = 1000
Encode = Callable[[str], list[int]]
NAMES = ("targets", "target_starts", "n_trigrams", "trigrams", "starts", "sentences")


class TranslationMemory:
    """Previously translated sentences.

    Attributes:
        segmented: splits a line into subwords (default: identity).
    """

    def __init__(
        self, source: str, target: str, source_tokens: Encode, target_tokens: Encode
    ) -> None:
        """
        Args:
            source, target: files with the same number of lines.
            source_tokens, target_tokens: the tokens of a segmented line, with EOS.

        Raises:
            ValueError: if a file cannot be read, or if the files differ in length.
        """
        self._paths = source, target
        self._encode = source_tokens, target_tokens
        self.segmented: Callable[[str], str] = str
        self._index: dict[str, np.ndarray] = {}
        self._digest = hashlib.sha256()
        n_lines = [0, 0]
        for number, (option, path) in enumerate(zip(("source", "target"), self._paths)):
            check_can_be_read_again(f"--memory-{option}", path)
            try:
                with open(path, "rb") as file:
                    for line in without_mark(file):
                        self._digest.update(line)
                        n_lines[number] += 1
            except OSError as error:
                raise ValueError(
                    f"--memory-{option} {path}: cannot be read ({error.strerror})"
                ) from error
        if n_lines[0] != n_lines[1]:
            raise ValueError(
                f"--memory-source {source}: has {n_lines[0]} lines, but --memory-target {target} "
                f"has {n_lines[1]}; give a translation for each line"
            )

    def of_sample(self, sample: dict[str, Any], pad: int) -> list[np.ndarray]:
        """Drafts for the sentences of a fairseq batch, int64 ``[D]`` each."""
        rows = sample["net_input"]["src_tokens"].tolist()
        return [self.draft([token for token in row if token != pad]) for row in rows]

    def draft(self, source: Sequence[int]) -> np.ndarray:
        """The translations of the most similar sentences, each with EOS, the best one first.

        Args:
            source: tokens with EOS.

        Returns:
            int64 ``[D]``, empty if no sentence is similar.
        """
        index = self._opened()
        numbers = self._most_similar(index, np.unique(trigrams_of(source)))
        bounds = [(index["target_starts"][n], index["target_starts"][n + 1]) for n in numbers]
        parts = [index["targets"][start:end] for start, end in bounds]
        return np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.int64)

    def _most_similar(self, index: dict[str, np.ndarray], trigrams: np.ndarray) -> list[int]:
        """The sentences that are most similar to one with these trigrams, uint64 ``[n]``."""
        known = index["trigrams"]
        places = np.minimum(np.searchsorted(known, trigrams), max(len(known) - 1, 0))
        places = places[known[places] == trigrams] if len(known) else places[:0]
        starts, ends = index["starts"][places], index["starts"][places + 1]
        rarest = np.argsort(ends - starts, kind="stable")[:MOST_LOOKED_UP]
        having: list[np.ndarray] = [np.zeros(0, np.int64)]
        n_having = 0
        for start, end in zip(starts[rarest], ends[rarest]):
            n_having += int(end - start)
            if len(having) > 1 and n_having > MOST_SENTENCES:
                break
            having.append(index["sentences"][start:end])
        sentences, counts = np.unique(np.concatenate(having), return_counts=True)
        similar = 2 * counts / (len(trigrams) + index["n_trigrams"][sentences])
        # Among equals the last one, since later translations tend to be better.
        best = np.lexsort((sentences, similar))[::-1][:MOST_TRANSLATIONS]
        return [int(sentences[at]) for at in best if similar[at] >= LEAST_SIMILAR]

    def _opened(self) -> dict[str, np.ndarray]:
        if not self._index:
            folder = self._folder()
            if not folder.is_dir():
                self._make(folder)
            mapped = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in NAMES)
            # As plain arrays, whose slices take a fraction of the time.
            self._index = dict(zip(NAMES, map(np.asarray, mapped)))
        return self._index

    def _folder(self) -> Path:
        """The directory of the index, named by a digest of everything that it depends on."""
        digest = self._digest.copy()
        for number, (source, target) in enumerate(self._pairs()):
            digest.update(repr((source, target)).encode())
            if number == N_SAMPLED:
                break
        return Path(f"{self._paths[1]}.memory-{digest.hexdigest()[:16]}")

    def _pairs(self) -> Iterator[tuple[list[int], list[int]]]:
        """The tokens of each sentence and of its translation, with EOS."""
        source, target = self._paths
        with opened(source, "replace") as sources, opened(target, "replace") as targets:
            for pair in zip(sources, targets):
                segmented = (self.segmented(line.strip()) for line in pair)
                source_tokens, target_tokens = (
                    encode(line) for encode, line in zip(self._encode, segmented)
                )
                yield source_tokens, target_tokens

    def _make(self, folder: Path) -> None:
        """Build the index, which another process may be building at the same time.

        Raises:
            ValueError: if it cannot be written.
        """
        logger.info("building an index of %s", self._paths[0])
        hashes, owners, n_trigrams = [], [], array("q")
        targets, starts = array("i"), array("q", [0])
        for number, (source, target) in enumerate(self._pairs()):
            own = np.unique(trigrams_of(source))
            hashes.append(own)
            owners.append(np.full(len(own), number, dtype=np.int64))
            n_trigrams.append(len(own))
            targets.extend(target)
            starts.append(len(targets))
        every = np.concatenate([np.zeros(0, np.uint64), *hashes])
        order = np.argsort(every, kind="stable")
        trigrams, firsts = np.unique(every[order], return_index=True)
        content: dict[str, np.ndarray] = {
            "targets": np.array(targets, dtype=np.int32),
            "target_starts": np.array(starts, dtype=np.int64),
            "n_trigrams": np.array(n_trigrams, dtype=np.int64),
            "trigrams": trigrams,
            "starts": np.append(firsts, len(every)).astype(np.int64),
            "sentences": np.concatenate([np.zeros(0, np.int64), *owners])[order].astype(np.int32),
        }
        try:
            with tempfile.TemporaryDirectory(dir=folder.parent) as made:
                unfinished = Path(made) / "index"
                unfinished.mkdir()
                for name in NAMES:
                    np.save(unfinished / f"{name}.npy", content[name])
                # Another process may have made it in the meantime.
                if not folder.is_dir():
                    os.rename(unfinished, folder)
        except OSError as error:
            if not folder.is_dir():
                raise ValueError(
                    f"--memory-target {self._paths[1]}: its index cannot be written next to it "
                    f"({error.strerror}); copy both files to a writable directory"
                ) from error


def trigrams_of(tokens: Sequence[int]) -> np.ndarray:
    """Hashes of a sentence's trigrams, including those at its beginning, uint64 ``[n]``.

    Args:
        tokens: with EOS; n of them.
    """
    ids = np.array([-2, -1, *tokens], dtype=np.int64).astype(np.uint64)
    factors = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)
    mixed = ids[:-2] * factors[0] + ids[1:-1] * factors[1] + ids[2:] * factors[2]
    return (mixed ^ (mixed >> np.uint64(29))) * factors[0]
