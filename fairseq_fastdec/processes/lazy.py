"""Lazy import of a package's names on first access (PEP 562)."""

import importlib
from collections.abc import Callable
from typing import Any


def names(package: str, places: dict[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Args:
        package: the ``__name__`` of the package.
        places: for each name, the submodule that defines it, such as ``".models"``.
    """

    def read(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(places[name], package), name)

    return read
