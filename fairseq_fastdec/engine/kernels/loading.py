"""Loads the compiled code, if there is any.

It is built when the package is installed, if there is a compiler; everything works without it.
"""

import functools
import importlib.util
import logging
import struct
import threading
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, Optional

logger = logging.getLogger(__name__)

# A file of 64 bits, the lower ones first, begins so.
ELF_OF_64_BITS = b"\x7fELF\x02\x01"

_measuring = threading.Lock()
_n_measured = 1


@functools.cache
def library() -> Any:
    """The extension module ``_engine``, or ``None`` if it was not built or cannot be loaded.

    This is the one place that decides whether compiled code is used. It is called as an attribute
    of this module, so a test that replaces it turns compiled code off everywhere.
    """
    path = _built()
    if path is None:
        return None
    try:
        check_complete(path)
        spec = importlib.util.spec_from_file_location(f"{__package__}._engine", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except (OSError, ValueError, ImportError) as problem:
        logger.warning("%s: %s; decoding is slower without. %s", path, problem, how_to_install())
        return None


def n_threads() -> int:
    """The number of threads that a call may have: the number of torch's."""
    import torch  # not there in processes that decode from bundles

    return measured(torch.get_num_threads())


def measured(n: int) -> int:
    """A number of threads, once it is known what they cost: calls use no more than they need."""
    global _n_measured
    if n > 1 and _n_measured != n:
        with _measuring:
            if _n_measured != n:
                library().measure_costs(n)
                _n_measured = n
    return n


def bounded(number: Optional[int]) -> int:
    """The number, or the largest that compiled code can count to; also that for ``None``."""
    most = library().ALL_STEPS
    return most if number is None else min(number, most)


def check_complete(path: Path) -> None:
    """Notice a file that was cut short: whoever reads beyond its end in memory is killed.

    The sizes that ELF files (those of Linux) state are compared; other files pass.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it ends before its last section or segment does.
    """
    size = path.stat().st_size
    with open(path, "rb") as file:
        header = file.read(64)
        if header[:6] != ELF_OF_64_BITS:
            return
        needed = 64
        if len(header) == 64:
            segments, sections = struct.unpack_from("<QQ", header, 32)
            segment_size, n_segments, section_size, n_sections = struct.unpack_from(
                "<4H", header, 54
            )
            needed = max(segments + segment_size * n_segments, sections + section_size * n_sections)
        if needed <= size:
            file.seek(segments)
            table = file.read(segment_size * n_segments)
            for place in range(0, len(table), segment_size):
                start, _, _, length = struct.unpack_from("<4Q", table, place + 8)
                needed = max(needed, start + length)
    if needed > size:
        raise ValueError(f"cut short: {size} of at least {needed} bytes")


def how_to_install() -> str:
    """The command that builds the compiled code, in a sentence."""
    sources = Path(__file__).resolve().parents[3]
    is_checkout = (sources / "setup.py").exists()
    place = f"-e {sources}" if is_checkout else "DIRECTORY, with the directory of its sources"
    return f"Install the package again: pip install --force-reinstall --no-deps {place}"


def _built() -> Optional[Path]:
    folder = Path(__file__).parent
    paths = (folder / f"_engine{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)
