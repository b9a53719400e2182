"""``--help`` of fairseq's commands lists the plugin's and the main options, ``--help-all`` all.

The plugin's options come first in both.
"""

import argparse
import copy
from collections.abc import Callable
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.registry import REGISTRIES

SHORT, ALL = ("-h", "--help"), "--help-all"
PACKAGE = __name__.partition(".")[0]
# The most used options of fairseq.
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
# Options with more choices than this are shown without them in the short help.
MOST_CHOICES = 6


def as_ours(group: Any) -> Any:
    """Mark a group of options as the plugin's; these groups come first in the help."""
    group.is_ours = True
    return group


def asks_for_help(argument: str) -> bool:
    """Whether an argument is a help flag."""
    return argument in (*SHORT, ALL)


def add_all(parser: argparse.ArgumentParser) -> None:
    """Add the ``--help-all`` option."""
    if ALL not in parser._option_string_actions:
        parser.add_argument(
            ALL, action="help", help="list all options, including all of fairseq's, and exit"
        )


def set_help(parser: argparse.ArgumentParser, args: argparse.Namespace, is_short: bool) -> None:
    """Replace the parser's help.

    Args:
        args: contains the architecture and the criterion. Options that classes of this package add
            to those of their bases count as the plugin's.
        is_short: whether to omit most of fairseq's options.
    """
    trains = "--max-update" in parser._option_string_actions
    shown = MAIN | _own_options(args) | (MAIN_OF_TRAINING if trains else frozenset())

    def format_help() -> str:
        return _formatted(parser, shown.__contains__ if is_short else None)

    parser.format_help = format_help  # type: ignore[method-assign]


def _own_options(args: argparse.Namespace) -> set[str]:
    """The options that a model and a criterion of this package add to their stock bases."""
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
    """The help text.

    Args:
        is_shown: tells whether to show an option of fairseq, by name; ``None`` to show all.
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
        formatter.add_text(f"{ALL} lists all options, including all of fairseq's.")
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
