"""Loads a checkpoint's weights from its file into the model without an intermediate copy.

fairseq reads a whole checkpoint, including the optimizer's state, creates the model, and copies the
weights. When only models are loaded (fairseq-generate and -interactive, the hub, the tools),
:func:`install` maps the file instead, and copies each parameter in small pieces. fairseq-train
reads checkpoints as before. So are files that cannot be mapped: those from before torch 1.6, those
with compressed tensors, and all files on systems other than Linux.

Mapped files are also read with torch's restricted unpickler. The mapping ends when the models are
loaded, so the file can be overwritten later.

Matrices of models that only decode stay in the file even then (:func:`read_weights`). Most are read
when the engine prepares them, one layer at a time, and are freed afterwards. So fairseq's model is
never in memory as a whole.
"""

import contextlib
import copy
import functools
import inspect
import os
import sys
import threading
import weakref
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Optional

import torch
from fairseq import checkpoint_utils
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ..processes.memory import forget_pages, large_pieces_apart, trim
from .wrapping import wrap

# The number of bytes that are copied at a time.
PIECE = 1 << 22
FIRST_BYTES = b"PK\x03\x04"
# An attribute of parameters that are not read yet: the mapped tensor.
IN_FILE = "_fastdec_in_file"
# Functions that initialise parameters with random values.
DRAWS = {
    Tensor.normal_, Tensor.uniform_, nn.init.normal_, nn.init.uniform_, nn.init.kaiming_uniform_,
    nn.init.kaiming_normal_, nn.init.xavier_uniform_, nn.init.xavier_normal_,
}  # fmt: skip

_DATA = Tensor.data.__get__  # type: ignore[attr-defined]
_one_at_a_time = threading.RLock()
_copying: ContextVar[Optional["CopyByPieces"]] = ContextVar("copying", default=None)


def install() -> None:
    """Make fairseq map checkpoints when it loads only models."""
    wrap(checkpoint_utils, "load_checkpoint_to_cpu", _mapping_files)
    wrap(checkpoint_utils, "load_model_ensemble_and_task", _copying_by_pieces)


class CopyByPieces(TorchFunctionMode):
    """In this context, ``copy_`` from a mapped tensor works in pieces, whose pages are freed.

    ``Module.load_state_dict`` uses ``copy_``.
    """

    def __init__(self, defers: bool = False) -> None:
        """
        Args:
            defers: leave matrices in the file, and skip the random initialisation of parameters,
                which would allocate their memory.
        """
        super().__init__()
        self._defers = defers
        self._parameters: dict[int, weakref.ref[nn.Parameter]] = {}
        self._states: list[dict[str, Any]] = []
        self._tensors: list[Tensor] = []
        self._stretches: list[tuple[int, int]] = []

    def add(self, path: str, state: dict[str, Any]) -> None:
        """Register a mapped checkpoint.

        Its tensors and the mapping are kept until :meth:`close`, so that its addresses are not
        reused.
        """
        self._states.append(state)
        self._tensors += _tensors_of(state)
        self._stretches += _stretches_of(path)

    def close(self) -> None:
        """Clear the checkpoints, which ends the mappings.

        Reference cycles of fairseq and omegaconf would otherwise keep them until garbage
        collection, which is slow.
        """
        for state in self._states:
            _weights_of(state).clear()
            state.clear()
        self._states, self._tensors, self._stretches = [], [], []

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: Optional[dict] = None
    ) -> Any:
        kwargs = kwargs or {}
        is_copy = function is torch.Tensor.copy_ and len(args) == 2 and not kwargs
        if self._defers and not is_copy:
            target = args[0] if args else kwargs.get("tensor")
            if function in DRAWS and self._is_of_parameter(target):
                return target
            if isinstance(target, nn.Parameter):
                read_weight(target)
                if function == _DATA:
                    self._parameters[target.data_ptr()] = weakref.ref(target)
        if not is_copy or not self._is_mapped(args[1]):
            return function(*args, **kwargs)
        target, source = args
        is_matrix = isinstance(target, nn.Parameter) and target.dim() == 2
        if self._defers and is_matrix and target.shape == source.shape:
            setattr(target, IN_FILE, source)
        else:
            _copy_by_pieces(target, source)
        return target

    def _is_of_parameter(self, tensor: Any) -> bool:
        """Whether a tensor is a parameter or the ``data`` of one."""
        if isinstance(tensor, nn.Parameter) or not isinstance(tensor, Tensor):
            return isinstance(tensor, nn.Parameter)
        known = self._parameters.get(tensor.data_ptr(), lambda: None)()
        return known is not None and known.shape == tensor.shape

    def _is_mapped(self, source: Any) -> bool:
        if not isinstance(source, Tensor) or source.layout != torch.strided or not source.numel():
            return False
        first, size = _place_of(source)
        return any(start <= first and first + size <= end for start, end in self._stretches)


def _copying_by_pieces(load_models: Callable, *args: Any, **kwargs: Any) -> Any:
    task = inspect.signature(load_models).bind(*args, **kwargs).arguments.get("task")
    copying = CopyByPieces(defers=getattr(task, "defers_weights", False))
    before = _copying.set(copying)
    try:
        with copying, large_pieces_apart():
            loaded = load_models(*args, **kwargs)
        for model in loaded[0]:
            _read_all_but_layers(model)
            _read_when_called(model)
        return loaded
    finally:
        _copying.reset(before)
        copying.close()
        trim()


def read_weights(modules: Iterable[nn.Module], but: Collection[Tensor] = ()) -> None:
    """Read the parameters that were left in their files.

    Args:
        but: parameters that stay in the file. They are read when the engine prepares them
            (:func:`read_weight`) or when a module that uses them is called.
    """
    stay = set(map(id, but))
    for module in modules:
        for parameter in module.parameters():
            if id(parameter) not in stay:
                read_weight(parameter)


def read_weight(parameter: Tensor) -> None:
    """Read a parameter if it was left in its file."""
    source = getattr(parameter, IN_FILE, None)
    if source is not None:
        delattr(parameter, IN_FILE)
        _copy_by_pieces(parameter.data, source)


def _read_all_but_layers(model: nn.Module) -> None:
    """Read parameters that may be used without calling their module.

    weight_norm computes weights from other parameters in a hook, which fairseq removes before
    decoding.
    """
    for module in model.modules():
        if type(module) not in (nn.Linear, nn.Embedding) or module._forward_pre_hooks:
            for parameter in module.parameters(recurse=False):
                read_weight(parameter)


def _read_when_called(model: nn.Module) -> None:
    """Read the weights of a module when it is first called."""
    for module in model.modules():
        # Attention uses the weights of its layers without calling them.
        near = [module, *module.children()]
        parameters = [parameter for m in near for parameter in m.parameters(recurse=False)]
        if any(hasattr(parameter, IN_FILE) for parameter in parameters):
            module.register_forward_pre_hook(_read_near)
            module.register_state_dict_pre_hook(_read_near)


def _read_near(module: nn.Module, *_: Any) -> None:
    """Read the parameters of a module and its parts; later calls need no hook."""
    for number, hook in [*module._forward_pre_hooks.items()]:
        if hook is _read_near:
            module._forward_pre_hooks.pop(number, None)
    for near in (module, *module.children()):
        for parameter in near.parameters(recurse=False):
            read_weight(parameter)


def _mapping_files(load_checkpoint: Callable, *args: Any, **kwargs: Any) -> Any:
    copying = _copying.get()
    if copying is None:
        return load_checkpoint(*args, **kwargs)
    with _torch_maps(copying):
        return load_checkpoint(*args, **kwargs)


@contextlib.contextmanager
def _torch_maps(copying: CopyByPieces) -> Iterator[None]:
    """In this context and thread, ``torch.load`` maps the open files that fairseq passes."""
    own_thread = threading.get_ident()

    @functools.wraps(torch.load)
    def load(file: Any, *args: Any, **kwargs: Any) -> Any:
        path = getattr(file, "name", None)
        if threading.get_ident() != own_thread or not isinstance(path, str):
            return read(file, *args, **kwargs)
        state = _mapped(functools.partial(read, path, *args, mmap=True, **kwargs), path)
        if state is None:
            return read(file, *args, **kwargs)
        copying.add(path, state)
        return state

    with _one_at_a_time:
        read, torch.load = torch.load, load  # type: ignore[assignment]
        try:
            yield
        finally:
            torch.load = read


def _mapped(load: Callable[[], Any], path: str) -> Optional[dict[str, Any]]:
    """A checkpoint with mapped tensors; ``None`` if it cannot be mapped."""
    if not can_be_mapped(path):
        return None
    try:
        state = load()
    except RuntimeError:  # e.g. a file system without mmap; other errors recur in reading
        return None
    if not isinstance(state, dict) or not all(map(_is_plain, _tensors_of(state))):
        return None
    if "task_state" in state:
        # Copied, since the task keeps it.
        state["task_state"] = copy.deepcopy(state["task_state"])
    return state


def can_be_mapped(path: str) -> bool:
    """Whether torch can map a checkpoint, and its tensors have the same bytes as in memory."""
    if sys.platform != "linux" or sys.byteorder != "little":
        return False
    try:
        path.encode("utf-8")  # torch maps no files with other names
        with open(path, "rb") as file:
            if file.read(len(FIRST_BYTES)) != FIRST_BYTES:
                return False
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                return False
            orders = [entry for entry in entries if entry.filename.endswith("/byteorder")]
            return all(archive.open(entry).read(len("little") + 1) == b"little" for entry in orders)
    except Exception:  # a damaged file can raise anything; torch will report it
        return False


def _weights_of(state: dict[str, Any]) -> dict[str, Any]:
    weights = state.get("model")
    return weights if isinstance(weights, dict) else {}


def _tensors_of(state: dict[str, Any]) -> list[Tensor]:
    return [value for value in _weights_of(state).values() if isinstance(value, Tensor)]


def _is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is strided and aligned, as in files written by torch."""
    return tensor.layout == torch.strided and tensor.data_ptr() % tensor.element_size() == 0


def _stretches_of(path: str) -> Iterator[tuple[int, int]]:
    """The start and end addresses of a file's mappings."""
    name = os.path.realpath(path)
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            place, *_, mapped = line.rstrip("\n").split(maxsplit=5)
            if mapped == name:
                start, end = (int(address, 16) for address in place.split("-"))
                yield start, end


def _copy_by_pieces(target: Tensor, source: Tensor) -> None:
    """Copy a mapped tensor in pieces and free its pages."""
    for part, piece in _pieces(target, source):
        part.copy_(piece)
        forget_pages(*_place_of(piece))


def _pieces(target: Tensor, source: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Both tensors, split into pieces of several rows."""
    if target.shape != source.shape or source.dim() == 0:
        return iter([(target, source)])
    row = source[0].numel() * source.element_size()
    rows = max(1, PIECE // max(1, row))
    return zip(target.split(rows), source.split(rows))


def _place_of(tensor: Tensor) -> tuple[int, int]:
    """The address of a tensor and its extent in bytes."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()
