"""The file of a bundle: a description in JSON and the arrays that it names, mapped when it is read.

The file begins with a head of 64 bytes: a mark, the version of the format (uint32), the length of
the description, that of the file (uint64), and the SHA-256 of all other bytes, all with the lowest
byte first. The description follows, and the arrays behind it.
"""

import hashlib
import json
import mmap
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..data.model_files import PathLike
from ..engine.kernels.parts import EnginePart

MARK = b"FASTDEC\n"
VERSION = 1
HEAD = struct.Struct("<8sIxxxxQQ32s")
DIGEST = 32
# Arrays begin with a line of the caches.
LINE = 64


def is_bundle(path: Any) -> bool:
    """Whether a path names a file that begins as bundles do."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MARK)) == MARK


def write(path: PathLike, content: dict[str, Any]) -> None:
    """Write a bundle; an existing file is replaced once the new one is complete.

    Args:
        content: what JSON can hold, numpy arrays, bytes and :class:`EnginePart` objects.
    """
    arrays: list[np.ndarray] = []
    described = json.dumps(_described(content, arrays, {}), separators=(",", ":")).encode()
    length = HEAD.size + sum(len(piece) for piece in _pieces(described, arrays))
    head = HEAD.pack(MARK, VERSION, len(described), length, b"")[:-DIGEST]
    digest = hashlib.sha256(head)
    temporary = Path(f"{os.fspath(path)}.part")
    with open(temporary, "wb") as file:
        file.write(head + bytes(DIGEST))
        for piece in _pieces(described, arrays):
            file.write(piece)
            digest.update(piece)
        file.seek(len(head))
        file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def read(path: PathLike) -> dict[str, Any]:
    """The content of a bundle; arrays are mapped, and read-only.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is no bundle, is of another version, was cut short or changed.
    """
    with open(path, "rb") as file:
        # An empty file cannot be mapped.
        size = os.fstat(file.fileno()).st_size
        return parse(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b"", path)


def parse(data: Any, path: PathLike) -> dict[str, Any]:
    """The content of a bundle in memory; arrays are views of it.

    Args:
        data: the bytes of the file: an object with a buffer, at an address that 64 divides.
        path: of the file, for messages.

    Raises:
        ValueError: see :func:`read`.
    """
    whole = memoryview(data).cast("B")
    head, size = bytes(whole[: HEAD.size]), len(whole)
    if not head.startswith(MARK):
        raise ValueError(f"{path}: not a bundle; make one with python -m fairseq_fastdec export")
    again = "copy or export it again"
    if len(head) < HEAD.size:
        raise ValueError(f"{path}: cut short, {size} bytes; {again}")
    _, version, n_described, length, digest = HEAD.unpack(head)
    if version != VERSION:
        raise ValueError(
            f"{path}: a bundle of version {version}, and this package reads version {VERSION}; "
            "export it again"
        )
    if size < length:
        raise ValueError(f"{path}: cut short, {size} of {length} bytes; {again}")
    content = whole[HEAD.size :]
    found = hashlib.sha256(head[:-DIGEST])
    found.update(content)
    if size != length or found.digest() != digest:
        raise ValueError(f"{path}: changed since it was exported; {again}")
    first = n_described + -(HEAD.size + n_described) % LINE
    return _restored(json.loads(bytes(content[:n_described])), content[first:])


def _pieces(described: bytes, arrays: list[np.ndarray]) -> Iterator[Any]:
    yield described + bytes(-(HEAD.size + len(described)) % LINE)
    for array in arrays:
        yield array.data.cast("B") if array.size else b""
        yield bytes(-array.nbytes % LINE)


def _described(value: Any, arrays: list[np.ndarray], places: dict[Any, dict[str, Any]]) -> Any:
    """A value in JSON; its arrays come to ``arrays``, each once.

    Args:
        places: what stands for the arrays that have been described.
    """
    if isinstance(value, EnginePart):
        return {"part": value.kind, "arguments": _described(value.arguments, arrays, places)}
    if isinstance(value, bytes):
        return {"bytes": _described(np.frombuffer(value, np.uint8), arrays, places)}
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        key = (array.ctypes.data, array.shape, array.dtype.str)
        if key not in places:
            offset = sum(own.nbytes + -own.nbytes % LINE for own in arrays)
            arrays.append(array)
            places[key] = {"array": [array.dtype.str, list(array.shape), offset]}
        return places[key]
    if isinstance(value, dict):
        return {"dict": {name: _described(own, arrays, places) for name, own in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [_described(own, arrays, places) for own in value]}
    if isinstance(value, list):
        return [_described(own, arrays, places) for own in value]
    return value


def _restored(value: Any, data: memoryview) -> Any:
    """The opposite of :func:`_described`."""
    if isinstance(value, list):
        return [_restored(own, data) for own in value]
    if not isinstance(value, dict):
        return value
    if "part" in value:
        return EnginePart(value["part"], _restored(value["arguments"], data))
    if "dict" in value:
        return {name: _restored(own, data) for name, own in value["dict"].items()}
    if "tuple" in value:
        return tuple(_restored(own, data) for own in value["tuple"])
    if "bytes" in value:
        return _restored(value["bytes"], data).tobytes()
    dtype, shape, offset = value["array"]
    n = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(data, np.dtype(dtype), n, offset).reshape(shape)
