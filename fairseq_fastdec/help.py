"""``--help`` of fairseq's commands: our options and fairseq's main ones; ``--help-all``: every one.

Our options come first in both.
"""

import argparse
import copy
from collections.abc import Callable
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES

SHORT, ALL = ("-h", "--help"), "--help-all"
PACKAGE = __name__.partition(".")[0]
# fairseq's options that most command lines have.
MAIN = frozenset(
    {
        "help", "help_all", "path", "task", "source_lang", "target_lang", "gen_subset",
        "tokenizer", "bpe", "post_process", "input", "buffer_size", "beam", "nbest", "lenpen",
        "max_len_a", "max_len_b", "sampling", "batch_size", "max_tokens", "cpu", "fp16", "seed",
        "user_dir",
    }
)  # fmt: skip
MAIN_OF_TRAINING = frozenset(
    {
        "arch", "criterion", "optimizer", "lr", "lr_scheduler", "max_update", "save_dir",
        "finetune_from_model",
    }
)  # fmt: skip
# With more choices than this, an option has its name for a value in the short help.
MOST_CHOICES = 6


def as_ours(group: Any) -> Any:
    """Mark a group of options as this package's; the help begins with such groups."""
    group.is_ours = True
    return group


def asks_for_help(argument: str) -> bool:
    """Whether a word of a command line is one of the flags."""
    return argument in (*SHORT, ALL)


def add_all(parser: argparse.ArgumentParser) -> None:
    """Add ``--help-all``."""
    if ALL not in parser._option_string_actions:
        parser.add_argument(ALL, action="help", help="list all options of fairseq, too, and exit")


def set_help(parser: argparse.ArgumentParser, args: argparse.Namespace, is_short: bool) -> None:
    """Replace the parser's help.

    Args:
        args: has the architecture and the criterion; what classes of this package add to their
            bases counts as ours.
        is_short: whether to leave most of fairseq's options out.
    """
    trains = "--max-update" in parser._option_string_actions
    shown = MAIN | _own_options(args) | (MAIN_OF_TRAINING if trains else frozenset())

    def format_help() -> str:
        return _formatted(parser, shown.__contains__ if is_short else None)

    parser.format_help = format_help  # type: ignore[method-assign]


def _own_options(args: argparse.Namespace) -> set[str]:
    """The options that a model and a criterion of this package have and their stock bases lack."""
    classes = (
        ARCH_MODEL_REGISTRY.get(getattr(args, "arch", None)),
        REGISTRIES["criterion"]["registry"].get(getattr(args, "criterion", None)),
    )
    own: set[str] = set()
    for cls in filter(None, classes):
        stock = next(base for base in cls.__mro__ if not _is_ours(base))
        own |= _options(cls) - _options(stock)
    return own


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == PACKAGE


def _options(cls: Any) -> set[str]:
    parser = argparse.ArgumentParser(add_help=False)
    cls.add_args(parser)
    return {action.dest for action in parser._actions}


def _formatted(parser: argparse.ArgumentParser, is_shown: Any) -> str:
    """The help of the options that are shown, or of all.

    Args:
        is_shown: whether to show one of fairseq's options, by its name; ``None`` for all of them.
    """
    positionals = parser._get_positional_actions()
    formatter = parser._get_formatter()
    names = " ".join(str(action.metavar or action.dest) for action in positionals)
    formatter.add_usage(f"%(prog)s {names} [options]", [], [])
    formatter.add_text(parser.description)
    for group in sorted(parser._action_groups, key=_place):
        actions = group._group_actions
        if is_shown is not None and not getattr(group, "is_ours", False):
            actions = _short(actions, is_shown)
        formatter.start_section(group.title)
        formatter.add_text(group.description)
        formatter.add_arguments(actions)
        formatter.end_section()
    formatter.add_text(parser.epilog)
    if is_shown is not None:
        formatter.add_text(f"{ALL} lists every option of fairseq, too.")
    return formatter.format_help()


def _place(group: Any) -> int:
    if any(not action.option_strings for action in group._group_actions):
        return 0
    return 1 if getattr(group, "is_ours", False) else 2


def _short(
    actions: list[argparse.Action], is_shown: Callable[[str], bool]
) -> list[argparse.Action]:
    shown = [copy.copy(a) for a in actions if is_shown(a.dest) or not a.option_strings]
    for action in shown:
        if action.metavar is None and len(list(action.choices or ())) > MOST_CHOICES:
            action.metavar = action.dest.upper()
    return shown
