"""Tiny models as readers of other formats return them, with random parameters."""

import functools
from argparse import Namespace
from dataclasses import replace

import torch

from fairseq_fastdec.importing.building import dictionary_of, model_of, options_of
from fairseq_fastdec.importing.imported import Imported
from fairseq_fastdec.importing.writing import write
from fairseq_fastdec.translating.languages import Languages, Pair
from tests.support import tiny

N_WORDS = 20
LANGUAGES = ("eng_Latn", "deu_Latn", "fra_Latn", "zho_Hans", "zho_Hant")
# The formats of the encoder's input, and of the beginnings of outputs.
FORMATS = {
    "NLLB": ("{source} {text} </s>", "</s> {target}"),
    "mBART-25": ("{text} </s> {source}", "{target}"),
    "Opus-MT": ("{target} {text} </s>", "</s>"),
    "BART": ("<s> {text} </s>", "</s> <s>"),
    "one pair": ("{text} </s>", "</s>"),
}
ARCHITECTURES = ("transformer", "marian_transformer", "ssru_transformer")
# Random models with shared embeddings would repeat their input.
SMALL = {**tiny.SIZES, "encoder_layers": 1, "decoder_layers": 1, "share_all_embeddings": False}
# Outputs of random models rarely end by themselves.
DEFAULTS = {"max_len_a": 0.0, "max_len_b": 9}


def random_model(format="NLLB", arch="transformer", seed=0, **options):
    """A model whose outputs are different for different sentences and languages.

    Args:
        format: a key of :data:`FORMATS`.
        options: of the architecture.
    """
    made = _made(format, arch, seed, **options)
    return replace(made, state=dict(made.state))


@functools.cache
def _made(format, arch, seed, **options):
    has_languages = format not in ("BART", "one pair")
    names = {name: f"__{name}__" for name in LANGUAGES} if has_languages else {}
    words = [f"w{number}" for number in range(N_WORDS)]
    symbols = ["<s>", "<pad>", "</s>", "<unk>", *words, *names.values()]
    dictionary, given = dictionary_of(symbols), {**SMALL, **options}
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    model = tiny.build_model(task, arch, seed=seed, **given)
    tiny.stir(model, seed, scale=0.5)
    with torch.no_grad():
        for layer in model.decoder.layers:
            layer.encoder_attn.v_proj.weight *= 1.5
    source_format, target_format = FORMATS[format]
    pair = LANGUAGES if has_languages else ("en", "de")
    return Imported(
        arch=arch, options=given, state=parameters(model, given), source=symbols, target=symbols,
        source_lang=pair[0], target_lang=pair[1], languages=names, source_format=source_format,
        target_format=target_format, defaults=dict(DEFAULTS),
    )  # fmt: skip


def parameters(model, options):
    """The parameters of a model, without those of an output layer that it shares."""
    state = {name: own for name, own in model.state_dict().items() if "version" not in name}
    if options["share_all_embeddings"] or options.get("share_decoder_input_output_embed"):
        del state["decoder.output_projection.weight"]
    return state


def built(imported):
    """fairseq's model of an imported one, and its dictionaries as a task."""
    dictionary = dictionary_of(imported.source)
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    return model_of(imported, options_of(imported), task), task


def written(directory, format="NLLB", arch="transformer", defaults=None, files=None, **options):
    """Write a random model, and return the directory.

    Args:
        defaults: the recorded options (default: :data:`DEFAULTS`).
        files: more files by name.
        options: see :func:`random_model`.
    """
    imported = random_model(format, arch, **options)
    defaults = imported.defaults if defaults is None else defaults
    write(replace(imported, defaults=defaults, files=files or {}), directory)
    return directory


def surroundings(imported, source, target):
    """The tokens of a pair."""
    dictionary = dictionary_of(imported.source)
    own = Languages(imported.languages, imported.source_format, imported.target_format)
    return own.surroundings(Pair(source, target), dictionary, dictionary)
