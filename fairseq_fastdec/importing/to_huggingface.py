"""Writes models of fairseq as models of transformers that compute the same.

    post-norm, sinusoids of fairseq                      FSMT
    post-norm, sinusoids of transformers                 Marian
    post-norm, a norm after the embeddings               BART
    pre-norm, sinusoids of fairseq                       M2M-100
    pre-norm, a norm after the embeddings                mBART

BART and mBART have learned positions, which can be fairseq's sinusoids. Biases of the output layer
and padding as the first input are possible in Marian, BART and mBART.
"""

import logging
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import TransformerModel, base_architecture
from torch import Tensor

from ..data.atomic_files import replacing, write_bytes
from ..models.marian_transformer import MarianTransformerModel, complete_marian
from ..processes.errors import flag_of
from ..translating.languages import Languages, Pair
from .building import SPECIAL
from .huggingface import ACTIVATIONS, CLASSES, SIDES, ModelClass
from .to_huggingface_parameters import BIAS, converted
from .to_huggingface_tokenizers import as_json, tokenizer_files

logger = logging.getLogger(__name__)

# The names of the classes in transformers.
NAMES = {
    "marian": "MarianMTModel",
    "m2m_100": "M2M100ForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
    "bart": "BartForConditionalGeneration",
    "fsmt": "FSMTForConditionalGeneration",
}
WITH_BIASES = ("marian", "mbart", "bart")
WITH_SEPARATE_VOCABULARIES = ("marian", "fsmt")
# The options of a transformer that all classes compute; other values are refused.
COMMON = {
    "decoder_autoreg": "self-attention",
    "norm_epsilon": 1e-5,
    "no_final_norms": False,
    "no_decoder_final_norm": False,
    "no_cross_attention": False,
    "cross_self_attention": False,
    "no_token_positional_embeddings": False,
    "adaptive_input": False,
    "adaptive_softmax_cutoff": None,
}
# fairseq's defaults of decoding.
DEFAULTS = {
    "beam": 5,
    "lenpen": 1.0,
    "min_len": 1,
    "max_len_a": 0,
    "max_len_b": 200,
    "no_repeat_ngram_size": 0,
    "finalize": "fairseq",
}


class Dictionaries(NamedTuple):
    """The dictionaries of a model, which can be the same."""

    source: Dictionary
    target: Dictionary

    @property
    def are_same(self) -> bool:
        """Whether both have the same symbols."""
        return self.source is self.target or self.source.symbols == self.target.symbols


def export(
    args: Namespace,
    state: Mapping[str, Tensor],
    dictionaries: Dictionaries,
    files: Mapping[str, bytes],
    directory: Path,
    languages: Optional[Languages] = None,
    pair: Optional[Pair] = None,
    defaults: Optional[Mapping[str, Any]] = None,
) -> list[str]:
    """Write a model, the options of its decoding, and the files of its tokenizer.

    Args:
        args: all options of a transformer or a ``marian_transformer``.
        state: its ``state_dict``.
        files: those of the BPE by name, as in :class:`~.imported.Imported`.
        directory: is created if it does not exist.
        languages: how sentences name their languages (default: they do not).
        pair: the languages, or the default languages.
        defaults: options of decoding, named as in fairseq; the others have fairseq's defaults.

    Returns:
        the names of the files

    Raises:
        OSError: if a file cannot be written.
        ValueError: for a model that no class of transformers can compute; the message names what
            they lack.
    """
    languages, pair = languages or Languages(), pair or Pair("source", "target")
    args = _complete(args)
    kind = _class_of(args, state, dictionaries)
    sizes = _sizes(args, kind, dictionaries, pair)
    generation = _generation(args, dictionaries, languages, pair, {**DEFAULTS, **(defaults or {})})
    tensors, sharing = converted(args, state, kind, dictionaries.are_same)
    config = {
        **sizes,
        **sharing,
        "decoder_start_token_id": generation["decoder_start_token_id"],
    }
    contents = {
        "config.json": as_json(config),
        "generation_config.json": as_json(generation),
        **tokenizer_files(kind, dictionaries, files, languages, pair),
    }
    weights = directory / "model.safetensors"
    try:
        from safetensors.torch import save_file
    except ImportError as error:
        raise ValueError(
            f"{weights}: needs the package safetensors: pip install safetensors"
        ) from error
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        write_bytes(directory / name, content)
    with replacing(weights) as partial:
        # transformers requires the name of the framework.
        save_file(tensors, partial, metadata={"format": "pt"})
    return [*contents, weights.name]


def _complete(args: Namespace) -> Namespace:
    """All options; those that are missing have fairseq's defaults.

    Raises:
        ValueError: for another architecture.
    """
    arch = getattr(args, "arch", None)
    if ARCH_MODEL_REGISTRY.get(arch) not in (TransformerModel, MarianTransformerModel):
        raise ValueError(f"--arch {arch}: only transformers can be written for transformers")
    complete = Namespace(**vars(args))
    base_architecture(complete)
    complete_marian(complete)
    return complete


def _class_of(args: Namespace, state: Mapping[str, Tensor], dictionaries: Dictionaries) -> str:
    """The class of transformers that computes the same.

    Raises:
        ValueError: if there is none.
    """
    for name, value in COMMON.items():
        if getattr(args, name, value) != value:
            raise ValueError(
                f"{_shown(args, name)}: no class of transformers can compute this model"
            )
    if args.activation_fn not in (*ACTIVATIONS.values(), "gelu_fast"):
        raise ValueError(f"--activation-fn {args.activation_fn}: transformers does not have it")
    for name in ("embed_dim", "normalize_before", "learned_pos"):
        encoder, decoder = (getattr(args, f"{side}_{name}") for side in SIDES)
        if encoder != decoder:
            raise ValueError(
                f"{_shown(args, f'encoder_{name}')} and {_shown(args, f'decoder_{name}')}: no "
                "class of transformers has an encoder that differs from its decoder"
            )
    lacking = {
        name: list(_lacking(name, kind, args, state, dictionaries))
        for name, kind in CLASSES.items()
    }
    nearest = min(lacking, key=lambda name: len(lacking[name]))
    if lacking[nearest]:
        raise ValueError(
            f"{', '.join(lacking[nearest])}: no class of transformers can compute this model; the "
            f"nearest is {NAMES[nearest]}"
        )
    return nearest


def _lacking(
    name: str,
    kind: ModelClass,
    args: Namespace,
    state: Mapping[str, Tensor],
    dictionaries: Dictionaries,
) -> Iterator[str]:
    """Describe what the model has and a class does not."""
    if kind.is_pre_norm != args.encoder_normalize_before:
        yield _shown(args, "encoder_normalize_before")
    if kind.norms_embeddings != args.layernorm_embedding:
        yield _shown(args, "layernorm_embedding")
    if args.encoder_learned_pos:
        if not kind.has_learned_positions:
            yield "--encoder-learned-pos"
    elif args.sinusoids != kind.sinusoids:
        yield _shown(args, "sinusoids")
    bias = state.get(BIAS)
    if name not in WITH_BIASES:
        if bias is not None and bias.any():
            yield "--output-bias"
        if args.first_input != "eos":
            yield _shown(args, "first_input")
    if name not in WITH_SEPARATE_VOCABULARIES and not dictionaries.are_same:
        yield "dictionaries that differ"


def _shown(args: Namespace, name: str) -> str:
    """An option as on the command line."""
    value, flag = getattr(args, name), flag_of(name)
    if isinstance(value, bool):
        return flag if value else f"no {flag}"
    return f"{flag} {value}"


def _sizes(args: Namespace, kind: str, dictionaries: Dictionaries, pair: Pair) -> dict[str, Any]:
    """The values of ``config.json`` that the options determine."""
    activations = {own: name for name, own in reversed(ACTIVATIONS.items())}
    n_source, n_target = (len(dictionary) for dictionary in dictionaries)
    config: dict[str, Any] = {
        "model_type": kind,
        "architectures": [NAMES[kind]],
        "d_model": args.encoder_embed_dim,
        "activation_function": {**activations, "gelu_fast": "gelu_new"}[args.activation_fn],
        "scale_embedding": not args.no_scale_embedding,
        "max_position_embeddings": max(args.max_source_positions, args.max_target_positions),
        "is_encoder_decoder": True,
        "dtype": "float32",
    }
    for name in ("dropout", "attention_dropout", "activation_dropout"):
        config[name] = getattr(args, name)
    for side in SIDES:
        for name, own in (
            ("layers", "layers"),
            ("attention_heads", "attention_heads"),
            ("ffn_dim", "ffn_embed_dim"),
        ):
            config[f"{side}_{name}"] = getattr(args, f"{side}_{own}")
    for name, symbol in (("bos", "<s>"), ("pad", "<pad>"), ("eos", "</s>")):
        config[f"{name}_token_id"] = SPECIAL.index(symbol)
    if kind == "fsmt":
        return {
            **config,
            "langs": list(pair),
            "src_vocab_size": n_source,
            "tgt_vocab_size": n_target,
        }
    config["vocab_size"] = n_source
    return {**config, "decoder_vocab_size": n_target} if kind == "marian" else config


def _generation(
    args: Namespace,
    dictionaries: Dictionaries,
    languages: Languages,
    pair: Pair,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """``generation_config.json``; see :class:`~.huggingface_generation.Generation`."""
    around = languages.surroundings(pair, *dictionaries)
    target = dictionaries.target
    if len(around.prefix) > 1:
        raise ValueError(
            f"--target-format {languages.target_format}: transformers forces one first token"
        )
    start = target.pad() if args.first_input == "pad" and around.bos == target.eos() else around.bos
    most = min(options["max_len_b"], args.max_target_positions - 1)
    unsupported = sorted(set(options) - set(DEFAULTS)) + ["max_len_a"] * bool(options["max_len_a"])
    if unsupported:
        flags = ", ".join(f"{flag_of(name)} {options[name]}" for name in unsupported)
        logger.warning("%s: transformers does not have these options of decoding", flags)
    generation = {
        "bos_token_id": target.bos(),
        "pad_token_id": target.pad(),
        "eos_token_id": target.eos(),
        "decoder_start_token_id": start,
        "forced_eos_token_id": target.eos(),
        # As in fairseq, which never generates padding.
        "bad_words_ids": [[target.pad()]],
        "num_beams": options["beam"],
        "length_penalty": options["lenpen"],
        "early_stopping": options["finalize"] != "hf",
        "max_length": most + 2,
        "min_length": options["min_len"] + 1 if options["min_len"] else 0,
    }
    if around.prefix:
        generation["forced_bos_token_id"] = around.prefix[0]
    if options["no_repeat_ngram_size"]:
        generation["no_repeat_ngram_size"] = options["no_repeat_ngram_size"]
    return generation
