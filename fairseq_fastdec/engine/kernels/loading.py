"""Loads the compiled code.

It is built when the package is installed, if there is a compiler. It is optional.
"""

import functools
import importlib.util
import logging
import os
import struct
import threading
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, Optional

logger = logging.getLogger(__name__)

# The environment variable with the instruction set to use.
ISA = "FASTDEC_ISA"

# The beginning of a little-endian 64-bit ELF file.
ELF_OF_64_BITS = b"\x7fELF\x02\x01"

_measuring = threading.Lock()
_n_measured = 1


@functools.cache
def library() -> Any:
    """The extension module ``_engine``, or ``None`` if it was not built or cannot be loaded.

    This is the only place that decides whether compiled code is used. Call it as an attribute of
    this module, so that a test can replace it to disable compiled code everywhere.

    Raises:
        ValueError: if ``FASTDEC_ISA`` is not an instruction set of this processor.
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
    except (OSError, ValueError, ImportError) as problem:
        logger.warning("%s: %s; decoding is slower without it. %s", path, problem, how_to_install())
        return None
    isa = os.environ.get(ISA)
    if isa:
        try:
            module.use_instruction_set(isa)
        except ValueError as problem:
            raise ValueError(f"{ISA}={problem}") from None
    return module


def n_threads() -> int:
    """The number of threads that a call may use, which is that of torch."""
    import torch  # not installed where only bundles are decoded

    return measured(torch.get_num_threads())


def measured(n: int) -> int:
    """Return n, after measuring what n threads cost, so that calls start only threads that help."""
    global _n_measured
    if n > _n_measured:
        with _measuring:
            if n > _n_measured:
                library().measure_costs(n)
                _n_measured = n
    return n


def bounded(number: Optional[int]) -> int:
    """The number, limited to the largest that compiled code accepts; ``None``: that one."""
    most = library().ALL_STEPS
    return most if number is None else min(number, most)


def check_complete(path: Path) -> None:
    """Detect a truncated file: reading mapped memory beyond the end of a file kills the process.

    Compares the size with the headers of ELF files, as on Linux. Other files are not checked.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file ends before its last section or segment.
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
        raise ValueError(f"truncated: {size} of at least {needed} bytes")


def how_to_install() -> str:
    """A sentence with the command that builds the compiled code."""
    sources = Path(__file__).resolve().parents[3]
    is_checkout = (sources / "setup.py").exists()
    place = f"-e {sources}" if is_checkout else "DIRECTORY, with the directory of its sources"
    return f"Install the package again: pip install --force-reinstall --no-deps {place}"


def _built() -> Optional[Path]:
    folder = Path(__file__).parent
    paths = (folder / f"_engine{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)
