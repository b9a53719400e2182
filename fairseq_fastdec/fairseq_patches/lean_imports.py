"""Imports fairseq without the modules that a decoding command does not need.

``import fairseq`` imports all of its tasks, models and criterions, and with them scikit-learn and
SciPy, which is much slower than decoding a sentence with a small model. After :func:`install` these
modules are *deferred*: they run when one of their names is first accessed, or when a registry is
searched for a task or an architecture that it does not contain yet.

This is for processes that only decode (``python -m fairseq_fastdec generate`` and ``interactive``).
It has to be called before fairseq is imported.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Optional

from ..processes.known_modules import known
from ..processes.noise import imports_unheard
from .wrapping import wrap

# The modules of these packages are deferred.
DEFERRED_PACKAGES = (
    "fairseq.benchmark",
    "fairseq.model_parallel.criterions",
    "fairseq.model_parallel.models",
    "fairseq.models",
    "fairseq.tasks",
)
# So are these modules, which import scikit-learn.
DEFERRED_MODULES = (
    "fairseq.criterions.sentence_prediction",
    "fairseq.criterions.sentence_prediction_adapters",
)
# The registries that deferred modules fill when they run.
REGISTRIES = {
    "fairseq.tasks": ("TASK_REGISTRY", "TASK_DATACLASS_REGISTRY"),
    "fairseq.models": (
        "ARCH_CONFIG_REGISTRY", "ARCH_MODEL_INV_REGISTRY", "ARCH_MODEL_NAME_REGISTRY",
        "ARCH_MODEL_REGISTRY", "MODEL_DATACLASS_REGISTRY", "MODEL_REGISTRY",
    ),
}  # fmt: skip

# Decorators that check whether a name is free, which must not load deferred modules.
REGISTERING = {
    "fairseq.tasks": ("register_task",),
    "fairseq.models": ("register_model", "register_model_architecture"),
}

# The commands that only decode.
COMMANDS = ("generate", "interactive")


def is_decoding_command(arguments: Sequence[str]) -> bool:
    """Whether a process was started as ``python -m fairseq_fastdec generate`` or ``interactive``.

    Args:
        arguments: ``sys.orig_argv``.
    """
    package = __name__.partition(".")[0]
    begin = next((at for at, word in enumerate(arguments) if word == "-m"), len(arguments))
    return arguments[begin + 1 : begin + 2] == [package] and any(
        word in COMMANDS for word in arguments[begin + 2 : begin + 3]
    )


def install() -> None:
    """Import fairseq, deferring modules that a decoding command does not need.

    Does nothing if fairseq is already imported.
    """
    if "fairseq" in sys.modules:
        return
    sys.meta_path.insert(0, _Finder())
    importlib.import_module("fairseq")
    for package, names in REGISTRIES.items():
        module = importlib.import_module(package)
        together: list[Registry] = []
        for name in names:
            together.append(Registry(getattr(module, name), together))
            setattr(module, name, together[-1])
    for package, names in REGISTERING.items():
        module = importlib.import_module(package)
        for name in names:
            wrap(module, name, _registering)


def load_all() -> None:
    """Run all deferred modules."""
    with _as_they_are():
        while _deferred:
            _run(_deferred[-1])


def class_of(module: str, name: str) -> tuple[type, ...]:
    """A class for ``isinstance``, in a tuple; ``()`` if its module has not run."""
    known = sys.modules.get(module)
    return () if known is None or isinstance(known, _Deferred) else (getattr(known, name),)


def once_run(name: str, call: Callable[[], object]) -> None:
    """Call a function when a module has run: immediately, unless it is deferred."""
    if isinstance(sys.modules.get(name), _Deferred):
        _calls.setdefault(name, []).append(call)
    else:
        call()


def _registering(register: Callable, *args: Any, **kwargs: Any) -> Callable:
    decorate = register(*args, **kwargs)

    def decorate_class(decorated: Any) -> Any:
        with _as_they_are():
            return decorate(decorated)

    return decorate_class


@contextlib.contextmanager
def _as_they_are() -> Iterator[None]:
    """Within this context, registries do not load deferred modules."""
    global _n_within
    _n_within += 1
    try:
        yield
    finally:
        _n_within -= 1


class Registry(dict):
    """A registry of fairseq that runs the deferred modules if a name is missing."""

    def __init__(self, names: dict[Any, Any], together: list["Registry"]) -> None:
        """
        Args:
            together: the registries that are filled by the same modules. If one of them contains a
                name, the module that registers it has run.
        """
        super().__init__(names)
        self._together = together

    def __missing__(self, name: Any) -> Any:
        if name not in self:
            raise KeyError(name)
        return self[name]

    def __contains__(self, name: Any) -> bool:
        is_known = any(dict.__contains__(registry, name) for registry in self._together)
        if not is_known and name is not None and not _n_within:
            load_all()
        return dict.__contains__(self, name)

    def __iter__(self) -> Iterator[Any]:
        load_all()
        return dict.__iter__(self)

    def __len__(self) -> int:
        load_all()
        return dict.__len__(self)

    # Those of dict read it directly. argparse tests membership in the keys, which must not load all
    # modules.
    get: Any = Mapping.get
    keys: Any = Mapping.keys
    items: Any = Mapping.items
    values: Any = Mapping.values


class _Deferred(ModuleType):
    """A module that has not run yet.

    A package has no ``__path__`` until it runs, so that it runs before its submodules are imported.
    """

    def __getattr__(self, name: str) -> Any:
        # inspect and others read special attributes of all modules.
        if name.startswith("__") and name not in ("__all__", "__path__"):
            raise AttributeError(name)
        _run(self)
        return getattr(self, name)


_n_within = 0
_deferred: list[ModuleType] = []
_loaders: dict[str, Loader] = {}
_calls: dict[str, list[Callable[[], object]]] = {}


def _run(module: ModuleType) -> None:
    _deferred.remove(module)
    module.__class__ = ModuleType
    assert module.__spec__ is not None
    path = module.__spec__.submodule_search_locations
    if path is not None:
        module.__path__ = path
    with imports_unheard():
        _loaders.pop(module.__name__).exec_module(module)
    for call in _calls.pop(module.__name__, ()):
        call()


class _DeferringLoader(Loader):
    """Creates a module without running it."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        _loaders[module.__name__] = self._loader
        module.__dict__.pop("__path__", None)
        module.__class__ = _Deferred
        _deferred.append(module)


class _Finder:
    """Finds deferred modules."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[ModuleSpec]:
        """Called by the import system; ``None`` for all other modules."""
        if name.startswith("fairseq.") and name in sys.modules and target is None:
            return known(name)
        if name.rpartition(".")[0] not in DEFERRED_PACKAGES and name not in DEFERRED_MODULES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _DeferringLoader(spec.loader)
        return spec
