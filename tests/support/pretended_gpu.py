"""Fake GPU tensors, which report a GPU as device and reject operations with CPU tensors.

They detect errors that otherwise only occur on a GPU: operations on tensors of both devices,
addresses on the wrong device, and choices by ``is_cuda``. They do not test kernels.
"""

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

GPU = torch.device("cuda", 0)
# Operations that allow tensors of both devices: copies, and indices on the CPU.
MEETINGS = ("copy_", "_to_copy", "index", "index_put", "index_put_", "_index_put_impl_")


class PretendedTensor(torch.Tensor):
    """The tensor ``held``, on the fake GPU."""

    @staticmethod
    def __new__(cls, held):
        tensor = torch.Tensor._make_wrapper_subclass(
            cls, held.shape, held.stride(), held.storage_offset(), dtype=held.dtype
        )
        tensor.held = held
        return tensor

    device = property(lambda self: GPU)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    def data_ptr(self):
        return self.held.data_ptr()

    def tolist(self):
        return self.held.tolist()

    def numpy(self, *, force=False):
        assert force, "the tensor is on a GPU"
        return self.held.numpy()

    def new_tensor(self, data):
        return PretendedTensor(self.held.new_tensor(data))

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        return _run(operation, args, kwargs or {})


@contextlib.contextmanager
def pretended_gpu():
    """In this context, tensors created on ``GPU`` or moved there are :class:`PretendedTensor`."""
    with _Transfers(), _Operations():
        yield


def on_gpu(model):
    """Move a model to the fake GPU."""
    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None:
                    tensors[name] = PretendedTensor(tensor.detach().clone())
    return model


class _Operations(TorchDispatchMode):
    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        return _run(operation, args, kwargs or {})


class _Transfers(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = [*args[1:], *kwargs.values()]
        if function is torch.Tensor.cpu or (function is torch.Tensor.to and _names("cpu", given)):
            return _held(args[0]).clone()
        if function is torch.Tensor.to and _names("cuda", given):
            dtypes = [getattr(value, "dtype", value) for value in given]
            dtype = next((value for value in dtypes if isinstance(value, torch.dtype)), None)
            return PretendedTensor(_held(args[0]).clone().to(dtype or args[0].dtype))
        if _names("cuda", [kwargs.get("device")]) and not isinstance(args[0], PretendedTensor):
            return PretendedTensor(function(*args, **{**kwargs, "device": "cpu"}))
        return function(*args, **kwargs)


def _names(kind, given):
    """Whether the arguments contain a device of this kind, or a tensor on one."""
    devices = [value.device if isinstance(value, torch.Tensor) else value for value in given]
    devices = [device for device in devices if isinstance(device, (str, torch.device))]
    return any(torch.device(device).type == kind for device in devices)


def _held(value):
    return value.held if isinstance(value, PretendedTensor) else value


def _run(operation, args, kwargs):
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    pretended = {id(leaf.held): leaf for leaf in tensors if isinstance(leaf, PretendedTensor)}
    others = [leaf for leaf in tensors if not isinstance(leaf, PretendedTensor) and leaf.dim()]
    name = operation._schema.name.split("::")[1]
    may_meet = name in MEETINGS and isinstance(args[0], PretendedTensor)
    if pretended and others and not may_meet:
        raise RuntimeError(f"{operation}: tensors on cuda and on cpu")
    result = operation(*tree_map(_held, args), **tree_map(_held, kwargs))
    if not pretended:
        return result

    def there(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        # In-place operations return their argument.
        return pretended[id(leaf)] if id(leaf) in pretended else PretendedTensor(leaf)

    return tree_map(there, result)
