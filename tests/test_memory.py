"""Pages of a mapped file leave memory, and are read again."""

import mmap
import sys

import pytest
import torch

from fairseq_fastdec import memory


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
