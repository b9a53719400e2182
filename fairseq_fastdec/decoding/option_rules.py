"""The declaration of options by their methods, and the check of their values.

A method's options are a dataclass in the method's own file, whose fields :func:`option` makes::

    @dataclass
    class LookaheadOptions:
        lookahead_window: int = option(
            6, "lookahead: tokens answered at once", methods=("lookahead",), at_least=1
        )
"""

from dataclasses import Field, dataclass, field, fields
from enum import Enum
from numbers import Integral, Real
from typing import Any, Optional, get_args

from ..errors import flag_of
from .registry import METHODS, decoding_names

KINDS = {
    int: (Integral, "a whole number"),
    Optional[int]: (Integral, "a whole number"),
    float: (Real, "a number"),
    Optional[float]: (Real, "a number"),
    bool: (bool, "True or False"),
}


@dataclass(frozen=True)
class Rule:
    """The values that an option may have, and the options it needs; see :func:`option`."""

    methods: Optional[tuple[str, ...]] = None
    at_least: Optional[float] = None
    at_most: Optional[tuple[float, str]] = None
    less_than: Optional[float] = None
    needs: Optional[tuple[str, tuple[str, ...]]] = None


def option(default: Any, help: str, *, is_path: bool = False, **rule: Any) -> Any:
    """A field of a dataclass of decoding options.

    Args:
        help: the text of ``--help``, which begins with the methods if they are few.
        is_path: whether the value is a string that a user writes, such as a file's name.
        methods: the values of ``--decoding`` that the option is for; others refuse it (default: all
            methods of ours).
        at_least: the least value.
        at_most: the largest value, and why. Too large a value of other options is as good as "all
            there are".
        less_than: what the value has to be less than.
        needs: another option, and the values of it without which this one means nothing; no values
            if it only has to be given.
    """
    metadata = {"help": help, "rule": Rule(**rule)}
    if is_path:
        metadata["argparse_const"] = None
    return field(default=default, metadata=metadata)


def given(value: Any, default: Any) -> Any:
    """An option's value, or what its method takes where the user gave none."""
    return default if value is None else value


def rule_of(option: Field) -> Rule:
    """An option's rule; ``--decoding`` itself has none."""
    return option.metadata.get("rule", Rule(methods=decoding_names()))


def methods_of(option: Field) -> tuple[str, ...]:
    """The values of ``--decoding`` that an option is for."""
    methods = rule_of(option).methods
    return tuple(METHODS) if methods is None else methods


def values_of(option: Field) -> tuple[str, ...]:
    """The values that an option can have, if they are a few names; none otherwise."""
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
        ValueError: for a value that no model could make right, or an option that the method has
            no use for; it names the flag and a remedy.
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
    """The hub and --eval-bleu-args bring values that argparse has not seen."""
    kind, in_words = KINDS.get(option.type, (object, ""))
    is_truth = isinstance(value, bool)
    if not isinstance(value, kind) or (is_truth and kind in (Integral, Real)):
        raise ValueError(f"{flag_of(option.name)} {value}: must be {in_words}")


def _check_value(option: Field, value: Any) -> None:
    flag, rule = f"{flag_of(option.name)} {value}", rule_of(option)
    names = values_of(option)
    if names and str(value) not in names:
        raise ValueError(f"{flag}: unknown; choose one of {', '.join(names)}")
    # NaN is not at least anything, nor less.
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
            f"{flag}: means nothing to --decoding {options.decoding}; remove it or use "
            f"--decoding {' or '.join(methods)}"
        )
    needs = rule_of(option).needs
    if needs is None:
        return
    name, values = needs
    chosen, needed = options.chosen(name), flag_of(name)
    if not values and chosen is None:
        raise ValueError(f"{flag}: means nothing without {needed}; remove it or give {needed}")
    if values and chosen not in values:
        raise ValueError(
            f"{flag}: means nothing to {needed} {chosen}; remove it or use "
            f"{needed} {' or '.join(values)}"
        )
