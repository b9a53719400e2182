"""Modules that another import has loaded while they were being looked for."""

import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType


class KnownLoader(Loader):
    """Gives a module that there is already, and leaves it as it is."""

    def __init__(self, spec: ModuleSpec) -> None:
        """
        Args:
            spec: the module's own.
        """
        self._spec = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that there is."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Give it back its own specification."""
        module.__spec__ = self._spec


def known(name: str) -> ModuleSpec:
    """The specification of a module that was imported while it was being looked for.

    The import system prefers the module's own specification, by which it would run it once more.
    """
    module = sys.modules[name]
    assert module.__spec__ is not None
    module.__spec__ = ModuleSpec(name, KnownLoader(module.__spec__))
    return module.__spec__
