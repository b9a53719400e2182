"""Draws versions of a photograph side by side: input, enlarged by methods, and original."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from fairseq_fastdec.data import atomic_files

GAP, CAPTION = 8, 14
WHITE = 255


def write(path: Path, versions: dict[str, np.ndarray], magnification: int) -> None:
    """Write versions of a photograph side by side, with their names, as a PNG.

    Args:
        versions: uint8 ``[H, W]`` by name; all are shown in the same size.
        magnification: the number of pixels in each direction for one pixel of the largest version.
    """
    height, width = (
        magnification * max(pixels.shape[axis] for pixels in versions.values()) for axis in (0, 1)
    )
    size = (len(versions) * (width + GAP) - GAP, height + CAPTION)
    picture = Image.new("L", size, WHITE)
    text = ImageDraw.Draw(picture)
    for number, (name, pixels) in enumerate(versions.items()):
        left = number * (width + GAP)
        text.text((left, 0), name, fill=0)
        shown = Image.fromarray(pixels).resize((width, height), Image.Resampling.NEAREST)
        picture.paste(shown, (left, CAPTION))
    with atomic_files.replacing(path) as partial:
        picture.save(partial, format="PNG", optimize=True)
