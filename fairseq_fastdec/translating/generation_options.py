"""fairseq's generation options: which of them are supported, and their valid values.

Every field of fairseq's ``GenerationConfig`` is in exactly one of the tables; a test checks this.
"""

import math
from numbers import Integral, Number, Real
from typing import Any, NamedTuple, Optional

from ..processes.errors import flag_of


class ValidRange(NamedTuple):
    """The valid values of an option, both ends included, and the requirement in words."""

    kind: type
    least: float
    most: float
    reason: str

    def is_kind(self, value: Any) -> bool:
        """Whether a value has the type of the option."""
        if self.kind is bool:
            return isinstance(value, bool)
        is_number = isinstance(value, self.kind) and not isinstance(value, bool)
        return is_number and (self.kind is Integral or is_float(value))

    def has(self, value: Any) -> bool:
        """Whether a value is valid; NaN is not."""
        return self.is_kind(value) and (self.kind is bool or self.least <= value <= self.most)


def is_float(value: Any) -> bool:
    """Whether a number can be converted to a float; integers from about 1e308 cannot."""
    try:
        float(value)
    except OverflowError:
        return False
    return True


MINUS, PLUS = -math.inf, math.inf
LARGEST = 1.7e308
COUNT = ValidRange(Integral, 1, PLUS, "a whole number of at least 1")
TRUTH = ValidRange(bool, 0, 1, "True or False")
WHOLE = ValidRange(Integral, MINUS, PLUS, "a whole number")
NUMBER = ValidRange(Real, MINUS, PLUS, "a number")

HONOURED: dict[str, ValidRange] = {
    "beam": COUNT,
    "nbest": COUNT,
    "max_len_a": ValidRange(Real, 0, LARGEST, "a number of at least 0"),
    "max_len_b": WHOLE,
    "min_len": WHOLE,
    "prefix_size": ValidRange(Integral, 0, PLUS, "a whole number of at least 0"),
    "no_repeat_ngram_size": WHOLE,
    "sampling_topk": WHOLE,
    "sampling_topp": NUMBER,
    # Scores are divided by the length to this power; they are float32.
    "lenpen": ValidRange(
        Real, -10, 10, "a number between -10 and 10: beyond, float32 cannot distinguish scores"
    ),
    # With inf there are no unknown words; with -inf scores become NaN.
    "unkpen": ValidRange(Real, -LARGEST, PLUS, "a number larger than -inf"),
    "diverse_beam_groups": ValidRange(Integral, -1, PLUS, "a whole number of at least -1"),
    "diverse_beam_strength": ValidRange(Real, 0, 1e4, "a number between 0 and 10000"),
    # Beyond this range float32 cannot represent the differences between log-probabilities.
    "temperature": ValidRange(
        Real, 1e-4, 1e4, "a number between 0.0001 and 10000; for the most probable tokens, use 1"
    ),
    "lm_weight": ValidRange(Real, -1e4, 1e4, "a number between -10000 and 10000"),
}

# Booleans, and options that fairseq's commands read and that are supported or passed on.
HONOURED_AS_GIVEN = frozenset({"unnormalized", "score_reference", "sampling", "no_seed_provided"})

# Options that only some methods support: those with the flag in ``honours``.
NO_REPEAT = "--no-repeat-ngram-size"
CONSTRAINTS = "--constraints"
MATCH_SOURCE_LEN = "--match-source-len"
DIVERSE_BEAM_GROUPS = "--diverse-beam-groups"
DIVERSE_BEAM_STRENGTH = "--diverse-beam-strength"
LM_PATH, LM_WEIGHT = "--lm-path", "--lm-weight"
LM_FLAGS = frozenset({LM_PATH, LM_WEIGHT})
BEAM_FLAGS = LM_FLAGS | {CONSTRAINTS, MATCH_SOURCE_LEN, DIVERSE_BEAM_GROUPS}
ALIGNMENTS = frozenset({"print_alignment", "replace_unk"})
ALIGNMENT_FLAGS = frozenset(map(flag_of, ALIGNMENTS))
SAMPLING_FLAGS = frozenset({"--sampling", "--sampling-topk", "--sampling-topp"})

# Of --diverse-beam-strength, in fairseq.
DEFAULT_STRENGTH = 0.5
# The options of fixed beams, and their defaults.
OF_BEAMS: dict[str, Any] = {"constraints": None, "match_source_len": False}
# The options that no method of this package supports, and their defaults.
REFUSED: dict[str, Any] = {
    "beam_mt": 0,
    "max_len_a_mt": 0.0,
    "max_len_b_mt": 200,
    "lenpen_mt": 1.0,
    "iter_decode_eos_penalty": 0.0,
    "iter_decode_max_iter": 10,
    "iter_decode_force_max_iter": False,
    "iter_decode_with_beam": 1,
    "iter_decode_with_external_reranker": False,
    "retain_dropout": False,
    "retain_dropout_modules": None,
    "decoding_format": None,
}

# Rejected by specific conditions in asked_for. Their defaults in fairseq.
REFUSED_IF_ASKED_FOR: dict[str, Any] = {
    "diversity_rate": -1.0,
    "print_step": False,
    "retain_iter_history": False,
}

# fairseq never reads the first two, and the third only to suppress a warning.
WITHOUT_EFFECT = frozenset({"no_early_stop", "no_beamable_mm", "sacrebleu"})

# Read by tasks whose end token depends on the language; they pass it to the generator.
READ_BY_TASKS = frozenset({"eos_token"})

# The file of a language model, which commands of fairseq or the generator load.
LANGUAGE_MODEL = frozenset({"lm_path"})

# fairseq-generate turns it into prefix_tokens; the hub and --eval-bleu ignore it.
READ_BY_COMMANDS = frozenset({"prefix_size"})


def _like(default: Any) -> Optional[ValidRange]:
    """The values of the type of a default; ``None`` for any, if the default is ``None``."""
    kinds = {bool: TRUTH, int: WHOLE, float: NUMBER}
    return kinds.get(type(default))


_OTHERS = {
    name: _like(default)
    for name, default in {**REFUSED, **REFUSED_IF_ASKED_FOR, **OF_BEAMS}.items()
}
# All options whose values have to be numbers, or True or False.
VALID: dict[str, ValidRange] = {
    **HONOURED,
    **dict.fromkeys(HONOURED_AS_GIVEN | WITHOUT_EFFECT, TRUTH),
    **{name: valid for name, valid in _OTHERS.items() if valid is not None},
}


def shown(value: Any) -> str:
    """A value in a message: text is quoted, so that "5" differs from 5."""
    return str(value) if isinstance(value, Number) else repr(value)


def check_kinds(args: Any, only_types: bool = False) -> None:
    """Check the types and ranges of values, which Python programs may have given.

    Args:
        args: fairseq's ``GenerationConfig``, or a namespace with some of its fields.
        only_types: for fairseq's own generator, whose ranges are larger.

    Raises:
        ValueError: for a value that is invalid for every method; it names the flag.
    """
    for name, valid in VALID.items():
        value = getattr(args, name, valid)
        is_valid = valid.is_kind if only_types else valid.has
        if value is not valid and not is_valid(value):
            raise ValueError(f"{flag_of(name)} {shown(value)}: must be {valid.reason}")


def check_values(args: Any) -> None:
    """Check values against each other.

    Args:
        args: as for :func:`check_kinds`, which is called first.

    Raises:
        ValueError: for a value that is invalid for every method; it names the flag.
    """
    if getattr(args, "no_repeat_ngram_size", 0) == 1:
        raise ValueError(
            f"{NO_REPEAT} 1: would forbid every repeated token; give 2 or more, or 0 to turn it off"
        )
    strength = getattr(args, "diverse_beam_strength", DEFAULT_STRENGTH)
    if strength != DEFAULT_STRENGTH and getattr(args, "diverse_beam_groups", -1) <= 0:
        raise ValueError(
            f"{DIVERSE_BEAM_STRENGTH} {strength}: has no effect without {DIVERSE_BEAM_GROUPS}; "
            "remove it"
        )
    _check_sampling(args)


def _check_sampling(args: Any) -> None:
    topk, topp = getattr(args, "sampling_topk", -1), getattr(args, "sampling_topp", -1.0)
    for flag, value in (("--sampling-topk", topk), ("--sampling-topp", topp)):
        if value > 0 and not getattr(args, "sampling", False):
            raise ValueError(f"{flag} {value}: has no effect without --sampling; remove it")
    if topp > 1:
        raise ValueError(f"--sampling-topp {topp}: must be at most 1, a probability")
    if topk > 0 and topp > 0:
        raise ValueError(
            f"--sampling-topk {topk}: has no effect beside --sampling-topp {topp}; remove one of "
            "them"
        )


def refused(args: Any) -> dict[str, bool]:
    """The flags of :data:`REFUSED`, and whether each was given."""
    return {
        flag_of(name): getattr(args, name, default) != default for name, default in REFUSED.items()
    }
