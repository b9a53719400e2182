"""What is written to a bundle is read again, and nothing else is."""

import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.engine.kernels.parts import EnginePart
from fairseq_fastdec.translating.bundle_file import HEAD, LINE, is_bundle, read, write

DTYPES = st.sampled_from(["<f4", "|i1", "<i4", "<u2", "<i8", "|u1"])
ARRAYS = st.builds(
    lambda dtype, shape, first: (np.arange(np.prod(shape)) + first).astype(dtype).reshape(shape),
    DTYPES,
    st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple),
    st.integers(0, 100),
)
NAMES = st.text(max_size=5)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.binary()
SCALARS |= st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS | ARRAYS,
    lambda values: st.lists(values, max_size=3)
    | st.lists(values, max_size=3).map(tuple)
    | st.dictionaries(NAMES, values, max_size=3)
    | st.builds(EnginePart, st.sampled_from(["Linear", "Norm"]), st.dictionaries(NAMES, values)),
    max_leaves=12,
)


def same(one, other):
    if isinstance(one, np.ndarray):
        return (
            isinstance(other, np.ndarray)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and np.array_equal(one, other)
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, EnginePart):
        return one.kind == other.kind and same(one.arguments, other.arguments)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@given(content=st.dictionaries(NAMES, VALUES, max_size=4))
def test_everything_comes_back(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("bundle") / "a.fastdec"
    write(path, content)
    assert is_bundle(path)
    assert same(content, read(path))


def resident(path):
    """The memory that the mapping of a file occupies, in KiB."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.endswith(str(path)))
    return next(int(line.split()[1]) for line in lines[first:] if line.startswith("Rss:"))


@pytest.mark.skipif(
    not Path("/proc/self/smaps").exists(), reason="no /proc/self/smaps: run it on Linux"
)
def test_what_is_not_used_occupies_no_memory(tmp_path):
    path = tmp_path / "bundle"
    write(path, {"one": np.ones(2**22, np.float32)})
    content = read(path)
    assert resident(path) < 2**10
    assert content["one"].sum() == 2**22
    assert resident(path) >= 2**14


def test_an_array_is_written_once_and_mapped(tmp_path):
    array = np.arange(100_000, dtype=np.float32)
    path = tmp_path / "a.fastdec"
    write(path, {"one": array, "other": [EnginePart("Norm", {"weight": array})]})
    assert path.stat().st_size < 1.1 * array.nbytes
    found = read(path)
    assert found["one"].ctypes.data == found["other"][0].arguments["weight"].ctypes.data
    assert found["one"].ctypes.data % LINE == 0
    assert not found["one"].flags.writeable
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "a.fastdec"
    write(path, {"name": "value", "array": np.arange(1000)})
    return path


def test_every_changed_byte_is_noticed(written):
    whole = written.read_bytes()
    for place in [*range(HEAD.size + 40), *range(HEAD.size + 40, len(whole), 97)]:
        changed = bytearray(whole)
        changed[place] ^= 1
        written.write_bytes(changed)
        with pytest.raises(ValueError, match="again|not a bundle"):
            read(written)


@pytest.mark.parametrize("n", [0, 5, 8, 40, HEAD.size, HEAD.size + 10, -1])
def test_a_file_cut_short(written, n):
    written.write_bytes(written.read_bytes()[:n])
    with pytest.raises(ValueError, match="truncated|not a bundle"):
        read(written)


def test_a_file_with_something_behind(written):
    written.write_bytes(written.read_bytes() + b"x")
    with pytest.raises(ValueError, match="changed since it was exported"):
        read(written)


def test_another_version(written):
    whole = bytearray(written.read_bytes())
    struct.pack_into("<I", whole, 8, 7)
    written.write_bytes(whole)
    with pytest.raises(
        ValueError, match="the bundle has version 7, but this package reads versions up to 2"
    ):
        read(written)


def test_what_is_no_bundle(tmp_path, written):
    other = tmp_path / "other.pt"
    other.write_bytes(b"PK\x03\x04 and more")
    assert not is_bundle(other) and not is_bundle(tmp_path) and not is_bundle(tmp_path / "none")
    assert not is_bundle([str(written)]) and is_bundle(str(written))
    with pytest.raises(ValueError, match="not a bundle; create one with"):
        read(other)


def test_special_files_are_not_replaced(written, tmp_path):
    content = {"a": 1}
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(written)
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="is not a regular file"):
            write(path, content)
    write(tmp_path / "link", content)
    assert (tmp_path / "link").is_symlink() and read(written) == content
    assert not list(tmp_path.glob("*.part*"))


def test_a_failed_write_leaves_the_old_file(written):
    before = written.read_bytes()
    with pytest.raises(TypeError):
        write(written, {"object": object()})
    assert written.read_bytes() == before
