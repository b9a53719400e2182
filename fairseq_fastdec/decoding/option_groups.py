"""Groups the plugin's options by method for ``--help``, based on their dataclasses."""

import argparse
from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass

from ..fairseq_patches.help import as_ours
from ..translating.registry import DRAFTED
from .methods.beams import BEAMS, OF_PAIRS
from .methods.guesses import GUESSING
from .option_rules import rule_of, values_of

GENERAL = "decoding"
# Narrow groups first: an option goes into the first group that covers all its methods.
GROUPS = {
    "blockwise decoding": ("blockwise", "auto"),
    "Jacobi decoding and lookahead": (*GUESSING, "auto"),
    "beams": (*BEAMS, OF_PAIRS),
    "drafts": DRAFTED,
}


class Grouped:
    """Wraps an argument parser and adds the plugin's options to groups."""

    def __init__(self, parser: argparse.ArgumentParser, ours: Sequence[Field]) -> None:
        """
        Args:
            ours: the plugin's options; their group is in the metadata (``group``) or follows from
                their methods.
        """
        self._parser = parser
        self._ours = {option.name: option for option in ours}
        self._groups: dict[str, Any] = {}

    def add_argument(self, *names: str, **options: Any) -> None:
        """Same as argparse's; the only method that fairseq calls."""
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
    methods = rule_of(option).methods
    if methods is None or option.name == "decoding":
        return GENERAL
    return next(
        (title for title, group in GROUPS.items() if set(methods) <= set(group)), ", ".join(methods)
    )


def add_options(parser: argparse.ArgumentParser, config: FairseqDataclass, base: type) -> None:
    """Add a task's options: inherited ones as fairseq does, the plugin's in groups."""
    inherited = {option.name for option in fields(base)}
    ours = [option for option in fields(config) if option.name not in inherited]
    gen_parser_from_dataclass(Grouped(parser, ours), config)


def described(config: FairseqDataclass) -> str:
    """The help text of all options of a dataclass, in groups."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False)
    gen_parser_from_dataclass(Grouped(parser, fields(config)), config)
    return parser.format_help()
