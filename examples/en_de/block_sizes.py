#!/usr/bin/env python3
"""Table 1 of Stern et al. (2018), with top-k acceptance and minimum blocks, on English-German text.

    python examples/en_de/block_sizes.py                                  # all: half a day
    python examples/en_de/block_sizes.py --block-sizes 4 --settings both  # one cell

It starts from the baseline and the distilled data of ``run.py --size full``, which are created if
missing. With ``--teacher-seed 2``, another model like the baseline is the teacher, with the paper's
beam search. Every command is printed; existing results are not recomputed.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import fairseq_fastdec  # noqa: F401  (lets torch load fairseq's checkpoints)
from examples.common import commands, en_de
from examples.common.deeper import write_first_heads
from examples.common.table import markdown, mean_block_size, read_run, signed
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.translating.command_line import positive

BASELINES_SEED = 1
LARGEST = 10
BLOCK_SIZES = (1, 2, 4, 6, 8, LARGEST)
# The beam search of Vaswani et al. (2017), used by the paper's teacher.
BEAM_SEARCH = ["--decoding", "beam", "--beam", "4", "--lenpen", "0.6"]
# Heads on a frozen base learn fast, and initialise fine-tuning. The learning rate is scheduled for
# 2,500 updates.
FROZEN = [*en_de.schedule(2000, 2e-3, 100, 2500), "--max-update", "1400", "--dropout", "0.1"]
# A low rate for the base and the largest weight for p_1, whose quality heads cannot restore.
FINE_TUNED = [*en_de.schedule(2000, 2e-4, 100, 1500), "--dropout", "0.1", "--head-decay", "0.65"]


class Setting(NamedTuple):
    """A column of the table."""

    distilled: bool
    fine_tuned: bool

    def data(self, teacher_seed: int) -> str:
        """The folder of the training data in the work directory."""
        return f"{distilled_by(teacher_seed)}/data" if self.distilled else "data"


SETTINGS = {
    "regular": Setting(distilled=False, fine_tuned=False),
    "distillation": Setting(distilled=True, fine_tuned=False),
    "fine-tuning": Setting(distilled=False, fine_tuned=True),
    "both": Setting(distilled=True, fine_tuned=True),
}
ACCEPTANCE: dict[str, list[str]] = {
    "exact": [],
    "top 2": ["--acceptance", "topk", "--acceptance-topk", "2"],
    "top 3": ["--acceptance", "topk", "--acceptance-topk", "3"],
    "at least 2": ["--min-block-size", "2"],
    "at least 3": ["--min-block-size", "3"],
}


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        make_table(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = en_de.recipe_parser(__doc__, "en_de_full")
    parser.add_argument(
        "--block-sizes", type=int, nargs="+", choices=BLOCK_SIZES, default=BLOCK_SIZES, metavar="K"
    )
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument(
        "--teacher-seed",
        type=positive,
        default=BASELINES_SEED,
        metavar="N",
        help=f"seed of the teacher (default: {BASELINES_SEED}, the baseline itself)",
    )
    return parser.parse_args()


def make_table(args: argparse.Namespace) -> None:
    """Run all stages from raw text to the table."""
    work, recipe = args.workdir, en_de.asked_for(en_de.RECIPES["full"], args)
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe)
    en_de.train_baseline(work, recipe)
    teach(work, recipe, args.teacher_seed)
    rows = []
    for block_size in args.block_sizes:
        for name in args.settings:
            setting = SETTINGS[name]
            # The paper's row k = 1 has no heads, so there is no fine-tuning.
            if block_size == 1 and setting.fine_tuned:
                continue
            data = setting.data(args.teacher_seed)
            model = train(work, recipe, data, setting.fine_tuned, block_size)
            by_another = setting.distilled and args.teacher_seed != BASELINES_SEED
            label = f"{name} by seed {args.teacher_seed}" if by_another else name
            for acceptance in acceptances(block_size) if name == "both" else ["exact"]:
                rows.append(row_of(work, model, block_size, label, acceptance))
    text = markdown(signed(f"{recipe.test_sentences} test sentences"), rows)
    print("\n" + text)
    atomic_files.write_text(work / "block_sizes.md", text + "\n")


def acceptances(block_size: int) -> list[str]:
    """All acceptances except minimum blocks above the block size."""
    return [
        name
        for name, options in ACCEPTANCE.items()
        if "--min-block-size" not in options or int(options[-1]) <= block_size
    ]


def distilled_by(teacher_seed: int) -> str:
    """The folder of a teacher's translations."""
    return "distilled" if teacher_seed == BASELINES_SEED else f"distilled-{teacher_seed}"


def teach(work: Path, recipe: en_de.Recipe, seed: int) -> None:
    """Train the teacher and create the distilled data."""
    teacher = "baseline" if seed == BASELINES_SEED else f"teacher-{seed}"
    en_de.train_baseline(work, recipe, teacher, seed=seed)
    # The baseline teaches its own greedy output, which p_1 is to predict.
    options = None if seed == BASELINES_SEED else [*en_de.plugin_options(), *BEAM_SEARCH]
    en_de.distil(work, f"{teacher}/checkpoint_last.pt", distilled_by(seed), options)


def train(work: Path, recipe: en_de.Recipe, data: str, fine_tuned: bool, block_size: int) -> Path:
    """Train the model of a cell; return its checkpoint."""
    if block_size == 1:
        return train_without_heads(work, recipe, data)
    frozen = train_frozen(work, recipe, data)
    return train_fine_tuned(work, recipe, data, block_size, frozen) if fine_tuned else frozen


def train_without_heads(work: Path, recipe: en_de.Recipe, data: str) -> Path:
    """Train the baseline, or the same on distilled data: p_1 of the cells with heads."""
    name = "baseline" if data == "data" else f"single-{Path(data).parts[0]}"
    en_de.train_baseline(work, recipe, name, data)
    return work / name / "checkpoint_last.pt"


def train_frozen(work: Path, recipe: en_de.Recipe, data: str) -> Path:
    """Train as many heads on a frozen base as any row needs; heads are independent."""
    folder = work / f"frozen-{Path(data).parts[0]}"
    if not commands.finished(folder):
        base = train_without_heads(work, recipe, data)
        commands.run(
            [*en_de.train_command(work / data, folder, recipe), *FROZEN]
            + [*en_de.heads_options(LARGEST), "--freeze-base"]
            + ["--finetune-from-model", base]
        )
        commands.mark_finished(folder)
    return folder / "checkpoint_last.pt"


def train_fine_tuned(
    work: Path, recipe: en_de.Recipe, data: str, block_size: int, frozen: Path
) -> Path:
    """Fine-tune base and heads together."""
    folder = work / f"fine-tuned-{Path(data).parts[0]}-{block_size}"
    if not commands.finished(folder):
        start = frozen.with_name(f"first_{block_size}.pt")
        write_first_heads(frozen, block_size, start)
        commands.run(
            [*en_de.train_command(work / data, folder, recipe), *FINE_TUNED]
            + [*en_de.heads_options(block_size), "--finetune-from-model", start]
        )
        commands.mark_finished(folder)
    return folder / "checkpoint_last.pt"


def row_of(
    work: Path, model: Path, block_size: int, setting: str, acceptance: str
) -> dict[str, str]:
    """Decode with a cell's model and one kind of acceptance."""
    label = f"{setting} {block_size} {acceptance}".replace(" ", "-")
    method = ["blockwise", "--decoding-block-size", block_size] if block_size > 1 else ["greedy"]
    options = ["--decoding", *method, *ACCEPTANCE[acceptance]]
    output = en_de.decode_in_batches(work, label, model, options)
    return {
        "k": str(block_size),
        "setting": setting,
        "acceptance": acceptance,
        "BLEU": f"{read_run(output, setting, acceptance, en_de.TEST_TEXT).bleu:.2f}",
        "mean accepted block size": f"{mean_block_size(output):.2f}",
    }


if __name__ == "__main__":
    main()
