#!/usr/bin/env python3
"""Generate docs/options.md, the list of all options.

    python scripts/options_page.py docs/options.md

updates it after an option has changed; a test checks that it is up to date.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models.transformer import TransformerModel

from fairseq_fastdec.criterions.random_sub_loss import RandomSubLossConfig
from fairseq_fastdec.models.blockwise_transformer import BlockwiseTransformerModel
from fairseq_fastdec.models.marian_transformer import MarianTransformerModel
from fairseq_fastdec.tasks.translation_double_token import TranslationDoubleTokenTask
from fairseq_fastdec.tasks.translation_fastdec import TranslationFastdecTask
from fairseq_fastdec.tasks.translation_languages import TranslationLanguagesTask

OPENING = """\
# Options

Generated from the code by `python scripts/options_page.py docs/options.md`; do not
edit it by hand. `python -m fairseq_fastdec generate --help` prints the same in the same
groups. An option that does not apply to the method is an error.
[Methods](methods/README.md#fairseqs-own-options) describes the use of fairseq's own options.
"""

# The introduction of each group of options, by its title.
INTRODUCTIONS = {
    "decoding": "Options for all methods of this package. See [which "
    "method](../README.md#which-method) for the choice of method.",
    "blockwise decoding": "See [blockwise](methods/blockwise.md).",
    "Jacobi decoding and lookahead": "See [lookahead](methods/lookahead.md) and "
    "[Jacobi decoding](methods/jacobi.md).",
    "beams": "See [beams](methods/beams.md).",
    "drafts": "See [drafts](methods/drafts.md).",
    "order of decoding": "Options of the task `translation_double_token`, for training and "
    "decoding. See [double_token](methods/double_token.md).",
    "languages": "Options of the task `translation_languages`. See [imported "
    "models](imported_models.md#languages).",
    "training": "Options of all tasks. See [training](training.md).",
    "heads": "Options of `--arch blockwise_transformer` and its presets. See "
    "[training](training.md).",
    "models of Marian": "Options of `--arch marian_transformer` and `ssru_transformer`, and of "
    "`blockwise_transformer`. See [models](models.md#models-of-marian).",
    "loss of the heads": "Options of `--criterion random_sub_loss`. See [training](training.md).",
}
ORDER = tuple(INTRODUCTIONS)
NAMES_OF_TYPES: dict[Any, str] = {int: "N", float: "NUMBER"}


class Option(NamedTuple):
    """One option, as passed to a parser."""

    flag: str
    values: str
    default: str
    help: str


class Listing:
    """Replaces a parser or one of its groups, and records the options that are added."""

    def __init__(self) -> None:
        self.options: dict[str, Option] = {}
        self.groups: dict[str, Listing] = {}
        self._actions: list[Any] = []  # argparse's

    def add_argument(self, *names: str, **settings: Any) -> None:
        """Same as argparse's."""
        if names[0].startswith("--"):
            self.options[names[0]] = Option(
                names[0], _values(settings), _default(settings), settings.get("help") or ""
            )

    def add_argument_group(self, title: str, description: Optional[str] = None) -> "Listing":
        """Same as argparse's."""
        return self.groups.setdefault(title, Listing())


def page() -> str:
    """The text of docs/options.md."""
    groups = grouped_options()
    titles = [*ORDER, *sorted(set(groups) - set(ORDER))]
    return "\n".join([OPENING, *(_section(title, groups[title]) for title in titles)])


def grouped_options() -> dict[str, list[Option]]:
    """All options that this package adds, by the titles of their groups."""
    stock, marian, heads, loss = Listing(), Listing(), Listing(), Listing()
    TransformerModel.add_args(stock)
    MarianTransformerModel.add_args(marian)
    BlockwiseTransformerModel.add_args(heads)
    gen_parser_from_dataclass(loss, RandomSubLossConfig())
    groups: dict[str, list[Option]] = {}
    # The others have all options of the first; one has another default.
    tasks = (TranslationFastdecTask, TranslationLanguagesTask, TranslationDoubleTokenTask)
    for task in tasks:
        listing = Listing()
        task.add_args(listing)
        for title, group in listing.groups.items():
            groups.setdefault(title, list(group.options.values()))
    groups["models of Marian"] = _more(marian, stock)
    groups["heads"] = _more(heads, marian)
    groups["loss of the heads"] = [
        option for option in loss.options.values() if not option.default.startswith("${")
    ]
    return groups


def _more(listing: Listing, other: Listing) -> list[Option]:
    """The options that the other listing does not have."""
    return [own for flag, own in listing.options.items() if flag not in other.options]


def _section(title: str, options: Sequence[Option]) -> str:
    introduction = INTRODUCTIONS.get(title)
    rows = ["| option | values | default | meaning |", "|---|---|---|---|"]
    for option in options:
        cells = (f"`{option.flag}`", _code(option.values), _code(option.default), option.help)
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    heading = f"## {title[0].upper()}{title[1:]}\n"
    return "\n".join([heading, *([f"{introduction}\n"] if introduction else []), *rows, ""])


def _code(text: str) -> str:
    return ", ".join(f"`{word}`" for word in text.split(", ")) if text else ""


def _values(settings: dict[str, Any]) -> str:
    if settings.get("choices"):
        return ", ".join(map(str, settings["choices"]))
    if settings.get("action", "store") != "store":
        return ""
    return settings.get("metavar") or NAMES_OF_TYPES.get(settings.get("type"), "TEXT")


def _default(settings: dict[str, Any]) -> str:
    """The default in argparse; empty if there is none, since the help may describe it."""
    default = settings.get("default")
    return "" if default is None or isinstance(default, bool) else str(default)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Write the page to the given file, or print it."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path)
    file = parser.parse_args(arguments).file
    if file is None:
        print(page(), end="")
    else:
        file.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
