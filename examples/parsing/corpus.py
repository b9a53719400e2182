"""Statements of Python's standard library, as text to train and test parsers on."""

import ast
import random
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from examples.parsing.trees import Words, linearised
from fairseq_fastdec.tools import atomic_files

SOURCE, TARGET = "code", "tree"
# Whole packages and modules are held out, so that nothing of a module is on both sides.
HELD_OUT = {
    "test": ("argparse", "email", "json", "logging", "statistics"),
    "valid": ("configparser", "http", "zipfile"),
}
# Installations differ in whether they have tests, and in the tables of the machine's settings.
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
SHORTEST, LONGEST = 6, 40

Texts = dict[tuple[str, ...], tuple[str, ...]]


def write(folder: Path, most: dict[str, int], root: Optional[Path] = None) -> dict[str, int]:
    """Write ``train``, ``valid`` and ``test``, one statement a line: ``.code`` and ``.tree``.

    Args:
        most: at most so many statements of a part, drawn at random; all where it names no number.
        root: the library (default: that of the Python which runs).

    Returns:
        how many statements each part has
    """
    folder.mkdir(parents=True, exist_ok=True)
    parts = divided(root or Path(sysconfig.get_path("stdlib")))
    sizes = {}
    for name, texts in parts.items():
        pairs = sorted(texts.items())
        random.Random(1).shuffle(pairs)
        pairs = pairs[: most.get(name)]
        for language, side in ((SOURCE, 0), (TARGET, 1)):
            lines = [" ".join(pair[side]) for pair in pairs]
            atomic_files.write_lines(folder / f"{name}.{language}", lines)
        sizes[name] = len(pairs)
    return sizes


def divided(root: Path) -> dict[str, Texts]:
    """Statements and their trees, each once, and in one part only.

    What the test set has is in no other part, and what the validation set has is not learned.
    """
    parts: dict[str, Texts] = {"test": {}, "valid": {}, "train": {}}
    for path in modules(root):
        name = path.relative_to(root).parts[0].removesuffix(".py")
        part = next((part for part, names in HELD_OUT.items() if name in names), "train")
        parts[part].update(statements(path))
    for part, held_out in (("valid", ("test",)), ("train", ("test", "valid"))):
        for other in held_out:
            for words in parts[other]:
                parts[part].pop(words, None)
    return parts


def modules(root: Path) -> Iterator[Path]:
    """The files of a library, in order."""
    for path in sorted(root.rglob("*.py")):
        inner = path.relative_to(root).parts
        if not LEFT_OUT.intersection(inner) and not inner[0].startswith("_sysconfigdata"):
            yield path


def statements(path: Path) -> Texts:
    """The statements of a module that are neither too short nor too long, simple and compound.

    Decorated ones are left out, as is ``elif``, which is a statement in trees and in no program.
    A module that is not ASCII, or not for this Python, has none.
    """
    try:
        source = path.read_text(encoding="ascii")
        module, words = ast.parse(source), Words(source)
    except (SyntaxError, UnicodeDecodeError, tokenize.TokenError):
        return {}
    found = {}
    for node in ast.walk(module):
        if isinstance(node, ast.stmt) and not getattr(node, "decorator_list", None):
            own = words.of(node)
            if SHORTEST <= len(own) <= LONGEST and own[0] != "elif":
                found[tuple(own)] = tuple(linearised(node))
    return found
