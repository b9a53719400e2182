"""Settings that are kept beside results: those of different settings must not get mixed."""

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
        ValueError: if it holds something else.
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
    """The error for a file that does not hold what :func:`write_settings` wrote."""
    return ValueError(
        f"{path}: damaged; delete it if this very command made the translations beside it, or "
        f"else name another {flag}"
    )


def write_settings(path: Path, settings: dict[str, Any]) -> None:
    """Keep settings in a file.

    Args:
        settings: values that JSON has.

    Raises:
        OSError: if it cannot be written.
    """
    atomic_files.write_text(path, json.dumps(settings, indent=1) + "\n")


def check_settings(path: Path, settings: dict[str, Any], flag: str) -> None:
    """Keep the settings in a file, or compare them with those that are there.

    Args:
        settings: values that JSON has.
        flag: the option that sets where results go, for the message.

    Raises:
        ValueError: if the file holds other settings, which it names, or something else.
    """
    kept = read_settings(path, flag)
    if kept is None:
        write_settings(path, settings)
    else:
        compare_settings(path, kept, settings, flag)


def compare_settings(path: Path, kept: dict[str, Any], settings: dict[str, Any], flag: str) -> None:
    """
    Args:
        path: of the file that the settings were kept in, for the message.
        flag: the option that sets where results go, for the message.

    Raises:
        ValueError: if the settings differ from those that were kept.
    """
    for name in sorted({*kept, *settings}):
        old, new = kept.get(name), settings.get(name)
        if old != new:
            raise ValueError(
                f"{path.parent}: holds translations made with {name} = {old}, and now it is "
                f"{new}; name another {flag}, or delete this directory"
            )
