"""Reads models of Marian: those of Opus-MT, Firefox and Bergamot.

>>> imported = read("models/enpt")        # model.enpt.intgemm.alphas.bin, vocab.enpt.spm, ...
"""

import logging
import math
import os
import re
from pathlib import Path
from typing import Any, Optional, Union

from ..data import shortlist_file
from ..data.model_files import SENTENCEPIECE, TARGET_PIECES
from ..translating.languages import Pair
from .imported import Imported, UnreadableModel
from .marian_directory import MarianDirectory, VocabularyFiles, found
from .marian_files import read_tensors
from .marian_options import MarianOptions, options_of
from .marian_parameters import MarianEmbeddings, MarianParameters, converted, sizes_of
from .marian_vocabulary import N_NEW, is_usual, vocabulary
from .vocabularies import Order

logger = logging.getLogger(__name__)

SHORTLIST = "shortlist.s2t.bin"
# The options with which Firefox translates.
OF_FIREFOX = {"beam": 1, "lenpen": 1.0, "max_len_a": 2.0, "max_len_b": 0}
LANGUAGE = re.compile(r">>([A-Za-z_]+)<<")


def read(path: Union[str, os.PathLike[str]], languages: Optional[Pair] = None) -> Imported:
    """Read a model of Marian.

    Args:
        path: a directory with a model, its vocabularies and, if there are any, the options of
            decoding and a shortlist; or the model's file in it.
        languages: the languages, in place of those from file names.

    Raises:
        UnreadableModel: for damaged files, and for models that cannot be represented exactly.
        OSError: if a file cannot be read.
    """
    directory = found(Path(path), languages)
    tensors = read_tensors(directory.model)
    options = options_of(directory.model, tensors)
    parameters = MarianParameters(directory.model, tensors)
    embeddings = MarianEmbeddings(options, parameters)
    n_source, n_target, _ = sizes_of(parameters, embeddings)
    files = directory.vocabularies
    source = vocabulary(files.source, n_source)
    is_same = files.source == files.target and n_source == n_target
    target = source if is_same else vocabulary(files.target, n_target)
    arch, values, state = converted(options, parameters, source, target)
    tokens = language_tokens(source)
    lexical = shortlist_of(directory, source, target)
    defaults = decoding_defaults(directory.config, ".intgemm" in directory.model.name)
    if lexical:
        defaults["shortlist"] = SHORTLIST
    return Imported(
        arch=arch,
        options=values,
        state=state,
        source=list(source.symbols),
        target=list(target.symbols),
        source_lang=directory.languages.source or "source",
        target_lang=directory.languages.target or "target",
        languages=tokens,
        source_format="{target} {text} </s>" if tokens else "{text} </s>",
        files={**piece_files(files), **lexical},
        defaults=defaults,
    )


def language_tokens(source: Order) -> dict[str, str]:
    """The target languages that sources can name, as in Opus-MT, with their tokens."""
    matches = filter(None, map(LANGUAGE.fullmatch, source.symbols))
    return {match[1]: match[0] for match in matches}


def piece_files(files: VocabularyFiles) -> dict[str, bytes]:
    """The models of SentencePiece; the target has one of its own if it differs."""
    source, target = files.source_pieces.read_bytes(), files.target_pieces.read_bytes()
    return {SENTENCEPIECE: source, **({TARGET_PIECES: target} if target != source else {})}


def shortlist_of(directory: MarianDirectory, source: Order, target: Order) -> dict[str, bytes]:
    """The shortlist in Marian's numbers, if there is a binary one that agrees with the model.

    Raises:
        UnreadableModel: if it is damaged.
    """
    if directory.shortlist is None:
        return {}
    data = directory.shortlist.read_bytes()
    if data[:8] != shortlist_file.MAGIC.to_bytes(8, "little"):
        logger.warning(f"{directory.shortlist}: is not a binary shortlist; it is not used")
        return {}
    if not (is_usual(source) and is_usual(target)):
        logger.warning(f"{directory.shortlist}: </s> and <unk> are not 0 and 1; it is not used")
        return {}
    n_source, n_target = len(source.rows) - N_NEW, len(target.rows) - N_NEW
    try:
        shortlist_file.parsed(data, n_source, n_target)
    except ValueError as error:
        raise UnreadableModel(f"{directory.shortlist}: {error}") from error
    return {SHORTLIST: data}


def decoding_defaults(config: MarianOptions, is_student: bool) -> dict[str, Any]:
    """fairseq's names and values of the options of decoding.

    Marian divides scores by length^normalize, and fairseq by length^lenpen; both count EOS. Marian
    stops after max-length-factor times the length of the source with its EOS, as fairseq after
    max_len_a times.

    Args:
        is_student: whether the model is one of Firefox, which come without a file of options.
    """
    defaults: dict[str, Any] = {}
    if not config.is_on("allow-unk"):
        defaults["unkpen"] = math.inf
    if not config.values:
        return {**defaults, **OF_FIREFOX} if is_student else defaults
    if "beam-size" in config.values:
        defaults["beam"] = config.number("beam-size", 1)
    power = decimal(config, "normalize", 0)
    defaults |= {"lenpen": power} if power else {"unnormalized": True}
    if "max-length-factor" in config.values:
        defaults |= {"max_len_a": decimal(config, "max-length-factor", 3), "max_len_b": 0}
    if decimal(config, "word-penalty", 0):
        logger.warning(f"{config.path}: word-penalty is not supported; it is not used")
    return defaults


def decimal(config: MarianOptions, name: str, default: float) -> float:
    """A finite number, which may have decimals.

    Raises:
        UnreadableModel: for other values.
    """
    text = config.text(name, str(default))
    # Marian reads `normalize` without a value as 1.
    if text in ("true", "false", ""):
        return float(text == "true")
    if not re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{0,20})?(e-?[0-9]{1,2})?", text):
        raise config.refused(name, "is not a number")
    return float(text)
