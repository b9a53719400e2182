"""Extracts commands, Python code and links from the documents."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FRONT_PAGE = ROOT / "README.md"
PAGES = sorted(ROOT.glob("docs/**/*.md"))
DOCUMENTS = [
    FRONT_PAGE,
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *PAGES,
    *sorted(ROOT.glob("benchmarks/*.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
]
# Placeholders in patterns or parts of commands, which cannot be run.
PLACEHOLDERS = {"...", "SRC", "DATA", "PREFIX", "R"}


@dataclass(frozen=True)
class Command:
    """One command, as a shell would run it.

    Attributes:
        place: the document, and the command's number in it.
        words: the program and its arguments, without redirections.
    """

    place: str
    words: list[str]

    @property
    def program(self) -> str:
        """``python`` and the like without their folder."""
        return Path(self.words[0]).name

    def __str__(self) -> str:
        return f"{self.place} {' '.join(self.words[:2])}"


def blocks(document: Path, language: str) -> list[str]:
    """All code blocks of a language."""
    text = document.read_text(encoding="utf-8")
    found = re.findall(rf"(?ms)^ *```{language}\n(.*?)^ *```$", text)
    return found


def commands(document: Path) -> Iterator[Command]:
    """All commands of a document, in shell blocks and in sentences."""
    in_sentences = re.findall(
        r"(?<!`)`((?:python (?:scripts/|examples/|-m benchmarks\.)|fairseq-)[^`]* [^`]*)`",
        _without_blocks(document),
    )
    shell = blocks(document, "sh") + [" ".join(line.split()) for line in in_sentences]
    number = 0
    for block in shell:
        for line in re.sub(r"\\\n", " ", block).splitlines():
            for words in _split(line):
                number += 1
                yield Command(f"{document.relative_to(ROOT)}:{number}", words)


def links(document: Path) -> list[str]:
    """The targets of the document's links and pictures, except external URLs."""
    targets = re.findall(r"\]\(([^)\s]+)\)", prose(document))
    return [target for target in targets if not re.match(r"\w+:", target)]


def anchors(document: Path) -> list[str]:
    """The anchors of the document's headings, as on GitHub."""
    headings = re.findall(r"(?m)^#+ +(.+?) *$", _without_blocks(document))
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain]


def _without_blocks(document: Path) -> str:
    return re.sub(r"(?ms)^ *```.*?^ *```$", "", document.read_text(encoding="utf-8"))


def prose(document: Path) -> str:
    """The text without code."""
    return re.sub(r"`[^`\n]*`", "", _without_blocks(document))


def _split(line: str) -> list[list[str]]:
    """The commands of a line, without variable assignments and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;<>")
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    redirected = False
    for word in lexer:
        if set(word) <= set("&|;"):
            found.append([])
        elif set(word) <= set("<>"):
            redirected = True
        elif redirected:
            redirected = False
        elif found[-1] or not re.match(r"[A-Z_]+=", word):
            found[-1].append(word)
    return [words for words in found if words]
