"""Handles modules that were imported as a side effect while a finder searched for them."""

import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType


class KnownLoader(Loader):
    """Returns a module that is already imported, without running it again."""

    def __init__(self, spec: ModuleSpec) -> None:
        """
        Args:
            spec: the module's original specification.
        """
        self._spec = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the imported module."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Restore the original specification."""
        module.__spec__ = self._spec


def known(name: str) -> ModuleSpec:
    """The specification of a module that was imported during the search for it.

    The import system would use the module's own specification, and run the module again.
    """
    module = sys.modules[name]
    assert module.__spec__ is not None
    module.__spec__ = ModuleSpec(name, KnownLoader(module.__spec__))
    return module.__spec__
