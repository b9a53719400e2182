"""Our options in groups by method, for ``--help``; their dataclasses say all about them."""

import argparse
from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass

from ..help import as_ours
from .methods.beams import BEAMS
from .methods.drafts import DRAFTING
from .methods.given_drafts import DRAFTED
from .option_rules import rule_of, values_of

GENERAL = "decoding"
# Narrow ones first: an option is in the first group that has all methods it is for.
GROUPS = {
    "blockwise decoding": ("blockwise", "auto"),
    "Jacobi decoding and lookahead": (*DRAFTING, "auto"),
    "beams": BEAMS,
    "drafts": DRAFTED,
}


class Grouped:
    """Stands for a parser to which options are added, and puts ours into groups."""

    def __init__(self, parser: argparse.ArgumentParser, ours: Sequence[Field]) -> None:
        """
        Args:
            ours: options with a group of their own in their metadata (``group``), or in the
                group of the methods that they are for.
        """
        self._parser = parser
        self._ours = {option.name: option for option in ours}
        self._groups: dict[str, Any] = {}

    def add_argument(self, *names: str, **options: Any) -> None:
        """As argparse's; fairseq calls nothing else."""
        option = self._ours.get(names[0].lstrip("-").replace("-", "_"))
        if option is not None and values_of(option):
            options["choices"] = values_of(option)
        self._group(None if option is None else group_of(option)).add_argument(*names, **options)

    def _group(self, title: Optional[str]) -> Any:
        if title is None:
            return self._parser
        if title not in self._groups:
            methods = ", ".join(GROUPS.get(title, ()))
            described = f"for --decoding {methods}" if methods else None
            self._groups[title] = as_ours(self._parser.add_argument_group(title, described))
        return self._groups[title]


def group_of(option: Field) -> str:
    """The title of an option's group."""
    if "group" in option.metadata:
        return option.metadata["group"]
    own = rule_of(option).methods
    if own is None or option.name == "decoding":
        return GENERAL
    return next(
        (title for title, group in GROUPS.items() if set(own) <= set(group)), ", ".join(own)
    )


def add_options(parser: argparse.ArgumentParser, config: FairseqDataclass, base: type) -> None:
    """Add a task's options: those of its base as fairseq does, those that are ours in groups."""
    inherited = {option.name for option in fields(base)}
    ours = [option for option in fields(config) if option.name not in inherited]
    gen_parser_from_dataclass(Grouped(parser, ours), config)


def described(config: FairseqDataclass) -> str:
    """The help of all options of a dataclass of ours, in groups."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    gen_parser_from_dataclass(Grouped(parser, fields(config)), config)
    return parser.format_help()
