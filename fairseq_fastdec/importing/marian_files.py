"""Marian's files of parameters, ``.bin`` and ``.npz``.

The layout of ``.bin`` is that of ``src/common/binary.cpp`` in Marian; lengths are checked against
the size of the file before memory is allocated.
"""

import io
import math
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union

import numpy as np
from numpy.lib import format as npy

from .imported import UnreadableModel

OPTIONS = "special:model.yml"
INT8, INTGEMM8 = 0x0101, 0x4101
TYPES: dict[int, np.dtype[Any]] = {
    INT8: np.dtype("i1"),
    0x0402: np.dtype("<f2"),
    0x0404: np.dtype("<f4"),
}
MOST_DIMENSIONS = 8
# Parameters of fp32 shrink little when they are compressed, and Marian does not compress them.
MOST_COMPRESSION = 50


class Quantised(NamedTuple):
    """A matrix of int8, ``values / multiplier``.

    Attributes:
        values: int8, in the order of the matrix in fp32: ``[in, out]``, and embeddings
            ``[vocabulary, C]``.
        multiplier: 127 / the largest absolute value.
    """

    values: np.ndarray
    multiplier: np.float32

    def dequantised(self) -> np.ndarray:
        """The matrix in fp32."""
        return self.values.astype(np.float32) / self.multiplier


Tensors = dict[str, Union[np.ndarray, Quantised]]


def read_tensors(path: Path) -> Tensors:
    """Read all tensors of a ``.bin`` or ``.npz``; ``special:model.yml`` is an array of int8.

    Raises:
        UnreadableModel: for other files, and for damaged ones.
        OSError: if the file cannot be read.
    """
    with path.open("rb") as file:
        is_zip = file.read(4) == b"PK\x03\x04"
    tensors = dict(_of_npz(path) if is_zip else _of_bin(path))
    for name, tensor in tensors.items():
        values = tensor.multiplier if isinstance(tensor, Quantised) else tensor
        if not np.isfinite(values).all():
            raise UnreadableModel(f"{path}: {name} has values that are not finite")
    return tensors


class _Bytes:
    """A file's bytes, read from the front."""

    def __init__(self, path: Path) -> None:
        self.path, self.data, self.at = path, path.read_bytes(), 0

    def take(self, size: int) -> memoryview:
        """The next bytes.

        Raises:
            UnreadableModel: if the file has fewer.
        """
        if size > len(self.data) - self.at:
            raise UnreadableModel(f"{self.path}: ends after {len(self.data)} bytes; is it whole?")
        self.at += size
        return memoryview(self.data)[self.at - size : self.at]

    def numbers(self, count: int, dtype: str) -> list[int]:
        """The next integers."""
        return np.frombuffer(self.take(count * np.dtype(dtype).itemsize), dtype).tolist()


def _of_bin(path: Path) -> Iterator[tuple[str, Union[np.ndarray, Quantised]]]:
    """The tensors of a ``.bin``, in order."""
    file = _Bytes(path)
    version, count = file.numbers(2, "<u8")
    if version != 1:
        raise UnreadableModel(f"{path}: is not a model of Marian, or an encrypted one")
    fields = file.numbers(4 * count, "<u8")
    lengths, kinds, dimensions, sizes = (fields[first::4] for first in range(4))
    names = [_name(file, length) for length in lengths]
    if len(set(names)) < len(names):
        raise UnreadableModel(f"{path}: has two tensors of one name")
    shapes = [_shape(file, name, number) for name, number in zip(names, dimensions)]
    (padding,) = file.numbers(1, "<u8")
    file.take(padding)
    for name, kind, shape, size in zip(names, kinds, shapes, sizes):
        yield name, _tensor(path, name, kind, shape, file.take(size))


def _name(file: _Bytes, length: int) -> str:
    """The next name, which ends in a zero byte."""
    name, zero, rest = bytes(file.take(length)).partition(b"\0")
    if not name or not zero or rest or not name.isascii():
        raise UnreadableModel(f"{file.path}: has a tensor without a name")
    return name.decode("ascii")


def _shape(file: _Bytes, name: str, dimensions: int) -> list[int]:
    """The next shape."""
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise UnreadableModel(f"{file.path}: {name!r} has {dimensions} dimensions")
    shape = file.numbers(dimensions, "<i4")
    if min(shape) < 1:
        raise UnreadableModel(f"{file.path}: {name!r} has the shape {shape}")
    return shape


def _tensor(
    path: Path, name: str, kind: int, shape: list[int], data: memoryview
) -> Union[np.ndarray, Quantised]:
    """A tensor from its bytes, which may be padded."""
    count = math.prod(shape)
    if kind == INTGEMM8:
        _check_size(path, name, count + 4, data)
        return _quantised(path, name, shape, data)
    if kind not in TYPES:
        raise UnreadableModel(f"{path}: {name!r} has the type {kind:#x}, which is not supported")
    _check_size(path, name, count * TYPES[kind].itemsize, data)
    return np.frombuffer(data, TYPES[kind], count).reshape(shape)


def _check_size(path: Path, name: str, needed: int, data: memoryview) -> None:
    if needed > len(data):
        raise UnreadableModel(f"{path}: {name!r} has {len(data)} bytes, but needs {needed}")


def _quantised(path: Path, name: str, shape: list[int], data: memoryview) -> Quantised:
    """A matrix of int8, which is stored transposed unless it is an embedding."""
    count = math.prod(shape)
    multiplier = np.frombuffer(data, "<f4", 1, offset=count)[0]
    if not multiplier > 0:
        raise UnreadableModel(f"{path}: {name!r} has the multiplier {multiplier}")
    values = np.frombuffer(data, np.int8, count)
    if "Wemb" in name:
        return Quantised(values.reshape(shape), multiplier)
    return Quantised(values.reshape(shape[::-1]).T, multiplier)


def _of_npz(path: Path) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors of an ``.npz``, in order."""
    # zipfile and numpy's reader of headers raise these for files that are damaged.
    damages = (
        zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, SyntaxError, KeyError,
        RuntimeError, NotImplementedError, OverflowError, RecursionError,
    )  # fmt: skip
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(path, archive)
            for member in archive.infolist():
                with archive.open(member) as file:
                    name = member.filename.removesuffix(".npy")
                    yield name, _array(path, name, file.read(member.file_size))
    except UnreadableModel:
        raise
    except damages as error:
        reason = " ".join(str(error).split())
        raise UnreadableModel(f"{path}: is not a whole .npz: {reason:.200}") from error


def _check_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse archives that would need much more memory than their size, and repeated names."""
    members = archive.infolist()
    if len({member.filename for member in members}) < len(members):
        raise UnreadableModel(f"{path}: has two tensors of one name")
    if sum(member.file_size for member in members) > MOST_COMPRESSION * path.stat().st_size:
        raise UnreadableModel(f"{path}: is compressed more than {MOST_COMPRESSION} times")
    if any(
        member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members
    ):
        raise UnreadableModel(f"{path}: has members of another compression than deflate")


def _array(path: Path, name: str, data: bytes) -> np.ndarray:
    """An array from the bytes of an ``.npy``.

    numpy's own reader allocates what the header says, however long the file is.
    """
    shape, in_fortran_order, dtype, start = _header(data)
    if dtype not in TYPES.values():
        raise UnreadableModel(f"{path}: {name!r:.100} has the type {dtype}; it is not supported")
    if any(size < 1 for size in shape):
        raise UnreadableModel(f"{path}: {name!r:.100} has the shape {list(shape)}")
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise UnreadableModel(f"{path}: {name!r:.100} has {len(data) - start} bytes of {shape}")
    values = np.frombuffer(data, dtype, offset=start)
    return values.reshape(shape[::-1]).T if in_fortran_order else values.reshape(shape)


def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """The shape, the order, the type and the length of the header of an ``.npy``."""
    file = io.BytesIO(data)
    major, _ = npy.read_magic(file)
    read = npy.read_array_header_1_0 if major == 1 else npy.read_array_header_2_0
    shape, in_fortran_order, dtype = read(file)
    return shape, in_fortran_order, dtype, file.tell()
