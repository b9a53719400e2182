"""The values of JSON files of Hugging Face, checked as they are read."""

from pathlib import Path
from typing import Any, Optional

from .imported import UnreadableModel
from .tensors import read_json


class Fields:
    """The values of a JSON object.

    Attributes:
        path: the file, for messages.
        values: all values by name. Those that are ``null`` count as missing.
    """

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self.path = path
        self.values = {name: value for name, value in values.items() if value is not None}

    @classmethod
    def read(cls, path: Path, required: bool = False) -> "Fields":
        """Read a file; a file that is missing and not required has no values.

        Raises:
            FileNotFoundError: if a required file is missing.
            UnreadableModel: if it is damaged.
        """
        return cls(path, read_json(path) if required or path.exists() else {})

    def problem(self, name: str, remedy: str) -> UnreadableModel:
        """The error for a value that cannot be used."""
        shown = " ".join(repr(self.values.get(name)).split())[:100]
        return UnreadableModel(f"{self.path}: {name} is {shown}; {remedy}")

    def count(
        self, name: str, default: Optional[int] = None, least: int = 0, most: int = 10**7
    ) -> int:
        """An integer between ``least`` and ``most``.

        Raises:
            UnreadableModel: for another value, or if it is missing and has no default.
        """
        value = self.values.get(name, default)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise self.problem(name, f"it must be an integer between {least} and {most}")

    def number(self, name: str, default: float) -> float:
        """A finite number.

        Raises:
            UnreadableModel: for another value.
        """
        value = self.values.get(name, default)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e9:
            return value
        raise self.problem(name, "it must be a number")

    def flag(self, name: str, default: bool) -> bool:
        """True or False.

        Raises:
            UnreadableModel: for another value.
        """
        value = self.values.get(name, default)
        if isinstance(value, bool):
            return value
        raise self.problem(name, "it must be true or false")

    def text(self, name: str) -> Optional[str]:
        """A text; ``None`` if it is missing.

        Raises:
            UnreadableModel: for another value.
        """
        value = self.values.get(name)
        if value is None or isinstance(value, str):
            return value
        raise self.problem(name, "it must be a text")

    def type_number(self, name: str, default: Optional[int] = None) -> Optional[int]:
        """The number of a type, which can be a list of one; ``None`` if it is missing.

        Raises:
            UnreadableModel: for another value.
        """
        value = self.values.get(name, default)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
            return value
        raise self.problem(name, "it must be the number of one type")
