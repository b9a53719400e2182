"""What was compiled, if it was, and the threads that it runs in.

It is built when the package is installed, where there is a compiler for it; all works without.
"""

import ctypes
import functools
import logging
import struct
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Optional

import torch

from . import structures
from .structures import Threads

logger = logging.getLogger(__name__)

# How such files begin: of 64 bits, the lower ones first.
ELF_OF_64_BITS = b"\x7fELF\x02\x01"


class Library:
    """What ``step.cpp`` offers."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            OSError: if it is not for this machine.
            ValueError: if it was built from other sources, or a part of it is missing.
        """
        check_complete(path)
        library = ctypes.CDLL(str(path))
        for name in ("block", "pair", "group", "has_halves", "has_codes", "size_of"):
            getattr(library, f"fastdec_{name}").restype = ctypes.c_int64
        for name in ("size_of_narrow", "size_of_choice", "scratch_size"):
            getattr(library, f"fastdec_{name}").restype = ctypes.c_int64
        for name in ("run", "multiply", "choose", "move"):
            getattr(library, f"fastdec_{name}").restype = ctypes.c_int64
        library.fastdec_size_of.argtypes = (ctypes.c_int64,)
        sizes = [library.fastdec_size_of(index) for index in range(len(structures.ALL) + 1)]
        if sizes != [*map(ctypes.sizeof, structures.ALL), -1]:
            raise ValueError("built from other sources")
        self.block: int = library.fastdec_block()
        self.pair: int = library.fastdec_pair()
        self.group: int = library.fastdec_group()
        # Whether this processor has instructions for products of bf16 and of 8-bit integers.
        self.has_halves = bool(library.fastdec_has_halves())
        self.has_codes = bool(library.fastdec_has_codes())
        library.fastdec_size_of_narrow.argtypes = (ctypes.c_int64, ctypes.c_int64)
        self.size_of_narrow = library.fastdec_size_of_narrow
        self.scratch_size = library.fastdec_scratch_size
        self.run = library.fastdec_run
        self.multiply = library.fastdec_multiply
        self.size_of_choice = library.fastdec_size_of_choice
        self.choose = library.fastdec_choose
        self.move = library.fastdec_move
        library.fastdec_set_width.argtypes = (ctypes.c_int64,)
        library.fastdec_set_width.restype = None
        self.set_width = library.fastdec_set_width
        self.threads = _threads_of_torch()

    @property
    def n_threads(self) -> int:
        """In how many threads to compute: as many as torch does, if they are of the pool's kind."""
        return 1 if self.threads is None else torch.get_num_threads()

    def address_of_threads(self) -> Optional[int]:
        """Of the structure, for others to point to."""
        return None if self.threads is None else ctypes.addressof(self.threads)


@functools.lru_cache(maxsize=None)
def library() -> Optional[Library]:
    """The library, or ``None`` where it was not built or cannot be loaded."""
    path = _built()
    if path is None:
        return None
    try:
        return Library(path)
    except (OSError, ValueError, AttributeError) as problem:
        logger.warning(
            "%s: %s; decoding is slower without. Install the package again", path, problem
        )
        return None


def check_complete(path: Path) -> None:
    """Notice a file that was cut short, which would be mapped, and kill whoever reads beyond it.

    What ELF files (those of Linux) say of their own size is compared; others pass.

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


@functools.lru_cache(maxsize=None)
def note_what_is_missed() -> None:
    """Say once, of a model that compiled code is for, that none was built and what helps."""
    # What was built and cannot be loaded has been named.
    if _built() is None:
        logger.warning(
            "fairseq_fastdec was installed without its compiled code, and decodes more slowly. "
            "Install a C++ compiler (such as g++) and then the package again, by pip install "
            "--force-reinstall --no-deps"
        )


def _built() -> Optional[Path]:
    folder = Path(__file__).parent
    paths = (folder / f"_kernels{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)


def _threads_of_torch() -> Optional[Threads]:
    """The pool of torch's GCC OpenMP, or ``None`` where torch has threads of another kind.

    Threads of our own would fight for the processors with torch's, which wait for work spinning.
    """
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    paths = {line.split(maxsplit=5)[5] for line in mapped if "/libgomp" in line}
    own = sorted(paths, key=lambda path: "/torch/" not in path)
    if not own:
        return None
    openmp = ctypes.CDLL(own[0])
    functions = (openmp.GOMP_parallel, openmp.omp_get_thread_num, openmp.omp_get_num_threads)
    return Threads(*(ctypes.cast(function, ctypes.c_void_p).value for function in functions))
