"""Loads the compiled code, if there is any, and finds the threads that it runs in.

It is built when the package is installed, where there is a compiler; everything works without it.
"""

import ctypes
import functools
import logging
import struct
import threading
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Optional

import torch

from . import structures

logger = logging.getLogger(__name__)

# A file of 64 bits, the lower ones first, begins so.
ELF_OF_64_BITS = b"\x7fELF\x02\x01"

# The functions of cpp/dispatch.cpp; each returns an integer of 64 bits.
ENTRY_POINTS = (
    "block", "pair", "group", "has_bf16", "has_int8", "size_of", "multiply_adds",
    "product_scratch_size", "step_scratch_size", "step_threads", "best_token_scratch_size",
    "heads_scratch_size", "top_k_scratch_size", "run_step", "multiply", "best_tokens", "run_heads",
    "top_k", "append",
    "lead", "accept", "keep", "end_rows", "learn_ngrams", "guess_tokens", "copy_ngrams",
    "grow_trees", "grow_head_trees", "beam_scratch_size", "judge_beams", "extend_beams", "trace",
    "double_top_k_scratch_size", "double_top_k",
    "find_repeats", "move_scratch_size", "move_rows", "move_paths", "draft_scratch_size",
    "run_draft", "draft_chains", "draft_trees", "verify",
)  # fmt: skip


class Library:
    """The functions of the compiled code.

    Attributes:
        block, pair, group: how many outputs and inputs lie side by side in packed weights; see
            ``cpp/structures.h``.
        has_bf16, has_int8: whether this processor has instructions for products of such numbers.
        multiply_adds: returns how many the products and attention of all calls so far were.
        threads: the engine's own, which all calls share.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            AttributeError: if a function is missing.
            OSError: if the file is not for this machine.
            ValueError: if the file was cut short, or built from other sources.
        """
        check_complete(path)
        library = ctypes.CDLL(str(path))
        for name in ENTRY_POINTS:
            getattr(library, f"fastdec_{name}").restype = ctypes.c_int64
        library.fastdec_size_of.argtypes = (ctypes.c_int64,)
        sizes = [library.fastdec_size_of(index) for index in range(len(structures.ALL) + 1)]
        if sizes != [*map(ctypes.sizeof, structures.ALL), -1]:
            raise ValueError("built from other sources")
        self.block: int = library.fastdec_block()
        self.pair: int = library.fastdec_pair()
        self.group: int = library.fastdec_group()
        self.has_bf16 = bool(library.fastdec_has_bf16())
        self.has_int8 = bool(library.fastdec_has_int8())
        self.multiply_adds = library.fastdec_multiply_adds
        library.fastdec_product_scratch_size.argtypes = (ctypes.c_int64, ctypes.c_int64)
        self.product_scratch_size = library.fastdec_product_scratch_size
        for name in ENTRY_POINTS[ENTRY_POINTS.index("step_scratch_size") :]:
            setattr(self, name, getattr(library, f"fastdec_{name}"))
        library.fastdec_measure_costs.argtypes = (ctypes.c_void_p, ctypes.c_int64)
        library.fastdec_measure_costs.restype = None
        self._measure_costs = library.fastdec_measure_costs
        self._n_measured, self._measuring = 1, threading.Lock()
        library.fastdec_set_width.argtypes = (ctypes.c_int64,)
        library.fastdec_set_width.restype = None
        self.set_width = library.fastdec_set_width
        library.fastdec_threads.restype = ctypes.c_void_p
        self.threads = structures.Threads.from_address(library.fastdec_threads())

    @property
    def n_threads(self) -> int:
        """The number of threads that a call may have: as many as torch's have.

        Their costs are measured first, once a number: calls use no more than they have work for.
        """
        n_threads = torch.get_num_threads()
        if n_threads > 1 and self._n_measured != n_threads:
            with self._measuring:
                if self._n_measured != n_threads:
                    self._measure_costs(self.address_of_threads(), n_threads)
                    self._n_measured = n_threads
        return n_threads

    def address_of_threads(self) -> int:
        """The address of ``threads``, for other structures."""
        return ctypes.addressof(self.threads)


@functools.lru_cache(maxsize=None)
def library() -> Optional[Library]:
    """The compiled code, or ``None`` where it was not built or cannot be loaded.

    This is the one place that decides whether compiled code is used. Factories call it as an
    attribute of this module, so a test that replaces it turns compiled code off everywhere.
    """
    path = _built()
    if path is None:
        return None
    try:
        return Library(path)
    except (OSError, ValueError, AttributeError) as problem:
        logger.warning("%s: %s; decoding is slower without. %s", path, problem, how_to_install())
        return None


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


@functools.lru_cache(maxsize=None)
def warn_if_not_built() -> None:
    """Say once that nothing was built, and what helps; call it for models that it would help."""
    # A file that was built and cannot be loaded has been named by library().
    if _built() is None:
        logger.warning(
            "fairseq_fastdec was installed without its compiled code, and decodes more slowly. "
            "Install a C++ compiler (such as g++). %s",
            how_to_install(),
        )


def how_to_install() -> str:
    """The command that builds the compiled code, in a sentence."""
    sources = Path(__file__).resolve().parents[3]
    is_checkout = (sources / "setup.py").exists()
    place = f"-e {sources}" if is_checkout else "DIRECTORY, with the directory of its sources"
    return f"Install the package again: pip install --force-reinstall --no-deps {place}"


@functools.lru_cache(maxsize=None)
def log_threads(n_threads: int, limit: int, model: str) -> None:
    """Say once, for each such case, how many of its threads a model's first step uses."""
    if limit > 1:
        logger.debug(
            "a decoder of %s: its first step has work for %d of %d threads", model, n_threads, limit
        )


def _built() -> Optional[Path]:
    folder = Path(__file__).parent
    paths = (folder / f"_engine{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)
