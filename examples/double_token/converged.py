#!/usr/bin/env python3
"""Table 2 of Imamura and Sumita (WAT 2020), for models that know how to translate before.

    python examples/double_token/converged.py --cpu-autocast    # a model takes an hour of a core

All begin with the distilled model of ../en_de, and learn its translations of the training data and
of crossed sentences (../common/crossing.py), each in its own order of tokens, in which alone they
differ. Every command is printed as it would be typed. A stage whose result exists is skipped, so
that an interrupted run goes on where it was.
"""

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path

from examples.common import arguments, commands, en_de
from examples.common.averaging import train_and_average
from examples.common.deeper import rewrite
from examples.common.training_text import with_crossed, without_references
from examples.double_token.models import (
    BASELINE,
    DOUBLE_BIDIRECTIONAL,
    DOUBLE_L2R,
    DOUBLE_R2L,
    METHODS,
    SINGLE_R2L,
    Method,
    Model,
    beam_search,
    own_generator_of_fairseq,
)
from examples.double_token.more_sources import without_heads
from examples.double_token.run import decode_all, show_tables
from examples.double_token.trainer import command, training

FIRST_MODEL = en_de.DISTILLED_MODEL / "checkpoint.pt"
N_CROSSED = 100_000
NETWORK = en_de.network(256, 512, 5, 2)
TRAINING = training(3000, 1.5e-3, 300, 3400, dropout=0.1)
SAVE_EVERY = 50
# The first model itself, which learns nothing any more.
SINGLE_L2R = Model("single_l2r", "translation", [], [])
LEARNERS = (DOUBLE_BIDIRECTIONAL, SINGLE_R2L, DOUBLE_L2R, DOUBLE_R2L)


def main() -> None:
    """All stages."""
    args = parse_args()
    with commands.resumable():
        compare(args)


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = en_de.recipe_parser(__doc__, "double_token_converged")
    arguments.add_rounds(parser)
    return parser.parse_args()


def compare(args: argparse.Namespace) -> None:
    """From raw text to the tables."""
    work = args.workdir
    recipe = en_de.asked_for(replace(en_de.RECIPES["full"], network=NETWORK), args)
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe)
    without_references(work, "sources", partial(with_crossed, n=N_CROSSED, seed=13))
    en_de.distil(work, FIRST_MODEL, data="sources")
    base = work / SINGLE_L2R.name / "averaged.pt"
    base.parent.mkdir(exist_ok=True)
    rewrite(FIRST_MODEL, base, without_heads)
    for model in LEARNERS:
        train(work, recipe, model, base)
    show_tables(work, decode_all(work, methods(), args.rounds))


def train(work: Path, recipe: en_de.Recipe, model: Model, base: Path) -> None:
    """One model; its last checkpoints are averaged."""
    data, folder = work / "distilled" / "data", work / model.name
    chosen = command(data, folder, recipe, model, TRAINING, SAVE_EVERY, base)
    train_and_average(folder, chosen)


def our_beam_search(width: int) -> list:
    """The options of the first model's task, whose default is fairseq's own generator."""
    return beam_search(width, "--decoding", "beam")


def methods() -> list[Method]:
    """The rows of the table that these models are for."""
    return [
        Method(BASELINE, SINGLE_L2R, our_beam_search),
        Method(f"{BASELINE}, by fairseq", SINGLE_L2R, own_generator_of_fairseq, False),
        *(method for method in METHODS if method.model in LEARNERS),
    ]


if __name__ == "__main__":
    main()
