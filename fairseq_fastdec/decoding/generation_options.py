"""fairseq's generation options: those that our methods honour, their values, and the others.

Every field of fairseq's ``GenerationConfig`` stands in one of the tables. A test compares.
"""

import math
from numbers import Integral, Real
from typing import Any, NamedTuple

from ..errors import flag_of


class ValidRange(NamedTuple):
    """The values of an option that mean something, both ends included, and why no others do."""

    kind: type
    least: float
    most: float
    reason: str


MINUS, PLUS = -math.inf, math.inf
LARGEST = 1.7e308

HONOURED: dict[str, ValidRange] = {
    "beam": ValidRange(Integral, 1, PLUS, "at least 1"),
    "nbest": ValidRange(Integral, 1, PLUS, "at least 1"),
    "max_len_a": ValidRange(Real, 0, LARGEST, "a number of at least 0"),
    "max_len_b": ValidRange(Integral, MINUS, PLUS, "a whole number"),
    "min_len": ValidRange(Integral, MINUS, PLUS, "a whole number"),
    "prefix_size": ValidRange(Integral, 0, PLUS, "at least 0"),
    "no_repeat_ngram_size": ValidRange(Integral, MINUS, PLUS, "a whole number"),
    "sampling_topk": ValidRange(Integral, MINUS, PLUS, "a whole number"),
    "sampling_topp": ValidRange(Real, MINUS, PLUS, "a number"),
    # Scores are divided by the length to this power; they are float32.
    "lenpen": ValidRange(
        Real, -10, 10, "between -10 and 10: beyond, scores of float32 are all alike"
    ),
    # With infinity there are no unknown words; with minus infinity scores are no numbers.
    "unkpen": ValidRange(Real, -LARGEST, PLUS, "a number larger than -inf"),
    # Beyond, float32 holds no differences between log-probabilities, or not the differences.
    "temperature": ValidRange(
        Real, 1e-4, 1e4, "between 0.0001 and 10000; for the most probable tokens, use 1"
    ),
}

# Flags that are on or off, and names that fairseq's commands read and we honour or pass on.
HONOURED_AS_GIVEN = frozenset({"unnormalized", "score_reference", "sampling", "no_seed_provided"})

# Options that some methods honour: those with such a flag among their ``honours``.
NO_REPEAT = "--no-repeat-ngram-size"
SAMPLING_FLAGS = frozenset({"--sampling", "--sampling-topk", "--sampling-topp"})

# The options that no method of ours has, and their values where nobody gave one.
REFUSED: dict[str, Any] = {
    "beam_mt": 0,
    "max_len_a_mt": 0,
    "max_len_b_mt": 200,
    "lenpen_mt": 1,
    "diverse_beam_strength": 0.5,
    "lm_weight": 0,
    "iter_decode_eos_penalty": 0,
    "iter_decode_max_iter": 10,
    "iter_decode_force_max_iter": False,
    "iter_decode_with_beam": 1,
    "iter_decode_with_external_reranker": False,
    "retain_dropout": False,
    "retain_dropout_modules": None,
    "decoding_format": None,
}

# Refused by conditions of their own, in asked_for.
REFUSED_IF_ASKED_FOR = frozenset(
    {
        "diverse_beam_groups", "diversity_rate", "match_source_len", "constraints",
        "print_alignment", "replace_unk", "print_step", "retain_iter_history", "lm_path",
    }
)  # fmt: skip

# Nothing in fairseq reads the first two. It reads the third only to keep a warning back.
WITHOUT_EFFECT = frozenset({"no_early_stop", "no_beamable_mm", "sacrebleu"})

# Tasks read it that end sentences with a token of the language, and tell the generator.
READ_BY_TASKS = frozenset({"eos_token"})

# fairseq-generate reads it, and makes prefix_tokens of it; the hub and --eval-bleu do not.
READ_BY_COMMANDS = frozenset({"prefix_size"})


def check_values(args: Any) -> None:
    """
    Args:
        args: fairseq's ``GenerationConfig``, or a namespace with some of its fields.

    Raises:
        ValueError: for a value that means nothing to any method; it names the flag.
    """
    for name, valid in HONOURED.items():
        value = getattr(args, name, None)
        if value is None:
            continue
        is_number = isinstance(value, valid.kind) and not isinstance(value, bool)
        if not is_number or not valid.least <= value <= valid.most:  # nor is NaN
            raise ValueError(f"{flag_of(name)} {value}: must be {valid.reason}")
    if getattr(args, "no_repeat_ngram_size", 0) == 1:
        raise ValueError(f"{NO_REPEAT} 1: no word could come twice; give 2 or more, or 0 for none")
    _check_sampling(args)


def _check_sampling(args: Any) -> None:
    topk, topp = getattr(args, "sampling_topk", -1), getattr(args, "sampling_topp", -1.0)
    for flag, value in (("--sampling-topk", topk), ("--sampling-topp", topp)):
        if value > 0 and not getattr(args, "sampling", False):
            raise ValueError(f"{flag} {value}: means nothing without --sampling; remove it")
    if topp > 1:
        raise ValueError(f"--sampling-topp {topp}: must be at most 1, a probability")
    if topk > 0 and topp > 0:
        raise ValueError(
            f"--sampling-topk {topk}: means nothing beside --sampling-topp {topp}; remove one of "
            "them"
        )


def refused(args: Any) -> dict[str, bool]:
    """The options of :data:`REFUSED`, by flag, and whether each was asked for."""
    return {
        flag_of(name): getattr(args, name, default) != default for name, default in REFUSED.items()
    }
