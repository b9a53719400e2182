#!/usr/bin/env python3
"""Table 2 of Imamura and Sumita (WAT 2020), for models of several seeds.

    python examples/double_token/distilled.py --cpu-autocast --seeds 1 2 3    # 12 hours on one core

As in the paper, all models are trained from scratch for the same time, and differ only in the order
of tokens and the number of tokens per step. They learn the translations of one teacher, the bundled
model of ../en_de, of the training data and of crossed sentences (../common/crossing.py).

Every command is printed. Stages with existing results are skipped, so an interrupted run can be
resumed. As soon as the models of a seed are decoded, their figures are added to
``benchmarks/double_token_table_2.json``, from which the table of examples/RESULTS.md is written.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from examples.common import arguments, commands, en_de
from examples.common.averaging import train_and_average
from examples.common.training_text import with_crossed, without_references
from examples.double_token import table_2
from examples.double_token.models import (
    DOUBLE_BIDIRECTIONAL,
    DOUBLE_L2R,
    DOUBLE_R2L,
    METHODS,
    SINGLE_L2R,
    SINGLE_R2L,
    Method,
    Model,
)
from examples.double_token.run import decode_all, show_tables
from examples.double_token.trainer import command, training

TEACHER = en_de.MODEL / "checkpoint.pt"
N_CROSSED = 100_000
NETWORK = en_de.network(256, 512, 5, 2)
TRAINING = training(3000, 2e-3, 400, 3400, dropout=0.1)
SAVE_EVERY = 50
MODELS = (DOUBLE_BIDIRECTIONAL, SINGLE_L2R, SINGLE_R2L, DOUBLE_L2R, DOUBLE_R2L)


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        compare(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = en_de.recipe_parser(__doc__, "double_token_distilled")
    arguments.add_rounds(parser)
    arguments.add_seeds(parser)
    return parser.parse_args()


def compare(args: argparse.Namespace) -> None:
    """Run all stages from raw text to the tables."""
    work = args.workdir
    recipe = en_de.asked_for(replace(en_de.RECIPES["full"], network=NETWORK), args)
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe)
    without_references(work, "sources", partial(with_crossed, n=N_CROSSED, seed=13))
    en_de.distil(work, TEACHER, data="sources")
    figures = []
    for seed in args.seeds:
        for model in MODELS:
            train(work, recipe, of_seed(model, seed))
        decoded = decode_all(work, methods(seed), args.rounds)
        show_tables(work, decoded, f"tables-{seed}.md")
        figures = table_2.record(decoded, seed)
    print("\n" + table_2.section(figures))
    table_2.write(figures)


def train(work: Path, recipe: en_de.Recipe, model: Model) -> None:
    """Train one model, and average its last checkpoints."""
    data, folder = work / "distilled" / "data", work / model.name
    train_and_average(folder, command(data, folder, recipe, model, TRAINING, SAVE_EVERY))


def of_seed(model: Model, seed: int) -> Model:
    """The same model, trained with a seed."""
    return replace(model, name=f"{model.name}-{seed}", seed=seed)


def methods(seed: int) -> list[Method]:
    """The rows of the table, with the models of a seed."""
    return [
        replace(method, model=of_seed(method.model, seed))
        for method in METHODS
        if method.model in MODELS
    ]


if __name__ == "__main__":
    main()
