"""Files of figures in JSON, to which runs of a command add."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_fastdec.data import atomic_files


def read_figures(path: Path, otherwise: Any) -> Any:
    """The figures in a file, or a value if it does not exist yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else otherwise


def write_figures(path: Path, figures: Any) -> None:
    """Write figures, which replace those of the file at once."""
    atomic_files.write_text(path, json.dumps(figures, indent=1) + "\n")


def add_figures(
    path: Path, rows: Sequence[dict[str, Any]], key: Sequence[str]
) -> list[dict[str, Any]]:
    """Write rows to a file, in the places of earlier ones with the same values of ``key``.

    Returns:
        all rows of the file.
    """
    all_rows = [*read_figures(path, []), *rows]
    figures = list({tuple(row[name] for name in key): row for row in all_rows}.values())
    write_figures(path, figures)
    return figures
