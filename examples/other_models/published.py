#!/usr/bin/env python3
"""Write a checkpoint of a published model's size, with random weights, and data for it.

    python examples/other_models/published.py m2m_100 work/m2m_100

The architectures are as published, in fp16 like the files. Words and weights are random, so outputs
are meaningless, but time and memory are the same.
"""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from torch import Tensor

from benchmarks.profile_engine.command import arguments_of
from examples.common import arguments
from examples.common.random_models import random_sentences, save_checkpoint, write_side
from fairseq_fastdec.data import atomic_files

# The sets of sentences, for --gen-subset, and their sizes.
SETS = {"test": 16, "one": 1}
LANGUAGES = ("en", "fr")
PAIR = ["-s", LANGUAGES[0], "-t", LANGUAGES[1]]
TRANSLATION, MANY, SPEECH = "translation", "translation_multi_simple_epoch", "speech_to_text"
# The first token of source and target is the language.
MULTILINGUAL = [
    *PAIR, "--langs", ",".join(LANGUAGES), "--lang-pairs", "-".join(LANGUAGES),
    "--encoder-langtok", "src", "--decoder-langtok",
]  # fmt: skip
# The number of targets for each word in the table for --shortlist.
N_TARGETS = 100
# Speech: frames, features, and the tokens of a transcript, with EOS.
N_FRAMES, N_FEATURES, TRANSCRIPT = 500, 80, 15


class Published(NamedTuple):
    """A published model.

    Attributes:
        title: the title in tables.
        arch: fairseq's name of the architecture.
        arguments: options that differ from the architecture's.
        n_types: the size of the dictionary, including language tokens.
        task: fairseq's name of the task.
        options: options of the task, for fairseq-generate.
        source_length: tokens of a source, with EOS.
        search: usual options of fairseq-generate for the model.
    """

    title: str
    arch: str
    arguments: dict[str, Any]
    n_types: int
    task: str
    options: list[str]
    source_length: int = 20
    search: list[str] = []

    @property
    def has_table(self) -> bool:
        """Whether to measure a shortlist: for text with a large vocabulary."""
        return self.task != SPEECH and self.n_types > 100_000


DEEP = dict(
    encoder_layers=12,
    decoder_layers=12,
    encoder_embed_dim=1024,
    decoder_embed_dim=1024,
    encoder_ffn_embed_dim=4096,
    decoder_ffn_embed_dim=4096,
    encoder_normalize_before=True,
    decoder_normalize_before=True,
    share_all_embeddings=True,
    max_source_positions=1024,
    max_target_positions=1024,
)
MODELS = {
    "m2m_100": Published(
        "M2M-100, 418M", "transformer_wmt_en_de_big",
        {**DEEP, "encoder_layerdrop": 0.05, "decoder_layerdrop": 0.05}, 128_112, MANY,
        MULTILINGUAL,
    ),
    "nllb_200": Published(
        "NLLB-200, 600M", "transformer_wmt_en_de_big", DEEP, 256_206, MANY, MULTILINGUAL,
    ),
    "mbart_50": Published(
        "mBART-50, 610M", "mbart_large",
        dict(encoder_normalize_before=True, decoder_normalize_before=True), 250_054, MANY,
        [*MULTILINGUAL, "--lang-tok-style", "mbart"],
    ),
    "bart_cnn": Published(
        "BART-large, CNN", "bart_large", {}, 50_264, TRANSLATION, PAIR, 120,
        ["--no-repeat-ngram-size", "3", "--lenpen", "2.0"],
    ),
    "s2t_m": Published(
        "s2t_transformer_m", "s2t_transformer_m",
        dict(max_source_positions=6000, max_target_positions=1024), 8_000, SPEECH,
        ["--config-yaml", "config.yaml", "--max-tokens", str(16 * N_FRAMES)],
    ),
}  # fmt: skip


def main() -> None:
    """Write ``checkpoint.pt`` and the data next to it."""
    parser = arguments.described(__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("directory", type=Path)
    args = parser.parse_args()
    args.directory.mkdir(parents=True, exist_ok=True)
    build(MODELS[args.model], args.directory)


def build(model: Published, directory: Path) -> None:
    """Write the data and the checkpoint of a model."""
    torch.manual_seed(1)
    if model.task == SPEECH:
        write_speech(directory, dictionary_of(model.n_types))
    else:
        write_text(model, directory)
    task = task_of(model, directory)
    if len(task.target_dictionary) != model.n_types:
        sys.exit(f"{model.title}: the task has {len(task.target_dictionary)} types")
    arguments = arguments_of(model.arch, **model.arguments)
    arguments.task = model.task
    network = task.build_model(arguments)
    # Leave out the objects that tasks add.
    stored = Namespace(**{k: v for k, v in vars(arguments).items() if _is_plain(v)})
    vars(stored).update(criterion="cross_entropy", optimizer="adam")
    save_checkpoint(network, stored, directory / "checkpoint.pt", torch.float16)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, list))


def task_of(model: Published, directory: Path) -> Any:
    """Set up the task as in fairseq-generate."""
    words = [str(directory), "--task", model.task, *model.options]
    parser = options.get_generation_parser()
    return tasks.setup_task(options.parse_args_and_arch(parser, words))


def dictionary_of(n_types: int) -> Dictionary:
    """A dictionary of artificial words."""
    dictionary = Dictionary()
    for index in range(n_types - dictionary.nspecial):
        dictionary.add_symbol(f"w{index}")
    return dictionary


def write_text(model: Published, directory: Path) -> None:
    """Write random sentences in both languages, and a table for ``--shortlist``, ``lex.s2t``."""
    n_added = 0
    if model.task == MANY:
        # Language tokens, and <mask> for mBART.
        n_added = len(LANGUAGES) + ("mbart" in model.options)
    dictionary = dictionary_of(model.n_types - n_added)
    length = model.source_length - (model.task == MANY)
    sentences = random_sentences(dictionary, max(SETS.values()), length)
    for split, size in SETS.items():
        for language in LANGUAGES:
            write_side(directory, LANGUAGES, language, dictionary, sentences[:size], split)
    if model.has_table:
        write_table(directory / "lex.s2t", dictionary, sentences)


def write_table(path: Path, dictionary: Dictionary, sentences: Tensor) -> None:
    """Write random targets for each word that occurs, like ``build-shortlist``."""
    words = sentences.unique().tolist()
    targets = random_sentences(dictionary, len(words), N_TARGETS + 1)[:, :-1].tolist()
    atomic_files.write_lines(
        path,
        (
            f"{dictionary[target]} {dictionary[word]} {1 / N_TARGETS}"
            for word, own in zip(words, targets)
            for target in own
        ),
    )


def write_speech(directory: Path, dictionary: Dictionary) -> None:
    """Write random frames and transcripts in the format of fairseq's speech recipes."""
    dictionary.save(str(directory / "dict.txt"))
    settings = f"vocab_filename: dict.txt\ninput_feat_per_channel: {N_FEATURES}\n"
    atomic_files.write_text(directory / "config.yaml", settings)
    rows = []
    transcripts = random_sentences(dictionary, max(SETS.values()), TRANSCRIPT)
    for number, words in enumerate(transcripts[:, :-1]):
        path = (directory / f"{number}.npy").resolve()
        np.save(path, torch.randn(N_FRAMES, N_FEATURES).numpy())
        rows.append(f"{number}\t{path}\t{N_FRAMES}\t{dictionary.string(words)}")
    for split, size in SETS.items():
        lines = ["id\taudio\tn_frames\ttgt_text", *rows[:size]]
        atomic_files.write_lines(directory / f"{split}.tsv", lines)


if __name__ == "__main__":
    main()
