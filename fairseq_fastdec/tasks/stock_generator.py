"""Reads what a task tells fairseq's generator, so that ours can be told the same.

Tasks force a first token, end sentences with a token of the language, or keep tokens out of what is
printed. They say so to the ``SequenceGenerator`` that they build, each in its own way. That
generator knows it all once it is built, whatever the task.
"""

import copy
from argparse import Namespace
from typing import Any, Optional

from fairseq.search import BeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import DictConfig

# fairseq's generation options, and the generator's attributes that hold them.
ATTRIBUTES = {
    "max_len_a": "max_len_a",
    "max_len_b": "max_len_b",
    "min_len": "min_len",
    "lenpen": "len_penalty",
    "unkpen": "unk_penalty",
    "temperature": "temperature",
}


def for_one_beam(args: Any) -> Any:
    """The options to have fairseq's generator built with.

    A generator of several beams prepares BART's attention for so many rows a sentence, and that
    stays in the model.

    Args:
        args: fairseq's ``GenerationConfig`` or a namespace with some of its fields; stays as it is.
    """
    single = _copy(args)
    single.beam = 1
    return single


def settings_of(generator: Any, args: Any, task: Any) -> tuple[Any, dict[str, Any]]:
    """Read what a task has made of the options, and what it says besides.

    Args:
        generator: what the task built for ``args`` with one beam.

    Returns:
        the options, a copy of ``args``, and ``extra_gen_cls_kwargs``: the token that ends a
        sentence, and the tokens that are not printed

    Raises:
        ValueError: for a generator that neither searches with a beam nor samples, or does more.
    """
    problem = _problem(generator)
    if problem is not None:
        raise ValueError(
            f"--decoding: {type(task).__name__} {problem}, which only --decoding fairseq runs; use "
            "that"
        )
    own = _copy(args)
    for option, attribute in ATTRIBUTES.items():
        setattr(own, option, getattr(generator, attribute))
    own.unnormalized = not generator.normalize_scores
    blocker = generator.repeat_ngram_blocker
    own.no_repeat_ngram_size = 0 if blocker is None else blocker.no_repeat_ngram_size
    own.sampling = type(generator.search) is Sampling
    own.sampling_topk = getattr(generator.search, "sampling_topk", -1)
    own.sampling_topp = getattr(generator.search, "sampling_topp", -1.0)
    return own, {
        "eos": generator.eos,
        "symbols_to_strip_from_output": generator.symbols_to_strip_from_output,
    }


def _copy(args: Any) -> Any:
    """The same options, of which any can be set: 0.12.2's interface of speech models has none."""
    if isinstance(args, DictConfig):
        return Namespace(**{str(name): args.get(name) for name in args})
    return copy.copy(args)


def _problem(generator: Any) -> Optional[str]:
    """A reason why no method of ours can do the same, as a verb and its object; or ``None``."""
    name = type(generator).__name__
    if type(generator) is not SequenceGenerator:
        return f"decodes with a {name} of its own"
    if type(generator.search) not in (BeamSearch, Sampling):
        return f"searches with {type(generator.search).__name__}"
    additions = {
        "suppresses tokens": generator.token_indices_to_suppress is not None,
        "adds a language model": generator.lm_model is not None,
        "matches the source's length": generator.match_source_len,
        "has a longest length of its own": generator.max_len
        != generator.model.max_decoder_positions(),
    }
    return next((verb for verb, is_so in additions.items() if is_so), None)
