"""The values that our options can have, and the methods that they are for: tables and a check."""

from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from ..engine.products.precision import PRECISIONS
from ..errors import flag_of
from .registry import METHODS, decoding_names

JACOBI = ("jacobi", "gs_jacobi", "hybrid_jacobi")
DRAFTING = (*JACOBI, "lookahead")
BEAMS = ("beam", "variable_beam", "streaming")

ACCEPTANCE_CHOICES = ChoiceEnum(["exact", "topk", "distance"])
DRAFT_CHOICES = ChoiceEnum(["pad", "copy", "previous", "ngram", "source"])
NGRAM_POOL_CHOICES = ChoiceEnum(["sentence", "run"])
FINALIZE_CHOICES = ChoiceEnum(["paper", "fairseq"])
PRECISION_CHOICES = ChoiceEnum(list(PRECISIONS))
PROPOSAL_PRECISION_CHOICES = ChoiceEnum(["engine", "rough"])
STREAM_POLICY_CHOICES = ChoiceEnum(["min-length", "fifo"])

# The options that have one of a few values. --decoding is one, too: its values can become more.
CHOICES = {
    "engine_precision": PRECISION_CHOICES,
    "proposal_precision": PROPOSAL_PRECISION_CHOICES,
    "acceptance": ACCEPTANCE_CHOICES,
    "draft": DRAFT_CHOICES,
    "ngram_pool": NGRAM_POOL_CHOICES,
    "finalize": FINALIZE_CHOICES,
    "stream_policy": STREAM_POLICY_CHOICES,
}

MINIMA = {
    "shortlist_first": 0,
    "shortlist_best": 1,
    "decoding_block_size": 1,
    "acceptance_topk": 1,
    "acceptance_distance": 0,
    "min_block_size": 1,
    "proposal_tree": 1,
    "proposal_types": 0,
    "proposal_confidence": 0,
    "jacobi_block_size": 1,
    "parallel_len_a": 0,
    "parallel_len_b": 0,
    "lookahead_window": 1,
    "ngram_order": 2,
    "prune_threshold": 0,
    "max_candidates": 1,
    "refill_threshold": 0,
    "stream_buffer": 1,
    "max_beam_rows": 1,
}

# The largest values, and why. Too large a value of other options is as good as "all there are".
MAXIMA = {
    "proposal_tree": (256, "a step computes the output layer for every one of them"),
    "proposal_confidence": (1, "it is a probability"),
    "parallel_len_a": (1e9, "no source or output is as long"),
    "ngram_order": (64, "each token is looked up, and kept, after contexts of all lengths below"),
}

KINDS = {
    int: (Integral, "a whole number"),
    Optional[int]: (Integral, "a whole number"),
    float: (Real, "a number"),
    Optional[float]: (Real, "a number"),
    bool: (bool, "True or False"),
}

# Options that every method of ours has.
GENERAL_OPTIONS = (
    "decoding_stats",
    "engine_precision",
    "keep_model",
    "shortlist",
    "shortlist_first",
    "shortlist_best",
)

# The methods that each of the other options is for. Another method would ignore it, and refuses it.
METHODS_OF_OPTION = {
    "decoding_block_size": ("blockwise", "auto"),
    "acceptance": ("blockwise",),
    "acceptance_topk": ("blockwise",),
    "acceptance_distance": ("blockwise",),
    "min_block_size": ("blockwise",),
    "proposal_tree": ("blockwise",),
    "proposal_types": ("blockwise", "auto"),
    "proposal_precision": ("blockwise", "auto"),
    "proposal_confidence": ("blockwise", "auto"),
    "jacobi_block_size": ("gs_jacobi", "hybrid_jacobi"),
    "parallel_len_a": ("hybrid_jacobi",),
    "parallel_len_b": ("hybrid_jacobi",),
    "oracle_length": ("jacobi", "gs_jacobi"),
    "lookahead_window": ("lookahead",),
    "draft": DRAFTING,
    "ngram_order": (*DRAFTING, "auto"),
    "ngram_pool": (*DRAFTING, "auto"),
    "prune_threshold": BEAMS,
    "max_candidates": BEAMS,
    "finalize": BEAMS,
    "refill_threshold": ("streaming",),
    "stream_policy": ("streaming",),
    "stream_buffer": ("streaming",),
    "max_beam_rows": ("streaming",),
}

# Options of a choice: another option has to have one of some values.
CHOICE_OF_OPTION = {
    "acceptance_topk": ("acceptance", ("topk",)),
    "acceptance_distance": ("acceptance", ("distance",)),
    "proposal_tree": ("acceptance", ("exact",)),
    "ngram_order": ("draft", ("ngram", "source")),
    "ngram_pool": ("draft", ("ngram",)),
}

# Options of an option without which they mean nothing.
OPTION_OF_OPTION = {"shortlist_first": "shortlist", "shortlist_best": "shortlist"}


def methods_of(option: str) -> tuple[str, ...]:
    """The values of ``--decoding`` that an option is for."""
    if option in GENERAL_OPTIONS:
        return tuple(METHODS)
    return METHODS_OF_OPTION.get(option, decoding_names())


def values_of(option: str) -> tuple[str, ...]:
    """The values that an option can have, if they are a few names; none otherwise."""
    if option == "decoding":
        return decoding_names()
    return tuple(choice.value for choice in CHOICES.get(option, ()))


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
        _check_kind(option.name, option.type, value)
        _check_value(option.name, value)
        if value != option.default:
            _check_has_a_use(options, option.name, value)
    if options.proposal_tree is not None and options.min_block_size > 1:
        raise ValueError(
            f"--min-block-size {options.min_block_size}: of a tree nothing is kept that p_1 does "
            "not agree with; remove it or --proposal-tree"
        )


def _check_kind(name: str, declared: Any, value: Any) -> None:
    """The hub and --eval-bleu-args bring values that argparse has not seen."""
    kind, in_words = KINDS.get(declared, (object, ""))
    is_truth = isinstance(value, bool)
    if not isinstance(value, kind) or (is_truth and kind in (Integral, Real)):
        raise ValueError(f"{flag_of(name)} {value}: must be {in_words}")


def _check_value(name: str, value: Any) -> None:
    flag = f"{flag_of(name)} {value}"
    names = values_of(name)
    if names and str(value) not in names:
        raise ValueError(f"{flag}: unknown; choose one of {', '.join(names)}")
    if name in MINIMA and not value >= MINIMA[name]:  # nor is NaN
        raise ValueError(f"{flag}: must be at least {MINIMA[name]}")
    if name in MAXIMA and value > MAXIMA[name][0]:
        most, reason = MAXIMA[name]
        raise ValueError(f"{flag}: must be at most {most}: {reason}")
    if name == "refill_threshold" and not value < 1:
        raise ValueError(f"{flag}: must be less than 1")


def _check_has_a_use(options: Any, name: str, value: Any) -> None:
    given = f"{flag_of(name)} {value}"
    methods = methods_of(name)
    if str(options.decoding) not in methods:
        raise ValueError(
            f"{given}: means nothing to --decoding {options.decoding}; remove it or use "
            f"--decoding {' or '.join(methods)}"
        )
    if name in OPTION_OF_OPTION and getattr(options, OPTION_OF_OPTION[name]) is None:
        needed = flag_of(OPTION_OF_OPTION[name])
        raise ValueError(f"{given}: means nothing without {needed}; remove it or give {needed}")
    if name not in CHOICE_OF_OPTION:
        return
    choice, values = CHOICE_OF_OPTION[name]
    chosen = options.draft_name if choice == "draft" else str(getattr(options, choice))
    if chosen not in values:
        raise ValueError(
            f"{given}: means nothing to {flag_of(choice)} {chosen}; remove it or use "
            f"{flag_of(choice)} {' or '.join(values)}"
        )
