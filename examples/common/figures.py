"""Files of figures in JSON, to which runs of a command add."""

import json
from pathlib import Path
from typing import Any

from fairseq_fastdec.data import atomic_files


def read_figures(path: Path, otherwise: Any) -> Any:
    """The figures in a file, or a value if it does not exist yet."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else otherwise


def write_figures(path: Path, figures: Any) -> None:
    """Write figures, which replace those of the file at once."""
    atomic_files.write_text(path, json.dumps(figures, indent=1) + "\n")
