"""The parameters in a directory of Hugging Face: safetensors, or pickles read without running code.

A large model is split into shards, whose index names the shard of each parameter.
"""

import json
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .imported import UnreadableModel

LoadFile = Callable[[Path], dict[str, Tensor]]
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def read_tensors(directory: Path) -> dict[str, Tensor]:
    """Read all parameters of a directory, in fp32.

    Like transformers, it prefers safetensors to pickles, and one file to shards.

    Raises:
        FileNotFoundError: if there are none, or if a shard is missing.
        UnreadableModel: for a damaged file, a file that would run code, an index that leads out of
            the directory, or parameters that are not floating-point numbers.
    """
    readers: dict[str, LoadFile] = {
        "model.safetensors": _load_safetensors,
        "pytorch_model.bin": _load_pickle,
    }
    for name, load in readers.items():
        path, index = directory / name, directory / f"{name}.index.json"
        if path.exists():
            return _as_fp32(path, load(path))
        if index.exists():
            return _read_shards(index, load)
    raise FileNotFoundError(f"{directory}: has no {' and no '.join(readers)}")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        FileNotFoundError: if the file is missing.
        UnreadableModel: if it is damaged.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise damaged(path, error) from error
    if not isinstance(content, dict):
        raise UnreadableModel(f"{path}: is not a JSON object")
    return content


def damaged(path: Path, error: Exception) -> UnreadableModel:
    """The error for a file that another package could not read, in one line."""
    reason = " ".join(str(error).split()) or type(error).__name__
    return UnreadableModel(f"{path}: is damaged: {reason[:200]}")


def _read_shards(index: Path, load: LoadFile) -> dict[str, Tensor]:
    shard_of = read_json(index).get("weight_map")
    if not isinstance(shard_of, dict):
        raise UnreadableModel(f"{index}: has no weight_map")
    tensors: dict[str, Tensor] = {}
    for path in _shards(index, shard_of.values()):
        tensors.update(_as_fp32(path, load(path)))
    for name, shard in shard_of.items():
        if name not in tensors:
            raise UnreadableModel(f"{index}: {name} is not in {shard}")
    return tensors


def _shards(index: Path, names: Iterable[Any]) -> list[Path]:
    """The files of an index, which lie beside it."""
    shards = {}
    for name in names:
        is_file_name = isinstance(name, str) and name.isprintable() and Path(name).name == name
        if not is_file_name or name in ("", ".."):
            raise UnreadableModel(f"{index}: {name!r} is not a file of the directory")
        shards[name] = index.parent / name
    return list(shards.values())


def _load_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise UnreadableModel(
            f"{path}: needs the package safetensors: pip install safetensors"
        ) from error
    try:
        return load_file(path)
    except OSError:
        raise
    except Exception as error:
        raise damaged(path, error) from error


def _load_pickle(path: Path) -> dict[str, Tensor]:
    """LoadFile a pickle of tensors; files from before torch 1.6 can't be mapped."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: No such file")
    try:
        mapped = zipfile.is_zipfile(path)
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    # torch's unpickler meets damage with any kind of error.
    except Exception as error:
        if "unsupported global" in str(error).lower():
            raise UnreadableModel(
                f"{path}: has more than tensors, and is not loaded since it could run code"
            ) from error
        # torch's message advises to load the file without restrictions.
        is_advice = "weights_only" in str(error).lower()
        raise damaged(path, ValueError("no pickle of tensors") if is_advice else error) from error


def _as_fp32(path: Path, tensors: Any) -> dict[str, Tensor]:
    if not isinstance(tensors, dict):
        raise UnreadableModel(f"{path}: has no parameters by name")
    converted = {}
    for name in list(tensors):
        tensor = tensors.pop(name)
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise UnreadableModel(f"{path}: {name!r} is not a parameter")
        if tensor.dtype not in FLOATS or tensor.layout is not torch.strided or tensor.is_meta:
            raise UnreadableModel(f"{path}: {name} is {tensor.dtype}; it must be floating-point")
        converted[name] = tensor.detach().float()
    return converted
