"""Stores settings next to results, so that results of different settings are not mixed."""

import json
from pathlib import Path
from typing import Any, Optional

from . import atomic_files


def read_settings(path: Path, flag: str) -> Optional[dict[str, Any]]:
    """The settings in a file; ``None`` if there is no file.

    Args:
        flag: the option that sets where results go, for the message.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is damaged.
    """
    if not path.exists():
        return None
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        kept = None
    if not isinstance(kept, dict):
        raise damaged(path, flag)
    return kept


def damaged(path: Path, flag: str) -> ValueError:
    """The error for a file that was not written by :func:`write_settings`."""
    return ValueError(
        f"{path}: damaged; delete it if the same command made the translations next to it, "
        f"otherwise choose another {flag}"
    )


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """Write settings to a file.

    Args:
        settings: JSON-serialisable values.

    Raises:
        OSError: if it cannot be written.
    """
    atomic_files.write_text(path, json.dumps(settings, indent=1) + "\n")


def check_settings(path: Path, settings: dict[str, Any], flag: str) -> None:
    """Write settings to a file, or compare them with the existing ones.

    Args:
        settings: JSON-serialisable values.
        flag: the option that sets where results go, for the message.

    Raises:
        ValueError: if the file contains other settings, which the message names, or is damaged.
    """
    kept = read_settings(path, flag)
    if kept is None:
        write_settings(path, settings)
    else:
        compare_settings(path, kept, settings, flag)


def compare_settings(path: Path, kept: dict[str, Any], settings: dict[str, Any], flag: str) -> None:
    """
    Args:
        path: the file with the settings, for the message.
        flag: the option that sets where results go, for the message.

    Raises:
        ValueError: if the settings differ from the stored ones.
    """
    for name in sorted({*kept, *settings}):
        old, new = kept.get(name), settings.get(name)
        # Compared as they are written: NaN differs from itself, and tuples become lists.
        if _written(old) != _written(new):
            raise ValueError(
                f"{path.parent}: contains translations made with {name} = {old}, but now it is "
                f"{new}; choose another {flag}, or delete this directory"
            )


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
