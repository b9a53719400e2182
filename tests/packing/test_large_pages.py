"""Tensors in regions of large pages."""

import gc
import mmap
import re
import threading
import weakref
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.packing import large_pages
from fairseq_fastdec.packing.large_pages import LINE, PAGE, REGION, LargePages

ADVICE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
DTYPES = [torch.int8, torch.bfloat16, torch.float32]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3 * PAGE), st.sampled_from(DTYPES)), max_size=8))
def test_tensors_do_not_overlap(asked):
    memory = LargePages()
    tensors = [memory.empty(n, dtype) for n, dtype in asked]
    for number, tensor in enumerate(tensors):
        tensor.fill_(number)
    for number, (tensor, (n, dtype)) in enumerate(zip(tensors, asked)):
        assert tensor.shape == (n,) and tensor.dtype == dtype and tensor.is_contiguous()
        assert n == 0 or tensor.data_ptr() % LINE == 0
        assert (tensor == number).all()


def test_small_tensors_share_a_region_that_begins_with_a_page():
    memory = LargePages()
    first, second = memory.empty(100, torch.int8), memory.empty(100, torch.int8)
    assert first.data_ptr() % PAGE == 0
    assert second.data_ptr() - first.data_ptr() == 128


@pytest.mark.skipif(not ADVICE.exists(), reason="no large pages here: use Linux with them")
def test_the_system_gives_large_pages():
    if "[never]" in ADVICE.read_text():
        pytest.skip(
            "large pages are off: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
        )
    tensor = LargePages().empty(4 * PAGE, torch.int8).zero_()
    assert large_kib_at(tensor.data_ptr()) >= PAGE // 1024


def large_kib_at(address):
    """The KiB of large pages in the mapping that has this address."""
    within = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if bounds := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            begin, end = (int(bound, 16) for bound in bounds.groups())
            within = begin <= address < end
        elif within and line.startswith("AnonHugePages:"):
            return int(line.split()[1])
    return 0


def test_a_tensor_may_be_larger_than_a_region():
    tensor = LargePages().empty(REGION + 1, torch.int8)
    tensor[-1] = 1
    assert tensor.data_ptr() % PAGE == 0


def test_a_region_goes_with_its_last_tensor(monkeypatch):
    regions = []

    class Region(mmap.mmap):
        """A mapping that tells when it is gone."""

    def mapped(*args, **kwargs):
        region = Region(*args, **kwargs)
        regions.append(weakref.ref(region))
        return region

    monkeypatch.setattr(large_pages.mmap, "mmap", mapped)
    memory = LargePages()
    kept, dropped = memory.empty(REGION // 2, torch.int8), memory.empty(10, torch.int8)
    memory.empty(REGION, torch.int8)
    del dropped
    gc.collect()
    assert regions[0]() is not None
    del kept
    gc.collect()
    assert regions[0]() is None


@pytest.mark.parametrize("refused", ["no such advice", "not built for them"])
def test_without_large_pages(monkeypatch, refused):
    if refused == "no such advice":
        monkeypatch.delattr(mmap, "MADV_HUGEPAGE")
    else:

        class Refusing(mmap.mmap):
            def madvise(self, *_):
                raise OSError(22, "Invalid argument")

        monkeypatch.setattr(large_pages.mmap, "mmap", Refusing)
    tensor = LargePages().empty(7, torch.float32)
    assert tensor.shape == (7,) and tensor.dtype == torch.float32


def test_threads_get_memory_of_their_own():
    memory, found = LargePages(), []

    def take(number):
        tensors = [memory.empty(5000, torch.float32).fill_(number) for _ in range(200)]
        found.append(all((tensor == number).all() for tensor in tensors))

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
