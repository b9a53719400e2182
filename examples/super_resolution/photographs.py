"""The photographs of scikit-image, all free to use (see README.md for their licences)."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

TRAIN = (
    "astronaut", "brick", "camera", "clock", "grass", "gravel", "hubble_deep_field", "retina",
    "rocket",
)  # fmt: skip
VALID = ("coins",)
TEST = ("chelsea", "coffee")


def load(names: Sequence[str]) -> list[np.ndarray]:
    """Load photographs by name in ``skimage.data``, as intensities: uint8 ``[H, W]`` each.

    Raises:
        SystemExit: if scikit-image is not installed.
    """
    data = _of_scikit_image()
    return [grey(getattr(data, name)()) for name in names]


def grey(pixels: np.ndarray) -> np.ndarray:
    """The intensities uint8 ``[H, W]`` of a photograph ``[H, W]`` or ``[H, W, 3]``."""
    if pixels.ndim == 3:
        return np.asarray(Image.fromarray(pixels).convert("L"))
    return pixels


def _of_scikit_image() -> Any:
    try:
        return importlib.import_module("skimage.data")
    except ImportError:
        sys.exit("the photographs are part of scikit-image: pip install scikit-image")
