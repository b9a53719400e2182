"""Packages whose names are imported when they are first read (PEP 562)."""

import importlib
from collections.abc import Callable
from typing import Any


def names(package: str, places: dict[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Args:
        package: its ``__name__``.
        places: by name, the module below the package that defines it, such as ``".models"``.
    """

    def read(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(places[name], package), name)

    return read
