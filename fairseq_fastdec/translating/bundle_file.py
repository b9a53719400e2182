"""The file format of bundles: a JSON description, and arrays that are memory-mapped.

The file begins with a header of 64 bytes, in little-endian order: a mark, the version of the format
(uint32), the lengths of the description and of the file (uint64), and the SHA-256 of all other
bytes. The description follows, then the arrays.
"""

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any, Optional

import numpy as np

from ..data.atomic_files import replacing
from ..data.model_files import PathLike
from ..engine.kernels.parts import EnginePart

MARK = b"FASTDEC\n"
VERSION = 2
# The first version had other names of options, see bundle_options.py.
READABLE = (1, 2)
HEAD = struct.Struct("<8sIxxxxQQ32s")
DIGEST = 32
PIECE = 2**18
# Arrays are aligned to cache lines.
LINE = 64


def is_bundle(path: Any) -> bool:
    """Return True if a path is a file with the mark of a bundle."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MARK)) == MARK


def write(path: PathLike, content: dict[str, Any]) -> None:
    """Write a bundle; an existing file is replaced once the new one is complete.

    Args:
        content: JSON values, tuples, numpy arrays, bytes and :class:`EnginePart` objects.

    Raises:
        OSError: if the file cannot be written, or is a directory or a device.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: is not a regular file; name another one")
    arrays: list[np.ndarray] = []
    described = json.dumps(_described(content, arrays, {}), separators=(",", ":")).encode()
    length = HEAD.size + sum(len(piece) for piece in _pieces(described, arrays))
    head = HEAD.pack(MARK, VERSION, len(described), length, b"")[:-DIGEST]
    digest = hashlib.sha256(head)
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(head + bytes(DIGEST))
        for piece in _pieces(described, arrays):
            file.write(piece)
            digest.update(piece)
        file.seek(len(head))
        file.write(digest.digest())


def read(path: PathLike) -> dict[str, Any]:
    """Read a bundle. Its arrays are read-only and memory-mapped.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if the file is not a bundle, has another version, is truncated or has changed.
    """
    with open(path, "rb", buffering=0) as file:
        # An empty file cannot be mapped.
        size = os.fstat(file.fileno()).st_size
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        return parse(mapped, path, file)


def parse(data: Any, path: PathLike, file: Optional[FileIO] = None) -> dict[str, Any]:
    """Parse a bundle in memory. Its arrays are views of the data.

    Args:
        data: the bytes of the file: an object with a buffer that is aligned to 64 bytes.
        path: the name of the file, for messages.
        file: the file that is mapped to ``data``. The checksum is computed from it, so that parts
            which are not used, such as the embeddings of rare types, never occupy memory.

    Raises:
        ValueError: see :func:`read`.
    """
    whole = memoryview(data).cast("B")
    head, size = bytes(whole[: HEAD.size]), len(whole)
    if not head.startswith(MARK):
        raise ValueError(f"{path}: not a bundle; create one with python -m fairseq_fastdec export")
    again = "copy or export it again"
    if len(head) < HEAD.size:
        raise ValueError(f"{path}: truncated, {size} bytes; {again}")
    _, version, n_described, length, digest = HEAD.unpack(head)
    if version not in READABLE:
        raise ValueError(
            f"{path}: the bundle has version {version}, but this package reads versions up to "
            f"{VERSION}; export it again"
        )
    if size < length:
        raise ValueError(f"{path}: truncated, {size} of {length} bytes; {again}")
    content = whole[HEAD.size :]
    found = hashlib.sha256(head[:-DIGEST])
    for piece in [content] if file is None else _rest_of(file):
        found.update(piece)
    if size != length or found.digest() != digest:
        raise ValueError(f"{path}: changed since it was exported; {again}")
    first = n_described + -(HEAD.size + n_described) % LINE
    return _restored(json.loads(bytes(content[:n_described])), content[first:])


def _rest_of(file: FileIO) -> Iterator[memoryview]:
    """The bytes behind the header, in pieces that are valid until the next one."""
    buffer = memoryview(bytearray(PIECE))
    file.seek(HEAD.size)
    while n := file.readinto(buffer):
        yield buffer[:n]


def _pieces(described: bytes, arrays: list[np.ndarray]) -> Iterator[Any]:
    yield described + bytes(-(HEAD.size + len(described)) % LINE)
    for array in arrays:
        yield array.data.cast("B") if array.size else b""
        yield bytes(-array.nbytes % LINE)


def _described(value: Any, arrays: list[np.ndarray], places: dict[Any, dict[str, Any]]) -> Any:
    """Convert a value to JSON, and append its arrays to ``arrays``, each once.

    Args:
        places: the descriptions of the arrays so far, by address, shape and type.
    """
    if isinstance(value, EnginePart):
        return {"part": value.kind, "arguments": _described(value.arguments, arrays, places)}
    if isinstance(value, bytes):
        return {"bytes": _described(np.frombuffer(value, np.uint8), arrays, places)}
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        key = (array.ctypes.data, array.shape, array.dtype.str)
        if key not in places:
            offset = sum(other.nbytes + -other.nbytes % LINE for other in arrays)
            arrays.append(array)
            places[key] = {"array": [array.dtype.str, list(array.shape), offset]}
        return places[key]
    if isinstance(value, dict):
        return {"dict": {name: _described(item, arrays, places) for name, item in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [_described(item, arrays, places) for item in value]}
    if isinstance(value, list):
        return [_described(item, arrays, places) for item in value]
    return value


def _restored(value: Any, data: memoryview) -> Any:
    """The inverse of :func:`_described`."""
    if isinstance(value, list):
        return [_restored(item, data) for item in value]
    if not isinstance(value, dict):
        return value
    if "part" in value:
        return EnginePart(value["part"], _restored(value["arguments"], data))
    if "dict" in value:
        return {name: _restored(item, data) for name, item in value["dict"].items()}
    if "tuple" in value:
        return tuple(_restored(item, data) for item in value["tuple"])
    if "bytes" in value:
        return _restored(value["bytes"], data).tobytes()
    dtype, shape, offset = value["array"]
    n = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(data, np.dtype(dtype), n, offset).reshape(shape)
