"""The 256 intensities as symbols: fairseq's dictionary and initial embeddings."""

from pathlib import Path

import numpy as np

from fairseq_fastdec.data import atomic_files

from .beginning import N_WAVES
from .patches import N_INTENSITIES

SHORTEST, LONGEST = 4, 4 * N_INTENSITIES


def write_dictionary(path: Path) -> None:
    """Write the file for ``fairseq-preprocess --srcdict``: the symbols are the integers.

    ``--acceptance distance`` uses the integers of the symbols, not their dictionary indices.
    """
    atomic_files.write_lines(path, (f"{value} 1" for value in range(N_INTENSITIES)))


def write_embeddings(path: Path, dim: int) -> None:
    """Write the file for ``--encoder-embed-path``: initial embeddings.

    Random embeddings are unrelated. These are similar for similar intensities, like sinusoidal
    positions in a transformer: an intensity is encoded by waves of many lengths.
    """
    lines = (
        " ".join([str(value), *(f"{number:.5f}" for number in row)])
        for value, row in enumerate(waves(dim))
    )
    atomic_files.write_lines(path, [f"{N_INTENSITIES} {dim}", *lines])


def waves(dim: int) -> np.ndarray:
    """Embeddings of norm 1: float64 ``[256, dim]``, zero in the dimensions of the fastest
    positions.
    """
    lengths = np.geomspace(SHORTEST, LONGEST, dim // 2 - N_WAVES)
    angles = 2 * np.pi * np.arange(N_INTENSITIES)[:, None] / lengths
    free = np.zeros((N_INTENSITIES, N_WAVES))
    both = [free, np.sin(angles), free, np.cos(angles)]
    return np.concatenate(both, axis=1) / np.sqrt(len(lengths))
