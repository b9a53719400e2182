"""Checks options and builds the generator of a method for fairseq."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Optional

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ..processes.errors import flag_of
from ..translating.generation_options import (
    BEAM_FLAGS,
    CONSTRAINTS,
    DIVERSE_BEAM_GROUPS,
    LM_PATH,
    LM_WEIGHT,
    MATCH_SOURCE_LEN,
    NO_REPEAT,
    SAMPLING_FLAGS,
    check_kinds,
    check_values,
    refused,
)
from ..translating.registry import generator_class
from .generator import FAIRSEQ_DEFAULT_BEAM, DecodingGenerator
from .language_model import LanguageModel
from .methods.beams import PruningOptions
from .options import DecodingOptions

# The flags of the options that prune beams, by name.
PRUNING = {field.name: flag_of(field.name) for field in fields(PruningOptions)}
# Each with those that mean nothing beside it: they choose among candidates in other ways.
EXCLUSIVE = {
    DIVERSE_BEAM_GROUPS: (*PRUNING.values(), "--sampling", CONSTRAINTS, MATCH_SOURCE_LEN),
    "--sampling": (*PRUNING.values(), MATCH_SOURCE_LEN),
}


def build_generator(
    models: Sequence[FairseqEncoderDecoderModel],
    dictionary: Dictionary,
    args: Any,
    options: DecodingOptions,
    extra: Optional[dict[str, Any]] = None,
    prefix_allowed_tokens_fn: Optional[Callable] = None,
    source_dictionary: Optional[Dictionary] = None,
) -> DecodingGenerator:
    """Build the generator of the method in ``--decoding``.

    Args:
        models: the ensemble.
        dictionary: the target dictionary.
        args: fairseq's ``GenerationConfig``, or a namespace with some of its fields.
        extra: fairseq's ``extra_gen_cls_kwargs``.
        source_dictionary: the source dictionary (default: that of the encoder).

    Raises:
        ValueError: for an option that the method does not support; it names the flag.
    """
    check_asked_for(options, args, extra, prefix_allowed_tokens_fn)
    extra = _given(extra)
    eos = extra.get("eos", dictionary.eos())
    _check_end(args, eos, dictionary)
    strip = extra.get("symbols_to_strip_from_output", ())
    lm = LanguageModel.of(args, extra, dictionary, models[0])
    method = generator_class(str(options.decoding))
    generator = method.for_models(models, options)
    return generator(models, dictionary, args, options, strip, source_dictionary, eos, lm)


def check_asked_for(
    options: DecodingOptions,
    args: Any,
    extra: Optional[dict[str, Any]] = None,
    prefix_allowed_tokens_fn: Optional[Callable] = None,
) -> None:
    """Check the arguments of :func:`build_generator` that do not depend on a model or dictionary.

    Raises:
        ValueError: for an option that the method does not support; it names the flag.
    """
    check_kinds(args)
    name = str(options.decoding)
    method = generator_class(name)
    wanted = asked_for(args, _given(extra), prefix_allowed_tokens_fn)
    for flag, is_given in wanted.items():
        if is_given and flag not in method.honours:
            raise ValueError(
                f"{flag}: not possible with --decoding {name}; remove it{_instead(name, flag)}"
            )
    wanted |= {flag: getattr(options, name) is not None for name, flag in PRUNING.items()}
    for flag, others in EXCLUSIVE.items():
        for other in others:
            if wanted[flag] and wanted[other]:
                raise ValueError(f"{flag}: cannot be combined with {other}; remove one of them")
    check_values(args)
    if wanted[LM_WEIGHT] and not wanted[LM_PATH]:
        weight = getattr(args, "lm_weight", 0)
        raise ValueError(f"{LM_WEIGHT} {weight}: has no effect without {LM_PATH}; give both")
    beam, nbest = getattr(args, "beam", FAIRSEQ_DEFAULT_BEAM), getattr(args, "nbest", 1)
    if method.keeps_one_hypothesis:
        _check_one_hypothesis(name, beam, nbest)
    elif nbest > beam:
        raise ValueError(f"--nbest {nbest}: more than --beam {beam} finds; raise --beam")


def asked_for(args: Any, extra: dict[str, Any], prefix_fn: Optional[Callable]) -> dict[str, bool]:
    """For each fairseq option that not all methods support, by flag, whether it was given."""
    prefix_fn = prefix_fn or getattr(args, "prefix_allowed_tokens_fn", None)
    constraints = getattr(args, "constraints", None)
    return {
        **refused(args),
        LM_WEIGHT: (getattr(args, "lm_weight", 0) or extra.get("lm_weight", 0)) != 0,
        "--sampling": getattr(args, "sampling", False),
        "--sampling-topk": getattr(args, "sampling_topk", -1) > 0,
        "--sampling-topp": not getattr(args, "sampling_topp", -1) <= 0,  # nor is NaN
        DIVERSE_BEAM_GROUPS: getattr(args, "diverse_beam_groups", -1) > 0,
        "--diversity-rate": not getattr(args, "diversity_rate", -1) <= -1,  # nor is NaN
        MATCH_SOURCE_LEN: getattr(args, "match_source_len", False),
        CONSTRAINTS: constraints is not None and constraints is not False,
        NO_REPEAT: getattr(args, "no_repeat_ngram_size", 0) > 0,
        "--print-alignment": bool(getattr(args, "print_alignment", None)),
        "--replace-unk": getattr(args, "replace_unk", None) is not None,
        "--print-step": getattr(args, "print_step", False),
        "--retain-iter-history": getattr(args, "retain_iter_history", False),
        LM_PATH: getattr(args, "lm_path", None) is not None or "lm_model" in extra,
        "tokens_to_suppress": bool(extra.get("tokens_to_suppress")),
        "prefix_allowed_tokens_fn": prefix_fn is not None,
    }


def _given(extra: Optional[dict[str, Any]]) -> dict[str, Any]:
    return {key: value for key, value in (extra or {}).items() if value is not None}


def _check_end(args: Any, eos: int, dictionary: Dictionary) -> None:
    """Reject an ``--eos-token`` that the task ignores; only some of fairseq's tasks read it."""
    token = getattr(args, "eos_token", None)
    if token is not None and (token not in dictionary or dictionary.index(token) != eos):
        raise ValueError(
            f"--eos-token {token}: sentences end with {dictionary[eos]} in this task; remove it"
        )


def _instead(name: str, flag: str) -> str:
    """The end of an error message, naming a method that supports the option."""
    if name == "double_token":
        return ""  # fairseq's generator cannot run its models
    if flag in SAMPLING_FLAGS:
        return " or use --decoding beam, which draws --beam samples of each sentence"
    return f" or use --decoding {'beam' if flag in BEAM_FLAGS else 'fairseq'}"


def _check_one_hypothesis(name: str, beam: int, nbest: int) -> None:
    if nbest > 1:
        raise ValueError(
            f"--nbest above 1: not possible with --decoding {name}, which keeps one hypothesis; "
            "remove it or use --decoding beam"
        )
    if beam not in (1, FAIRSEQ_DEFAULT_BEAM):
        raise ValueError(
            f"--beam {beam}: --decoding {name} keeps one hypothesis; remove --beam or use "
            "--decoding beam"
        )
