"""Patches of photographs, as arrays and as lines of intensities in raster order."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from fairseq_fastdec.data import atomic_files

HIGH = 16
N_PIXELS = HIGH * HIGH
N_INTENSITIES = 256
# The languages in fairseq, which are the extensions of files.
SOURCE, TARGET = "low", "high"
N_SYMMETRIES = 8


def halved(pixels: np.ndarray) -> np.ndarray:
    """The mean of each two by two pixels: uint8 ``[..., H, W]`` to ``[..., H // 2, W // 2]``."""
    *outer, height, width = pixels.shape
    even = pixels[..., : height // 2 * 2, : width // 2 * 2]
    squares = even.reshape(*outer, height // 2, 2, width // 2, 2)
    return np.rint(squares.mean(axis=(-3, -1))).astype(np.uint8)


def tiles(photograph: np.ndarray) -> np.ndarray:
    """The patches ``[N, 16, 16]`` that tile a photograph, without the remainder at two edges."""
    height, width = (size // HIGH for size in photograph.shape)
    rows = photograph[: height * HIGH, : width * HIGH].reshape(height, HIGH, width, HIGH)
    return rows.swapaxes(1, 2).reshape(-1, HIGH, HIGH)


def joined(patches: np.ndarray, n_columns: int) -> np.ndarray:
    """Join :func:`tiles` of any size to a photograph with ``n_columns`` per row."""
    n, height, width = patches.shape
    rows = patches.reshape(n // n_columns, n_columns, height, width).swapaxes(1, 2)
    return rows.reshape(n // n_columns * height, n_columns * width)


def draw(photographs: Sequence[np.ndarray], n: int, seed: int) -> np.ndarray:
    """Draw n patches ``[n, 16, 16]`` with random position, symmetry and brightness.

    Half of them come from the original photographs, half from the halved ones. The brightness is
    random since some photographs lack every other intensity, which a model would learn.
    """
    random = np.random.default_rng(seed)
    sizes = [(pixels, halved(pixels)) for pixels in photographs]
    patches = np.empty((n, HIGH, HIGH), dtype=np.uint8)
    for number in range(n):
        pixels = sizes[random.integers(len(sizes))][random.integers(2)]
        top, left = (random.integers(size - HIGH + 1) for size in pixels.shape)
        patch = pixels[top : top + HIGH, left : left + HIGH]
        turned = symmetry(patch, int(random.integers(N_SYMMETRIES))).astype(int)
        patches[number] = turned + random.integers(-turned.min(), N_INTENSITIES - turned.max())
    return patches


def symmetry(patch: np.ndarray, number: int) -> np.ndarray:
    """One of the eight rotations and reflections of a patch ``[16, 16]``."""
    turned = np.rot90(patch, number % 4)
    return turned.T if number >= 4 else turned


def enlarged(low: np.ndarray, method: Image.Resampling) -> np.ndarray:
    """Enlarge each of the patches ``[N, 8, 8]`` by a factor of two with Pillow."""
    sizes = low.shape[2] * 2, low.shape[1] * 2
    return np.stack([np.asarray(Image.fromarray(patch).resize(sizes, method)) for patch in low])


def spread(low: np.ndarray) -> np.ndarray:
    """Repeat each pixel of patches ``[N, 8, 8]`` at the four positions of which it is the mean.

    Source and target then have the same positions. Otherwise a decoder needs several times more
    updates to learn which source pixel belongs to which row and column.
    """
    return low.repeat(2, axis=1).repeat(2, axis=2)


def gathered(high: np.ndarray) -> np.ndarray:
    """Undo :func:`spread`: patches ``[N, 8, 8]``."""
    return high[:, ::2, ::2]


def write_pairs(prefix: Path, patches: np.ndarray) -> None:
    """Write patches ``[N, 16, 16]``, one per line, as targets, and halved and spread as sources."""
    for language, pixels in ((SOURCE, spread(halved(patches))), (TARGET, patches)):
        atomic_files.write_lines(Path(f"{prefix}.{language}"), lines_of(pixels))


def lines_of(patches: np.ndarray) -> list[str]:
    """Intensities in raster order, one line per patch."""
    return [" ".join(map(str, row)) for row in patches.reshape(len(patches), -1).tolist()]


def from_lines(lines: Iterable[str]) -> np.ndarray:
    """Read patches, uint8 ``[N, 16, 16]``, from lines.

    Raises:
        ValueError: if a line does not have 256 intensities.
    """
    rows = [[int(symbol) for symbol in line.split()] for line in lines]
    return np.array(rows, dtype=np.uint8).reshape(len(rows), HIGH, HIGH)


def psnr(patches: np.ndarray, truth: np.ndarray) -> float:
    """The peak signal-to-noise ratio of all pixels in decibels."""
    error = np.mean((patches.astype(float) - truth) ** 2)
    return float(10 * np.log10((N_INTENSITIES - 1) ** 2 / error))
