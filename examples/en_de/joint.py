#!/usr/bin/env python3
"""Train eight heads together with their model, on another model's translations.

    python examples/en_de/joint.py                   # one to two hours, after run.py --size full
    python examples/en_de/joint.py --cpu-autocast    # faster on processors with bfloat16

A model that learns what it will say next as it learns to translate has room for it from the start:
six decoder layers, short subwords, and targets that are all one translator's (the baseline of
``run.py --size full``, which is made if it is not there). Then all methods decode the test set with
this one model, one sentence at a time. A stage whose result exists is skipped.
"""

import argparse
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import List

from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from run import (
    HERE,
    METHODS,
    RECIPES,
    ROOT,
    Recipe,
    add_autocast_option,
    asked_for,
    distil,
    finished,
    generate,
    heads_options,
    mark_finished,
    network,
    prepare,
    resumable,
    run,
    schedule,
    train_baseline,
    train_command,
)
from table import Run, read_run, show_table

BLOCK_SIZE = 8
# A subword is guessed right more often the more of a word is there already.
BPE_OPERATIONS = 1000
NETWORK = network(256, 512, 3, 6)
TRAINING = [*schedule(3000, 2e-3, 500, 5500), "--dropout", "0.1"]
# About the share of tokens whose next one is guessed right.
HEADS = [*heads_options(BLOCK_SIZE), "--head-decay", "0.65"]


def main() -> None:
    """All stages."""
    args = parse_args()
    with resumable():
        train_and_compare(args)


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workdir", type=Path, default=ROOT / "work" / "en_de_full")
    add_autocast_option(parser)
    return parser.parse_args()


def train_and_compare(args: argparse.Namespace) -> None:
    """From raw text to the table."""
    work, recipe = args.workdir, RECIPES["full"]
    joint = work / "joint"
    joint.mkdir(parents=True, exist_ok=True)
    prepare(work, recipe)
    train_baseline(work, asked_for(recipe, args))
    distil(work)
    split_again(work, joint)
    train(joint, asked_for(replace(recipe, network=NETWORK), args))
    runs = decode(joint, recipe.rounds)
    show_table(joint, runs, f"{recipe.test_sentences} test sentences, batch size 1")


def split_again(work: Path, joint: Path) -> None:
    """The teacher's translations, as text, in shorter subwords than its own."""
    if (joint / "data" / "test.en-de.de.idx").exists():
        return
    for language in ("en", "de"):
        text = as_text((work / "distilled" / f"train.{language}").read_text("utf-8"), language)
        (joint / f"train.{language}").write_text(text, encoding="utf-8")
    run(
        [
            sys.executable, ROOT / "scripts" / "prepare_data.py", "-s", "en", "-t", "de",
            "--bpe-operations", BPE_OPERATIONS, "--train", joint / "train",
            "--valid", HERE / "data" / "valid", "--test", work / "test",
            "--destdir", joint / "data",
        ]
    )  # fmt: skip


def as_text(subwords: str, language: str) -> str:
    """Lines of subwords as people write them."""
    moses = MosesTokenizer(MosesTokenizerConfig(source_lang=language, target_lang=language))
    lines = subwords.replace("@@ ", "").split("\n")
    return "\n".join(moses.decode(line) for line in lines)


def train(joint: Path, recipe: Recipe) -> None:
    """The model and its heads, from nothing."""
    if not finished(joint / "model"):
        run([*train_command(joint / "data", joint / "model", recipe), *TRAINING, *HEADS])
        mark_finished(joint / "model")


def decode(joint: Path, rounds: int) -> List[Run]:
    """Every method on the same sentences, in alternating rounds."""
    runs = []
    for number in range(1, rounds + 1):
        for method, options in METHODS.items():
            output = joint / "decoded" / re.sub(r"\W+", "-", f"{method} {number}")
            if not finished(output):
                generate(joint, "model", output, options)
            runs.append(read_run(output, "joint", method))
    return runs


if __name__ == "__main__":
    main()
