"""Statements of Python's standard library, as training and test data for parsers."""

import ast
import random
import sysconfig
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Optional

from examples.parsing.trees import Words, linearised
from fairseq_fastdec.data import atomic_files

SOURCE, TARGET = "code", "tree"
# Whole packages and modules are held out, so that no module is in two parts.
HELD_OUT = {
    "test": ("argparse", "email", "json", "logging", "statistics"),
    "valid": ("configparser", "http", "zipfile"),
}
# Left out, since installations differ in them.
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
SHORTEST, LONGEST = 6, 40

Texts = dict[tuple[str, ...], tuple[str, ...]]


def write(folder: Path, most: dict[str, int], root: Optional[Path] = None) -> dict[str, int]:
    """Write ``train``, ``valid`` and ``test``, one statement per line: ``.code`` and ``.tree``.

    Args:
        most: the maximum number of statements of a part, drawn at random; all if not given.
        root: the library (default: that of the running Python).

    Returns:
        the number of statements of each part
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
    """Statements and their trees, each in one part only.

    Statements of the test set are removed from the other parts, those of the validation set from
    the training data.
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
    """The simple and compound statements of a module within the length limits.

    Decorated statements are left out, as is ``elif``, which is a statement only in trees. Modules
    that are not ASCII or invalid in this version of Python have none.
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
