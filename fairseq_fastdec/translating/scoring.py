"""Scores of given translations, as fairseq's ``--score-reference``."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Optional, Union

from ..engine.rules import SearchRules
from ..engine.searches import Output
from .results import Problem, stripped, texts_of
from .text import TextCodec


def pairs_of(sources: Any, targets: Any) -> list[tuple[str, str]]:
    """The sentences of a call and their translations, stripped.

    Args:
        sources, targets: see :meth:`.translator.Translator.score`; each is read once.

    Raises:
        TypeError: for anything but text.
        ValueError: if there are not as many targets as sources.
    """
    if isinstance(sources, str) != isinstance(targets, str):
        raise TypeError("sources, targets: give two texts, or two iterables of texts")
    given = texts_of(sources, "sources"), texts_of(targets, "targets")
    numbers = [len(own) for own in given]
    if numbers[0] != numbers[1]:
        raise ValueError(
            f"targets: {numbers[1]} for {numbers[0]} sources; give one for each source"
        )
    read = [
        [stripped(text, number, name) for number, text in enumerate(own)]
        for own, name in zip(given, ("sources", "targets"))
    ]
    return list(zip(*read))


def languages(source: Optional[str], target: Optional[str]) -> dict[str, str]:
    """The options of a call that name its languages."""
    named = {"source": source, "target": target}
    return {side: name for side, name in named.items() if name is not None}


def scoring_job(job: Any, target: str, codec: TextCodec) -> Any:
    """The job that scores a target.

    Args:
        job: the :class:`~.translator.SentenceJob` that translates the source.

    Returns:
        a :class:`~.translator.SentenceJob`, or a :class:`Problem` of the target

    Raises:
        ValueError: for a model that predicts two tokens a step.
    """
    recipe = job.recipe
    if recipe.options.kind == "pairs":
        raise ValueError(
            "score: the model predicts two tokens a step; use fairseq-generate --score-reference"
        )
    tokens = encoded_target(target, codec, recipe.rules, len(recipe.prefix))
    if isinstance(tokens, Problem):
        return tokens
    return job._replace(
        recipe=recipe.scoring.of_target(recipe.bos, (*recipe.prefix, *tokens)),
        n_best=1,
        written=partial(score_or_details, job.written),
        sentence=job.sentence._replace(draft=None),
    )


def encoded_target(
    target: str, codec: TextCodec, rules: SearchRules, n_before: int
) -> Union[list[int], Problem]:
    """The tokens of a target to be scored, without EOS.

    Args:
        rules: for the special tokens and the number of positions.
        n_before: the number of forced tokens before it.
    """
    found = codec.encode_target(target)
    if isinstance(found, Problem):
        return found
    tokens, n = found[:-1], n_before + len(found)
    if n > rules.max_positions:
        return Problem(
            "too long",
            f"{n} target tokens including EOS; at most {rules.max_positions} are possible",
        )
    if not {rules.pad, rules.eos}.isdisjoint(tokens):
        return Problem(
            "special symbol", "the target has a symbol for EOS or padding as a word; remove it"
        )
    return tokens


def score_or_details(written: Any, outputs: Sequence[Output], details: bool) -> list[Any]:
    """The score of a target, or its :class:`~.results.Translation`, in a list.

    Args:
        written: see :class:`~.translator.SentenceJob`.
        outputs: the target alone.
    """
    return written(outputs, True) if details else [outputs[0].score]
