#!/usr/bin/env python3
"""Train eight heads and their base on the base's translations of ten times as many sources.

    python examples/double_token/more_sources.py    # trains the initial single-token model
    python examples/en_de/large_blocks.py           # some hours

The base gets two more decoder layers. Base and heads are trained on the base's greedy translations
of the training data and of crossed sentences (../common/crossing.py). Every command is printed.
Stages with existing results are skipped, so an interrupted run can be resumed.
"""

from functools import partial
from pathlib import Path

from examples.common import commands, en_de
from examples.common.averaging import train_and_average
from examples.common.deeper import deepened, rewrite
from examples.common.table import markdown, mean_block_size, read_run, signed
from examples.common.training_text import with_crossed, without_references
from fairseq_fastdec.data import atomic_files

TEACHER = commands.ROOT / "work/double_token_more_sources/deeper_distilled_l2r/averaged.pt"
BLOCK_SIZE = 8
DECODER_LAYERS = 6
N_CROSSED = 300_000
UPDATES = 3000
SAVE_EVERY, N_KEPT = 50, 10
# No dropout, since text is hardly repeated; no label smoothing, since targets are deterministic.
# The first heads have the largest weights, since they are used most often.
TRAINING = [
    *en_de.schedule(3500, 1.2e-3, 100, UPDATES), "--dropout", "0", "--label-smoothing", "0",
    "--block-ffn-embed-dim", "1024", "--heads-per-position", "5", "--head-decay", "0.75",
    "--disable-validation",
]  # fmt: skip
METHODS: dict[str, list] = {
    "each head's best": [],
    "top 2": ["--acceptance", "topk", "--acceptance-topk", "2"],
    "top 3": ["--acceptance", "topk", "--acceptance-topk", "3"],
}


def main() -> None:
    """Run all stages."""
    parser = en_de.recipe_parser(__doc__, "en_de_large_blocks")
    parser.add_argument(
        "--teacher",
        type=Path,
        default=TEACHER,
        help="a single-token model of more_sources.py (default: in its default work directory)",
    )
    args = parser.parse_args()
    if not args.teacher.exists():
        parser.error(f"--teacher {args.teacher}: does not exist; create it with more_sources.py")
    with commands.resumable():
        compare(args.workdir, args.teacher, en_de.asked_for(en_de.BUNDLED, args))


def compare(work: Path, teacher: Path, recipe: en_de.Recipe) -> None:
    """Run all stages from raw text to the table."""
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe)
    without_references(work, "sources", partial(with_crossed, n=N_CROSSED, seed=11))
    en_de.distil(work, teacher, data="sources")
    train(work, teacher, recipe)
    rows = [row_of(work, teacher, "greedy", "its base before", ["--decoding", "greedy"])]
    method = ["--decoding", "blockwise"]
    rows += [
        row_of(work, work / "blocks" / "averaged.pt", name, "k = 8", [*method, *options])
        for name, options in METHODS.items()
    ]
    text = markdown(signed(f"{recipe.test_sentences} test sentences"), rows)
    print("\n" + text)
    atomic_files.write_text(work / "table.md", text + "\n")


def train(work: Path, teacher: Path, recipe: en_de.Recipe) -> None:
    """Train heads and base together, and average the last checkpoints."""
    folder, begin = work / "blocks", work / "deeper.pt"
    rewrite(teacher, begin, lambda state: deepened(state, DECODER_LAYERS))
    data = work / "distilled" / "data"
    command = en_de.train_command(data, folder, recipe, save_every=SAVE_EVERY, keep=N_KEPT)
    command += [*en_de.heads_options(BLOCK_SIZE), *TRAINING]
    command += ["--decoder-layers", DECODER_LAYERS, "--finetune-from-model", begin]
    train_and_average(folder, command)


def row_of(work: Path, model: Path, name: str, title: str, options: list) -> dict[str, str]:
    """Decode with one model and one kind of proposals."""
    output = en_de.decode_in_batches(work, name.replace(" ", "-"), model, options)
    return {
        "model": title,
        "proposals": name,
        "BLEU": f"{read_run(output, title, name, en_de.TEST_TEXT).bleu:.2f}",
        "mean accepted block size": f"{mean_block_size(output):.2f}",
    }


if __name__ == "__main__":
    main()
