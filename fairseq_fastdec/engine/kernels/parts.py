"""Descriptions of the engine's objects, which can be built or written to a file."""

from dataclasses import dataclass
from typing import Any

from . import loading

# Names in the first version of bundles, and now.
EARLIER = {"Drafter": "SequentialHeads", "drafter": "sequential"}


@dataclass(frozen=True)
class EnginePart:
    """The description of an object of the extension module ``_engine``.

    Attributes:
        kind: the class: ``Model``, ``Network``, ``Linear``, ``Norm``, ``Heads`` or
            ``SequentialHeads``.
        arguments: the constructor's arguments: numbers, numpy arrays, other parts, and lists,
            tuples and dictionaries of these.
    """

    kind: str
    arguments: dict[str, Any]

    @property
    def is_language_model(self) -> bool:
        """Whether a ``Model`` attends to no source."""
        return "cross" not in self.arguments

    def built(self) -> Any:
        """Build the object. It shares the memory of the arrays."""
        arguments = {EARLIER.get(name, name): _built(own) for name, own in self.arguments.items()}
        return getattr(loading.library(), EARLIER.get(self.kind, self.kind))(**arguments)


def _built(value: Any) -> Any:
    if isinstance(value, EnginePart):
        return value.built()
    if isinstance(value, dict):
        return {name: _built(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_built(item) for item in value)
    return value
