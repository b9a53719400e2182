"""The decoding methods: a table of names, and what builds a generator for fairseq.

A new method is one new file with a :class:`~.base.FairseqGenerator` (most are a
:class:`~.base.Generator`) and one line in :data:`GENERATORS`.
"""

from typing import Any, Callable, Dict, Optional, Sequence, Type

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from .base import FAIRSEQ_DEFAULT_BEAM, FairseqGenerator
from .beam import BeamGenerator, VariableBeamGenerator
from .blockwise import BlockwiseGenerator
from .double_token import DoubleTokenGenerator
from .generation_options import check_values, refused
from .greedy import GreedyGenerator
from .jacobi import GSJacobiGenerator, HybridJacobiGenerator, JacobiGenerator
from .lookahead import LookaheadGenerator
from .options import DecodingOptions
from .streaming import StreamingGenerator

GENERATORS: Dict[str, Type[FairseqGenerator]] = {
    generator.name: generator
    for generator in (
        GreedyGenerator,
        BlockwiseGenerator,
        JacobiGenerator,
        GSJacobiGenerator,
        HybridJacobiGenerator,
        LookaheadGenerator,
        BeamGenerator,
        VariableBeamGenerator,
        StreamingGenerator,
        DoubleTokenGenerator,
    )
}


def build_generator(
    models: Sequence[FairseqEncoderDecoderModel],
    dictionary: Dictionary,
    args: Any,
    options: DecodingOptions,
    extra: Optional[Dict[str, Any]] = None,
    prefix_allowed_tokens_fn: Optional[Callable] = None,
    source_dictionary: Optional[Dictionary] = None,
) -> FairseqGenerator:
    """Build the generator that ``--decoding`` names.

    Args:
        models: the ensemble.
        dictionary: the target dictionary.
        args: fairseq's ``GenerationConfig``, or a namespace with some of its fields.
        extra: fairseq's ``extra_gen_cls_kwargs``.
        source_dictionary: the source dictionary (default: the encoders' own).

    Raises:
        ValueError: for any option that the method cannot honour; it names the flag.
    """
    name = str(options.decoding)
    extra = {key: value for key, value in (extra or {}).items() if value is not None}
    _refuse(name, asked_for(args, extra, prefix_allowed_tokens_fn))
    check_values(args)
    if GENERATORS[name].keeps_one_hypothesis:
        _check_one_hypothesis(name, args)
    else:
        _check_hypotheses(args)
    strip = extra.get("symbols_to_strip_from_output", ())
    return GENERATORS[name](models, dictionary, args, options, strip, source_dictionary)


def asked_for(args: Any, extra: Dict[str, Any], prefix_fn: Optional[Callable]) -> Dict[str, bool]:
    """fairseq's options that our methods do not have, by flag, and whether each was asked for."""
    prefix_fn = prefix_fn or getattr(args, "prefix_allowed_tokens_fn", None)
    constraints = getattr(args, "constraints", None)
    return {
        **refused(args),
        "--lm-weight": (getattr(args, "lm_weight", 0) or extra.get("lm_weight", 0)) != 0,
        "--sampling": getattr(args, "sampling", False),
        "--diverse-beam-groups": getattr(args, "diverse_beam_groups", -1) > 0,
        "--diversity-rate": not getattr(args, "diversity_rate", -1) <= -1,  # nor is NaN
        "--match-source-len": getattr(args, "match_source_len", False),
        "--constraints": constraints is not None and constraints is not False,
        "--no-repeat-ngram-size": getattr(args, "no_repeat_ngram_size", 0) > 0,
        "--print-alignment": bool(getattr(args, "print_alignment", None)),
        "--replace-unk": bool(getattr(args, "replace_unk", None)),
        "--print-step": getattr(args, "print_step", False),
        "--retain-iter-history": getattr(args, "retain_iter_history", False),
        "--lm-path": getattr(args, "lm_path", None) is not None or "lm_model" in extra,
        "tokens_to_suppress": bool(extra.get("tokens_to_suppress")),
        "prefix_allowed_tokens_fn": prefix_fn is not None,
    }


def _refuse(name: str, wanted: Dict[str, bool]) -> None:
    for flag, given in wanted.items():
        if given:
            raise ValueError(
                f"{flag}: not possible with --decoding {name}; remove it or use --decoding fairseq"
            )


def _check_hypotheses(args: Any) -> None:
    beam, nbest = getattr(args, "beam", FAIRSEQ_DEFAULT_BEAM), getattr(args, "nbest", 1)
    if nbest > beam:
        raise ValueError(f"--nbest {nbest}: more than --beam {beam} finds; raise --beam")


def _check_one_hypothesis(name: str, args: Any) -> None:
    if getattr(args, "nbest", 1) > 1:
        raise ValueError(
            f"--nbest above 1: not possible with --decoding {name}, which keeps one hypothesis; "
            "remove it or use --decoding beam"
        )
    beam = getattr(args, "beam", FAIRSEQ_DEFAULT_BEAM)
    if beam not in (1, FAIRSEQ_DEFAULT_BEAM):
        raise ValueError(
            f"--beam {beam}: --decoding {name} keeps one hypothesis; remove --beam or use "
            "--decoding beam"
        )
