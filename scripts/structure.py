#!/usr/bin/env python3
"""Count the measures of the package's structure: ``python scripts/structure.py``.

Total lines reward deleting docstrings, so the measures are: lines of code; the files that a batch
enters; the ways for a sentence into the engine, and the types of what comes back; the files and
names of an option; the files on the top level; and the options that users see.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fairseq_fastdec"
sys.path.insert(0, str(ROOT))

# Methods of the engine that take a sentence.
DOORS = ("admit", "decode", "submit")
# Types of a finished sentence, now and earlier. Those of one hypothesis are parts of them.
RESULTS = (
    "Translation", "BeamResult", "Ended", "Outputs", "Finished", "SentenceRecord", "BeamRecord",
    "Result", "Results",
)  # fmt: skip
# Options, and all names that they have had in the code.
NAMES = {
    "max_candidates": ("max_candidates", "per_candidate", "n_per_entry", "n_per_row"),
    "finalize": ("finalize", "waits", "lets_wait"),
    "prune_threshold": ("prune_threshold", "threshold"),
}


def sources(*suffixes: str) -> list[Path]:
    """The files of the package with some extensions."""
    return sorted(path for path in PACKAGE.rglob("*") if path.suffix in suffixes)


def python_code(text: str) -> int:
    """The lines of code of a Python file: no blank lines, comments and docstrings."""
    lines: set[int] = set()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*skipped, tokenize.ENDMARKER):
            lines.update(range(token.start[0], token.end[0] + 1))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            string = node.body[0]
            lines -= set(range(string.lineno, (string.end_lineno or string.lineno) + 1))
    return len(lines)


def cpp_code(text: str) -> int:
    """The lines of code of a C++ file: no blank lines and comments."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return sum(bool(line.partition("//")[0].strip()) for line in text.splitlines())


def code_lines() -> int:
    """The lines of code of the package."""
    python = sum(python_code(path.read_text(encoding="utf-8")) for path in sources(".py"))
    return python + sum(
        cpp_code(path.read_text(encoding="utf-8")) for path in sources(".h", ".cpp")
    )


def doors() -> int:
    """The number of definitions by which a sentence enters the engine."""
    found = []
    for path in (PACKAGE / "engine").rglob("bind*"):
        text = path.read_text(encoding="utf-8")
        found += re.findall(rf'def\("(?:{"|".join(DOORS)})", &(\w+)', text)
    return len(found)


def result_types() -> list[str]:
    """The types of results in C++ and Python, with the files that define them."""
    kinds = "|".join(RESULTS)
    found = []
    for path in sources(".py", ".h", ".cpp"):
        text = path.read_text(encoding="utf-8")
        names = re.findall(rf"(?m)^(?:class|struct) ({kinds})\b(?!;)|^({kinds}) = ", text)
        found += [f"{path.name}: {first or second}" for first, second in names]
    return found


def statements(name: str) -> list[str]:
    """The files that state an option: as a field, as an argument, or for ``visit`` in C++."""
    pattern = re.compile(rf'(?m)^    {name}: |[ (]{name}=(?!=)|visit\("{name}"')
    files = [*(PACKAGE / "decoding").rglob("*.py"), *(PACKAGE / "engine").rglob("*.*")]
    return sorted(
        path.name
        for path in files
        if path.suffix in (".py", ".h", ".cpp") and pattern.search(path.read_text("utf-8"))
    )


def option_names(option: str) -> list[str]:
    """The names by which an option is stated."""
    return [name for name in NAMES[option] if statements(name)]


def option_files(option: str) -> list[str]:
    """The files that state an option by one of its names."""
    return sorted({file for name in NAMES[option] for file in statements(name)})


def top_level() -> int:
    """The number of Python files on the top level of the package."""
    return len(list(PACKAGE.glob("*.py")))


def public_options() -> int:
    """The number of options of tasks, architectures and criterions, and of our commands."""
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    names = set(re.findall(r"(?m)^\| `(--[\w-]+)`", page))
    for path in PACKAGE.rglob("*.py"):
        names |= set(re.findall(r'(?s)add_argument\(\s*"(--[\w-]+)"', path.read_text("utf-8")))
    return len(names)


def files_entered(call: Any) -> list[str]:
    """The Python files of the package with a function that a call runs."""
    entered = set()

    def profile(frame: Any, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and PACKAGE in path.parents:
            entered.add(str(path.relative_to(PACKAGE)))

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return sorted(entered)


def greedy_files() -> list[str]:
    """The files that a batch of ``greedy`` enters after an earlier one, as in fairseq-generate."""
    import fairseq_fastdec
    from fairseq_fastdec.checkpoints.batches import DirectBatches
    from fairseq_fastdec.checkpoints.codec import as_tensors

    translator = fairseq_fastdec.load(ROOT / "examples" / "en_de" / "model")
    task, models = translator.task, translator.models
    tokens = as_tensors(list(map(translator.codec.encode, ("Open the file.", "Close it."))))
    (batch,) = DirectBatches(task, tokens[0]).several(tokens, None, 2)
    generator = translator.built({"decoding": "greedy"})
    task.inference_step(generator, models, batch)
    return files_entered(lambda: task.inference_step(generator, models, batch))


def rows() -> Iterator[tuple[str, int, Any]]:
    """The measures: a name, a number and its details."""
    yield "lines of code", code_lines(), ""
    files = greedy_files()
    yield "Python files that a warm greedy batch enters", len(files), files
    yield "ways for a sentence into the engine", doors(), ""
    yield "types of a result", len(result_types()), result_types()
    for option in NAMES:
        yield f"names of {option}", len(option_names(option)), option_names(option)
        yield f"files that state {option}", len(option_files(option)), option_files(option)
    yield "files on the top level", top_level(), ""
    yield "public options", public_options(), ""


def main() -> None:
    """Print all measures."""
    for name, number, details in rows():
        print(f"{number:6d}  {name}" + (f": {', '.join(details)}" if details else ""))


if __name__ == "__main__":
    main()
