#!/usr/bin/env python3
"""Train sequential heads on the base of the bundled model.

    python examples/en_de/sequential_heads.py --cpu-autocast    # two hours

The base is frozen, so translations do not change. The heads (--block-heads sequential) are trained
on its greedy translations of the training data and of crossed sentences (../common/crossing.py).
Every command is printed. Stages with existing results are skipped, so an interrupted run can be
resumed.
"""

from functools import partial
from pathlib import Path

from examples.common import commands, en_de
from examples.common.stock import save_without_heads
from examples.common.table import markdown, mean_block_size, read_run, signed
from examples.common.training_text import with_crossed, without_references
from fairseq_fastdec.data import atomic_files

FIRST_MODEL = en_de.MODEL / "checkpoint.pt"
BLOCK_SIZE = 8
N_CROSSED = 60_000
UPDATES = 12_000
SAVE_EVERY = 200
# No label smoothing, since targets are the base's own. The first heads have the largest weights,
# since they are used most often.
TRAINING = [
    *en_de.schedule(1200, 2e-3, 100, UPDATES), "--dropout", "0", "--label-smoothing", "0",
    "--heads-per-position", "2", "--head-decay", "0.7", "--disable-validation",
    "--head-targets", "base",
    # Half of the output layer's 256 inputs, for faster proposals.
    "--block-output-rank", "128",
]  # fmt: skip
# Proposals independent of the heads' confidence.
WHATEVER = ["--proposal-confidence", 0]
METHODS: dict[str, list] = {
    "chain of 3": ["--decoding-block-size", 4, *WHATEVER],
    "chain of 7": WHATEVER,
}


def main() -> None:
    """Run all stages."""
    args = en_de.recipe_parser(__doc__, "en_de_sequential_heads").parse_args()
    with commands.resumable(), commands.one_thread():
        compare(args.workdir, en_de.asked_for(en_de.BUNDLED, args))


def compare(work: Path, recipe: en_de.Recipe) -> None:
    """Run all stages from raw text to the table."""
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe)
    add_heads(work, recipe, FIRST_MODEL)


def add_heads(work: Path, recipe: en_de.Recipe, base: Path) -> None:
    """Train heads on a frozen model, and print the table of their block sizes.

    Args:
        work: a directory with prepared text in ``data``.
        base: a checkpoint, whose own heads are ignored.
    """
    without_references(work, "sources", partial(with_crossed, n=N_CROSSED, seed=11))
    en_de.distil(work, base, data="sources")
    save_without_heads(base, work / "base.pt")
    train(work, recipe)
    rows = [row_of(work, base, "greedy", ["--decoding", "greedy"])]
    model = work / "heads" / "checkpoint_last.pt"
    rows += [
        row_of(work, model, name, ["--decoding", "blockwise", *options])
        for name, options in METHODS.items()
    ]
    text = markdown(signed(f"{recipe.test_sentences} test sentences"), rows)
    print("\n" + text)
    atomic_files.write_text(work / "table.md", text + "\n")


def train(work: Path, recipe: en_de.Recipe) -> None:
    """Train only the heads."""
    folder, data = work / "heads", work / "distilled" / "data"
    command = en_de.train_command(
        data, folder, recipe, save_every=SAVE_EVERY, begins_with=work / "base.pt"
    )
    heads = en_de.heads_options(BLOCK_SIZE, "sequential")
    commands.stage(folder, [*command, *heads, *TRAINING, "--freeze-base"])


def row_of(work: Path, model: Path, name: str, options: list) -> dict[str, str]:
    """Decode with one model and one kind of proposals."""
    output = en_de.decode_in_batches(work, name.replace(" ", "-"), model, options)
    return {
        "proposals": name,
        "BLEU": f"{read_run(output, 'frozen', name, en_de.TEST_TEXT).bleu:.2f}",
        "mean accepted block size": f"{mean_block_size(output):.2f}",
    }


if __name__ == "__main__":
    main()
