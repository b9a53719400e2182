"""Settings that are kept beside results: those of different settings must not get mixed."""

import json
from pathlib import Path
from typing import Any, Dict, Optional

from . import atomic_files


def read_settings(path: Path) -> Optional[Dict[str, Any]]:
    """The settings in a file; ``None`` if there is no file.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it holds something else.
    """
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict):
        raise ValueError(
            f"{path}: damaged; delete it if the translations beside it were made with this very "
            "command, or else name another directory"
        )
    return kept


def write_settings(path: Path, settings: Dict[str, Any]) -> None:
    """Keep settings in a file.

    Args:
        settings: values that JSON has.

    Raises:
        OSError: if it cannot be written.
    """
    atomic_files.write_text(path, json.dumps(settings, indent=1) + "\n")


def check_settings(path: Path, settings: Dict[str, Any]) -> None:
    """Keep the settings in a file, or compare them with those that are there.

    Args:
        settings: values that JSON has.

    Raises:
        ValueError: if the file holds other settings, which it names, or something else.
    """
    kept = read_settings(path)
    if kept is None:
        write_settings(path, settings)
    else:
        compare_settings(path, kept, settings)


def compare_settings(path: Path, kept: Dict[str, Any], settings: Dict[str, Any]) -> None:
    """
    Args:
        path: of the file that the settings were kept in, for the message.

    Raises:
        ValueError: if the settings differ from those that were kept.
    """
    for name in sorted({*kept, *settings}):
        old, new = kept.get(name), settings.get(name)
        if old != new:
            raise ValueError(
                f"{path.parent}: holds translations made with {name} = {old}, and now it is "
                f"{new}; name another directory, or delete this one"
            )
