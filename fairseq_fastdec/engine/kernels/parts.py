"""Descriptions of the engine's objects, from which they are built, and which a file can hold."""

from dataclasses import dataclass
from typing import Any

from . import loading


@dataclass(frozen=True)
class EnginePart:
    """An object of the extension module ``_engine`` before it is built.

    Attributes:
        kind: its class: ``Model``, ``Network``, ``Linear``, ``Norm``, ``Heads`` or ``Drafter``.
        arguments: of the class, by name: numbers, numpy arrays, other parts, and lists, tuples and
            dictionaries of these.
    """

    kind: str
    arguments: dict[str, Any]

    def built(self) -> Any:
        """The object. It shares the memory of the arrays."""
        arguments = {name: _built(value) for name, value in self.arguments.items()}
        return getattr(loading.library(), self.kind)(**arguments)


def _built(value: Any) -> Any:
    if isinstance(value, EnginePart):
        return value.built()
    if isinstance(value, dict):
        return {name: _built(own) for name, own in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_built(own) for own in value)
    return value
