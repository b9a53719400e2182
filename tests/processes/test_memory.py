"""Pages of a mapped file leave memory, and are read again."""

import ctypes
import mmap
import subprocess
import sys

import pytest
import torch

from fairseq_fastdec.processes import memory


@pytest.mark.skipif(sys.platform != "linux", reason="pages are let go on Linux only: run it there")
def test_whole_pages_leave_memory(tmp_path):
    path = tmp_path / "numbers"
    n_bytes = 4 * mmap.PAGESIZE
    path.write_bytes(bytes(range(256)) * (n_bytes // 256))
    storage = torch.UntypedStorage.from_file(str(path), False, n_bytes)
    numbers = torch.empty(0, dtype=torch.uint8).set_(storage)
    before = numbers.clone()
    # What is written to a private mapping is gone with its page: only whole pages go.
    numbers[100] = numbers[mmap.PAGESIZE + 100] = numbers[3 * mmap.PAGESIZE + 100] = 7
    memory.forget_pages(numbers.data_ptr() + 50, 3 * mmap.PAGESIZE)
    changed = (numbers != before).nonzero().flatten().tolist()
    assert changed == [100, 3 * mmap.PAGESIZE + 100]


def test_elsewhere_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory, "_c_library", lambda: None)
    memory.trim()
    memory.forget_pages(0, 1 << 20)


def test_a_c_library_without_trim(monkeypatch):
    monkeypatch.setattr(memory, "_c_library", object)
    memory.trim()


MAPPED = """
import ctypes
import numpy
from fairseq_fastdec.processes import memory

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

library = ctypes.CDLL(None)
library.mallinfo2.restype = Info

def has_own_pages(n_bytes):
    before = library.mallinfo2().hblks
    piece = numpy.empty(n_bytes, numpy.uint8)
    return library.mallinfo2().hblks > before

with memory.large_pieces_apart():
    print(has_own_pages(2 << 20), has_own_pages(1000))
print(has_own_pages(2 << 20), has_own_pages(64 << 20))
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc 2.33 counts: use it")
@pytest.mark.parametrize(
    "setting, expected",
    [
        ({}, "True False False True"),
        ({"MALLOC_MMAP_THRESHOLD_": str(16 << 20)}, "False False False True"),
        ({"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=16777216"}, "False False False True"),
    ],
    ids=["unset", "environment", "tunables"],
)
def test_large_pieces_have_pages_of_their_own_for_a_while(setting, expected, monkeypatch):
    for name in (*memory.SETTINGS, memory.TUNABLES):
        monkeypatch.delenv(name, raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    done = subprocess.run(
        [sys.executable, "-c", MAPPED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == expected.split()


def test_without_settings_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory, "_c_library", object)
    with memory.large_pieces_apart():
        pass
