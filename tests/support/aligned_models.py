"""Data to be reversed, with alignments, and models whose first layer learned to align."""

import random

from tests.support import command_line
from tests.support.words import write_words


def binarise(directory):
    """Sentences of letters, in ``bin``; each letter is aligned with itself."""
    draw = random.Random(0)
    for split, n in (("train", 600), ("valid", 30), ("test", 20)):
        lines = [draw.choices("abcdefghij", k=draw.randint(1, 8)) for _ in range(n)]
        write_words(directory / f"{split}.en", lines)
        write_words(directory / f"{split}.de", [line[::-1] for line in lines])
        pairs = [[f"{i}-{len(line) - 1 - i}" for i in range(len(line))] for line in lines]
        write_words(directory / f"{split}.align", pairs)
    splits = [x for name in ("train", "valid", "test") for x in (f"--{name}pref", directory / name)]
    command_line.preprocess(
        "-s", "en", "-t", "de", "--joined-dictionary", "--align-suffix", "align",
        "--destdir", directory / "bin", *splits,
    )  # fmt: skip


def train(data, directory, *options):
    """A transformer_align with two layers."""
    command_line.train(
        data, directory, "--arch", "transformer_align", "--load-alignments",
        "--criterion", "label_smoothed_cross_entropy_with_alignment", "--alignment-layer", 0,
        "--decoder-layers", 2, "--alignment-lambda", 1, *options, updates=350,
    )  # fmt: skip
