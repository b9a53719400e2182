"""Reads the settings that a task gives to fairseq's generator.

Tasks may force a first token, end sentences with a language token, or strip tokens from the output.
Each task passes this to the ``SequenceGenerator`` that it builds in a different way. The attributes
of the finished generator are the same for all tasks.
"""

import copy
from argparse import Namespace
from typing import Any, Optional

from fairseq.search import BeamSearch, Sampling
from fairseq.sequence_generator import SequenceGenerator
from omegaconf import DictConfig

# fairseq's generation options and the corresponding attributes of its generator.
ATTRIBUTES = {
    "max_len_a": "max_len_a",
    "max_len_b": "max_len_b",
    "min_len": "min_len",
    "lenpen": "len_penalty",
    "unkpen": "unk_penalty",
    "temperature": "temperature",
}


def for_one_beam(args: Any) -> Any:
    """The options for building fairseq's generator.

    A generator with a larger beam would set BART's attention to that number of rows per sentence,
    and this setting stays in the model. With alignments, it would be of another class.

    Args:
        args: fairseq's ``GenerationConfig`` or a namespace with some of its fields; not changed.
    """
    single = _copy(args)
    single.beam, single.print_alignment = 1, None
    return single


def settings_of(generator: Any, args: Any, task: Any) -> tuple[Any, dict[str, Any]]:
    """Read the options and further settings from a task's generator.

    Args:
        generator: built by the task for ``args`` with beam 1.

    Returns:
        the options, an updated copy of ``args``, and ``extra_gen_cls_kwargs``: the token that ends
        a sentence, the tokens to strip from the output, and a language model with its weight

    Raises:
        ValueError: for a generator that does more than beam search or sampling.
    """
    problem = _problem(generator)
    if problem is not None:
        raise ValueError(
            f"--decoding: {type(task).__name__} {problem}, which only --decoding fairseq supports; "
            "use that"
        )
    copied = _copy(args)
    for option, attribute in ATTRIBUTES.items():
        setattr(copied, option, getattr(generator, attribute))
    copied.unnormalized = not generator.normalize_scores
    blocker = generator.repeat_ngram_blocker
    copied.no_repeat_ngram_size = 0 if blocker is None else blocker.no_repeat_ngram_size
    copied.sampling = type(generator.search) is Sampling
    copied.sampling_topk = getattr(generator.search, "sampling_topk", -1)
    copied.sampling_topp = getattr(generator.search, "sampling_topp", -1.0)
    language_model = {}
    if generator.lm_model is not None:
        language_model = {"lm_model": generator.lm_model, "lm_weight": generator.lm_weight}
    return copied, {
        "eos": generator.eos,
        "symbols_to_strip_from_output": generator.symbols_to_strip_from_output,
        **language_model,
    }


def _copy(args: Any) -> Any:
    """A copy in which any option can be set; in 0.12.2, the interface of speech models has none."""
    if isinstance(args, DictConfig):
        return Namespace(**{str(name): args.get(name) for name in args})
    return copy.copy(args)


def _problem(generator: Any) -> Optional[str]:
    """The reason why a generator is not supported, as a verb phrase; otherwise ``None``."""
    name = type(generator).__name__
    if type(generator) is not SequenceGenerator:
        return f"decodes with its own {name}"
    if type(generator.search) not in (BeamSearch, Sampling):
        return f"searches with {type(generator.search).__name__}"
    additions = {
        "suppresses tokens": generator.token_indices_to_suppress is not None,
        "matches the source's length": generator.match_source_len,
        "limits the length of outputs": generator.max_len
        != generator.model.max_decoder_positions(),
    }
    return next((verb for verb, is_so in additions.items() if is_so), None)
