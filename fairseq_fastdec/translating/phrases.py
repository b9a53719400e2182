"""Phrases of the target language: those that a translation has to contain, or may not."""

from collections.abc import Sequence
from typing import Any, Optional

from ..engine.searches import (
    NO_RESTRICTIONS,
    Phrases,
    Recipe,
    Restrictions,
    check_constraints,
)
from .results import Problem
from .text import TextCodec

# The method that takes constraints.
ONLY_BEAM = "only with decoding beam, without sampling and pruning; give decoding beam and beam 5"


def phrase_of(name: str, text: str, codec: TextCodec) -> list[int]:
    """The tokens of a phrase.

    Args:
        name: what it was given as, for messages.

    Raises:
        ValueError: for a phrase without tokens, or with some that are not in the dictionary.
    """
    found = codec.encode_target(text)
    if isinstance(found, Problem):
        raise ValueError(f"{name} {text!r}: {found}")
    return checked(name, text, found, codec.target.unk_index)


def checked(name: str, text: str, numbers: Sequence[int], unk: int) -> list[int]:
    """The tokens of a phrase, without EOS.

    Args:
        name: what it was given as, for messages.
        numbers: the tokens with EOS.
        unk: the token of what the dictionary does not have.

    Raises:
        ValueError: for a phrase without tokens, or with some that are not in the dictionary.
    """
    *tokens, _ = numbers
    if not tokens or unk in tokens:
        raise ValueError(
            f"{name} {text!r}: the model's vocabulary lacks characters of it; choose another phrase"
        )
    return tokens


def check_takes(
    constraints: Phrases, takes_constraints: bool, forbidden: Phrases, forbids_phrases: bool
) -> None:
    """
    Raises:
        ValueError: for phrases that a method does not take.
    """
    if constraints and not takes_constraints:
        raise ValueError(f"constraints, glossary: {ONLY_BEAM}")
    if forbidden and not forbids_phrases:
        raise ValueError("forbidden: not with models that predict two tokens a step; remove it")


def problem_of(restrictions: Restrictions, recipe: Recipe, n_source: int) -> Optional[Problem]:
    """The problem of a sentence whose constraints are too long.

    Args:
        n_source: the number of its tokens, with EOS.

    Raises:
        ValueError: for phrases that the method does not take.
    """
    if restrictions == NO_RESTRICTIONS:
        return None
    constraints, forbidden = restrictions
    check_takes(constraints, recipe.takes_constraints, forbidden, recipe.forbids_phrases)
    n_forced = len(recipe.prefix)
    (most,), _ = recipe.rules.limits([n_source], [n_forced])
    try:
        check_constraints(constraints, n_forced, int(most))
    except ValueError as error:
        return Problem("too long", str(error))
    return None


def check_consistent(constraints: Phrases, forbidden: Phrases, texts: Sequence[Any]) -> None:
    """
    Args:
        texts: of the constraints.

    Raises:
        ValueError: for a constraint that contains a forbidden phrase.
    """
    for phrase, text in zip(constraints, texts):
        for other in forbidden:
            places = range(len(phrase) - len(other) + 1)
            if any(phrase[at : at + len(other)] == other for at in places):
                raise ValueError(
                    f"constraints {text!r}: contains a forbidden phrase; remove one of them"
                )
