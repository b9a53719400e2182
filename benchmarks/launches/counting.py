"""Counts torch's operators, the results that Python reads, and the tensors that are allocated.

On a GPU, an operator is one or several launches of kernels, and reading a result waits until all
launched kernels have finished.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operators that read their input, some to find the size of their result.
READING = {
    "_local_scalar_dense", "_unique2", "bincount", "equal", "is_nonzero", "masked_select",
    "nonzero", "unique_consecutive", "unique_dim",
}  # fmt: skip
# Those with indices, which read bool ones.
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
# Methods of tensors that read them without an operator.
READING_METHODS = {"tolist", "numpy", "cpu"}
# Operators that only allocate, or read a number.
WITHOUT_KERNEL = {
    "_local_scalar_dense", "detach", "empty", "empty_like", "empty_strided", "lift_fresh",
    "new_empty", "new_empty_strided",
}  # fmt: skip


@dataclass
class Counts:
    """Counts of one step.

    Attributes:
        operators: those that compute something; views do not.
        reads: results that Python reads.
        tensors: those that are allocated.
    """

    operators: int = 0
    reads: int = 0
    tensors: int = 0


class Counter:
    """Counts by step.

    Attributes:
        steps: the counts before the first step, of the first step, ...
    """

    def __init__(self) -> None:
        self.steps = [Counts()]

    @property
    def now(self) -> Counts:
        """The counts of the current step."""
        return self.steps[-1]

    @contextlib.contextmanager
    def counting(self, owner: Any, name: str) -> Iterator[None]:
        """Count in this context; a step begins with each call of a method.

        Args:
            owner, name: the class and its method.
        """
        called: Callable[..., Any] = getattr(owner, name)

        def begin(*args: Any, **kwargs: Any) -> Any:
            self.steps.append(Counts())
            return called(*args, **kwargs)

        setattr(owner, name, begin)
        try:
            with _Methods(self), _Operators(self):
                yield
        finally:
            setattr(owner, name, called)


class _Operators(TorchDispatchMode):
    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter
        self._kinds: dict[Any, tuple[str, bool, bool]] = {}

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore
        name, is_view, is_new = self._kinds.setdefault(operation, _kind_of(operation))
        result, now = operation(*args, **(kwargs or {})), self._counter.now
        now.operators += not is_view and name not in WITHOUT_KERNEL
        now.reads += name in READING or (name in INDEXING and any(map(_is_mask, args[1])))
        if is_new:
            now.tensors += sum(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(result))
        return result


class _Methods(TorchFunctionMode):
    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore
        self._counter.now.reads += getattr(function, "__name__", "") in READING_METHODS
        return function(*args, **(kwargs or {}))


def _kind_of(operation: Any) -> tuple[str, bool, bool]:
    """The name of an operator, whether it returns views, and whether it returns new tensors."""
    schema = operation._schema
    aliases = [result.alias_info for result in schema.returns]
    is_view = bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)
    return schema.name.split("::")[1], is_view, bool(aliases) and aliases[0] is None


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype == torch.bool
