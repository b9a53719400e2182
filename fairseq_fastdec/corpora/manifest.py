"""The manifest of a translation: its settings and whether it is complete."""

import json
from pathlib import Path
from typing import Any, Optional

from ..data.kept_settings import compare_settings, damaged, read_settings, write_settings
from .output_lines import STOP

# The option for the output file.
FLAG = "--output"


class Manifest:
    """The file ``manifest.json`` of a translation's directory."""

    def __init__(self, directory: Path) -> None:
        """
        Args:
            directory: an existing one.

        Raises:
            OSError: if the file cannot be read.
            ValueError: if it is damaged.
        """
        self.path = directory / "manifest.json"
        kept = read_settings(self.path, FLAG)
        self._is_new = kept is None
        self._kept = {"settings": {}} if kept is None else kept
        if not _is_whole(self._kept):
            raise damaged(self.path, FLAG)

    @property
    def finished(self) -> Optional[dict[str, Any]]:
        """The size, digest and counts of the output; ``None`` before it is complete."""
        return self._kept.get("finished")

    @property
    def chunk_size(self) -> Optional[int]:
        """The lines of a chunk; ``None`` for a new translation."""
        return self._kept["settings"].get("chunk_size")

    def check(self, settings: dict[str, Any]) -> None:
        """Store the settings of a new translation, or compare them with the stored ones.

        Raises:
            OSError: if they cannot be written.
            ValueError: if they differ; the message names the difference.
        """
        settings = json.loads(json.dumps(settings))
        kept = dict(settings if self._is_new else self._kept["settings"])
        if kept.get("on_error") == STOP:
            # All lines so far have been translated, so the option may change.
            kept["on_error"] = settings["on_error"]
        compare_settings(self.path, kept, settings, FLAG)
        if kept != self._kept["settings"]:
            self._write(settings=settings)

    def finish(self, output: Optional[dict[str, Any]]) -> None:
        """Record that the output is complete.

        Args:
            output: its size, digest and counts; ``None`` if it is no longer complete.
        """
        self._write(finished=output)

    def _write(self, **changed: Any) -> None:
        kept = {**self._kept, **changed}
        self._kept = {name: value for name, value in kept.items() if value is not None}
        write_settings(self.path, self._kept)
        self._is_new = False


def _is_whole(kept: dict[str, Any]) -> bool:
    """Whether a manifest has all values that :class:`Manifest` reads."""
    settings, finished = kept.get("settings"), kept.get("finished", {"size": 0, "counts": {}})
    return (
        isinstance(settings, dict)
        and _is_number(settings.get("chunk_size", 1), 1)
        and isinstance(finished, dict)
        and _is_number(finished.get("size"), 0)
        and isinstance(finished.get("counts"), dict)
        and all(_is_number(count, 0) for count in finished["counts"].values())
    )


def _is_number(value: Any, least: int) -> bool:
    return type(value) is int and value >= least
