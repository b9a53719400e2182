"""The JSON file with the rows that were measured, and its tables in docs/gpu.md."""

import json
from pathlib import Path
from typing import Any, Optional

import torch

from examples.common import commands
from examples.common.table import distinct, untitled
from fairseq_fastdec.data import atomic_files

from .measuring import FAIRSEQ, OURS
from .rows import Row

FILE = commands.ROOT / "benchmarks" / "gpu.json"
PAGE = commands.ROOT / "docs" / "gpu.md"
COMMAND = "python scripts/measure_gpu.py"
# The name of the section in the pages.
SECTION = "gpu"
NOT_YET = "**No method has been run on a GPU yet.**\n"
ABOUT = """\
*Speed* is the time of fairseq's search with the same beam size divided by the method's: the \
median of alternating rounds, with their range. *ms per step* is the time per call of the decoder, \
and *MiB* the peak of the GPU's memory beyond the weights, both of the method and of fairseq's \
search. \
*Tokens per invocation* counts those of a row of the batch. *Identical* is the number of sentences \
with fairseq's output. `double_token` decodes another model of the same size."""
# What is said of a model's rows.
MODELS = {
    "bundled": "The bundled model translates its test set.",
    "base": "Transformer base, random weights.",
    "big": "Transformer big, random weights.",
    "ensemble": "Five models of the shape of WMT 2019's, random weights.",
}
RANDOM = """\
All outputs of random weights have the same length, since they would not end by themselves. The \
number of accepted proposals and pruned hypotheses says nothing about trained models; in the rows \
*all accepted*, the model and its heads always predict the same word."""


class Results:
    """The content of a JSON file, written after each row.

    Attributes:
        rows: what was measured, or failed, by name.
        skipped: why rows did not fit into the time, by name.
        tests: how the tests ended; ``None`` if they did not run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: dict[str, dict[str, Any]] = {}
        self.skipped: dict[str, str] = {}
        self.tests: Optional[dict[str, Any]] = None

    @classmethod
    def read(cls, path: Path) -> "Results":
        """The results of a file.

        Raises:
            OSError, ValueError: if it cannot be read.
        """
        results, content = cls(path), json.loads(path.read_text(encoding="utf-8"))
        results.rows = {name_of(row): row for row in content["rows"]}
        results.skipped, results.tests = content["skipped"], content["tests"]
        return results

    def write(self) -> None:
        """Write the file."""
        content = {
            "tests": self.tests, "rows": list(self.rows.values()), "skipped": self.skipped,
        }  # fmt: skip
        atomic_files.write_text(self._path, json.dumps(content, indent=1) + "\n")

    def measured(self) -> list[dict[str, Any]]:
        """All rows and the tests, each with where it is from."""
        return [*self.rows.values(), *([self.tests] if self.tests else [])]


def origin(device: str, commit: Optional[str]) -> dict[str, Any]:
    """Where a row is from.

    Args:
        device: ``cuda`` or ``cpu``.
        commit: of a checkout without its history; ``None`` for git's.

    Raises:
        ValueError: without either.
    """
    found: dict[str, Any] = commands.provenance()
    on_gpu, commit = device == "cuda", commit or found["commit"]
    if not commit:
        raise ValueError("--commit: git has no history of this checkout; name its commit")
    return {
        **found,
        "commit": commit,
        "on_gpu": on_gpu,
        "device": torch.cuda.get_device_name() if on_gpu else found["processor"],
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
    }


def name_of(row: dict[str, Any]) -> str:
    """See :attr:`.rows.Row.name`."""
    return Row(*(row[field] for field in Row._fields)).name


def section(results: Optional[Results]) -> str:
    """The section of docs/gpu.md.

    Args:
        results: ``None`` if nothing has been measured on a GPU.

    Raises:
        ValueError: for rows of a CPU.
    """
    if results is None:
        return NOT_YET
    rows = list(results.rows.values())
    parts = [f"## Measured\n\n{origins(results)}"]
    if results.tests is not None:
        parts.append(of_tests(results.tests))
    parts += [ABOUT, RANDOM]
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [cells(row) for row in rows if row["model"] == model]
        parts.append(f"{MODELS[model]}\n\n{untitled(own)}")
    failed = {name: row["errors"] for name, row in results.rows.items() if row["errors"]}
    parts += [
        f"- {name}: {', '.join(f'{search}: {text}' for search, text in errors.items())}"
        for name, errors in failed.items()
    ]
    if results.skipped:
        parts.append(
            f"Rows that did not fit into the time, which `--resume` measures: "
            f"{len(results.skipped)}."
        )
    return "\n\n".join(parts) + "\n"


def origins(results: Results) -> str:
    """The line that says where the rows are from.

    Raises:
        ValueError: for rows of a CPU.
    """
    found = results.measured()
    if not all(own["on_gpu"] for own in found):
        raise ValueError("--json: has rows of a CPU, whose tables are not those of a GPU")
    date, device, commit, version = distinct(found, "date", "device", "commit", "torch")
    return f"{date} · {device} · commit {commit} · torch {version} · `{COMMAND}`"


def of_tests(tests: dict[str, Any]) -> str:
    """The ends of the tests, in a line, and the messages of those that failed."""
    counts = [f"{number} {end}" for end, number in tests["counts"].items()]
    lines = [f"`pytest tests/gpu`: {', '.join(counts) or 'no test ended'}."]
    if tests["error"]:
        lines.append(f"- {tests['error']}")
    lines += [f"- `{name}`: {message}" for name, message in tests["failures"].items()]
    return "\n".join(lines)


def cells(row: dict[str, Any]) -> dict[str, str]:
    """A line of the table."""
    tokens, rows = row["tokens"].get(OURS), row["row_invocations"].get(OURS)
    return {
        "method": row["method"],
        "precision": row["precision"],
        "batch": str(row["batch"]),
        "speed": speed(row),
        "ms per step": both(row, "ms", ".1f"),
        "tokens per invocation": f"{tokens / rows:.2f}" if tokens and rows else "",
        "identical": f"{row['identical']} of {row['sentences']}" if "identical" in row else "",
        "MiB": both(row, "mib", ".0f"),
    }


def speed(row: dict[str, Any]) -> str:
    """The ratio of times with its range, or which search failed."""
    if "ratio" in row:
        least, greatest = row["ratio_range"]
        return f"{row['ratio']:.2f}x ({least:.2f} to {greatest:.2f})"
    failed = [name for name in (OURS, FAIRSEQ) if name in row["errors"]]
    return " and ".join("method" if name == OURS else name for name in failed) + " failed"


def both(row: dict[str, Any], name: str, form: str) -> str:
    """A value of the method and of fairseq's search."""
    values = [row[name].get(search) for search in (OURS, FAIRSEQ)]
    return " / ".join("" if value is None else format(value, form) for value in values)
