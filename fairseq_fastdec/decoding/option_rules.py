"""Declare options of methods and check their values.

The options of a method are a dataclass in the file of the method, with fields created by
:func:`option`::

    @dataclass
    class LookaheadOptions:
        lookahead_window: int = option(
            6, "lookahead: tokens answered at once", methods=("lookahead",), at_least=1
        )
"""

import os
from dataclasses import Field, dataclass, field, fields
from enum import Enum
from numbers import Integral, Real
from typing import Any, Optional, get_args

from ..processes.errors import flag_of
from ..translating.generation_options import is_float, shown
from ..translating.registry import METHODS, decoding_names

KINDS: dict[Any, tuple[Any, str]] = {
    int: (Integral, "a whole number"),
    Optional[int]: (Integral, "a whole number"),
    float: (Real, "a number"),
    Optional[float]: (Real, "a number"),
    bool: (bool, "True or False"),
    Optional[str]: ((str, os.PathLike), "text"),
}


@dataclass(frozen=True)
class Rule:
    """The valid values of an option, and the option it needs; see :func:`option`."""

    methods: Optional[tuple[str, ...]] = None
    at_least: Optional[float] = None
    at_most: Optional[tuple[float, str]] = None
    less_than: Optional[float] = None
    needs: Optional[tuple[str, tuple[str, ...]]] = None


def option(default: Any, help: str, *, is_path: bool = False, **rule: Any) -> Any:
    """A field of a dataclass of decoding options.

    Args:
        help: the text of ``--help``, which begins with the methods if they are few.
        is_path: whether the value is free text, such as a file name.
        methods: the values of ``--decoding`` that accept the option; others reject it (default: all
            methods of this package).
        at_least: the least value.
        at_most: the largest value, and the reason for the limit. Most options have none: a value
            larger than the available number then means all.
        less_than: an exclusive upper limit.
        needs: another option without which this one has no effect, and the values that it must
            have; no values if it only has to be given.
    """
    metadata = {"help": help, "rule": Rule(**rule)}
    if is_path:
        metadata["argparse_const"] = None
    return field(default=default, metadata=metadata)


def given(value: Any, default: Any) -> Any:
    """An option's value, or the method's default if it is ``None``."""
    return default if value is None else value


def rule_of(option: Field) -> Rule:
    """An option's rule; ``--decoding`` itself has none."""
    return option.metadata.get("rule", Rule(methods=decoding_names()))


def methods_of(option: Field) -> tuple[str, ...]:
    """The values of ``--decoding`` that accept an option."""
    methods = rule_of(option).methods
    return tuple(METHODS) if methods is None else methods


def values_of(option: Field) -> tuple[str, ...]:
    """The values of an option if they are a choice of names, else an empty tuple."""
    if option.name == "decoding":
        return decoding_names()
    for kind in (option.type, *get_args(option.type)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return tuple(choice.value for choice in kind)
    return ()


def check_options(options: Any) -> None:
    """
    Args:
        options: :class:`~.options.DecodingOptions`.

    Raises:
        ValueError: for a value that is invalid for every model, or an option that does not apply to
            the method; it names the flag and a remedy.
    """
    for option in fields(options):
        value = getattr(options, option.name)
        if option.name == "_name" or value is None:
            continue
        _check_kind(option, value)
        _check_value(option, value)
        if value != option.default:
            _check_has_a_use(options, option, value)


def _check_kind(option: Field, value: Any) -> None:
    """Values from the hub and --eval-bleu-args have not been checked by argparse."""
    kind, in_words = KINDS.get(option.type, (object, ""))
    is_truth = isinstance(value, bool)
    is_number = kind in (Integral, Real)
    is_too_large = kind is Real and isinstance(value, kind) and not is_float(value)
    if not isinstance(value, kind) or (is_truth and is_number) or is_too_large:
        raise ValueError(f"{flag_of(option.name)} {shown(value)}: must be {in_words}")


def _check_value(option: Field, value: Any) -> None:
    flag, rule = f"{flag_of(option.name)} {value}", rule_of(option)
    names = values_of(option)
    if names and str(value) not in names:
        raise ValueError(f"{flag}: unknown; choose one of {', '.join(names)}")
    # Written so that NaN is rejected.
    if rule.at_least is not None and not value >= rule.at_least:
        raise ValueError(f"{flag}: must be at least {rule.at_least}")
    if rule.at_most is not None and value > rule.at_most[0]:
        most, reason = rule.at_most
        raise ValueError(f"{flag}: must be at most {most}: {reason}")
    if rule.less_than is not None and not value < rule.less_than:
        raise ValueError(f"{flag}: must be less than {rule.less_than}")


def _check_has_a_use(options: Any, option: Field, value: Any) -> None:
    flag, methods = f"{flag_of(option.name)} {value}", methods_of(option)
    if str(options.decoding) not in methods:
        raise ValueError(
            f"{flag}: does not apply to --decoding {options.decoding}; remove it or use --decoding "
            f"{' or '.join(methods)}"
        )
    needs = rule_of(option).needs
    if needs is None:
        return
    name, values = needs
    chosen, needed = options.chosen(name), flag_of(name)
    if not values and chosen is None:
        raise ValueError(f"{flag}: has no effect without {needed}; remove it or give {needed}")
    if values and chosen not in values:
        raise ValueError(
            f"{flag}: does not apply to {needed} {chosen}; remove it or use {needed} "
            f"{' or '.join(values)}"
        )
