#!/usr/bin/env python3
"""Train the bundled model, a student of an ensemble, and its heads.

    python examples/en_de/distill_ensemble.py --cpu-autocast    # five hours on two cores

Two teachers are trained on LibreOffice's help and user interface. A student of the same size is
initialised with one of them, and trained on the ensemble's translations by beam search of these
texts and of crossed sentences (../common/crossing.py). Then eight heads learn the student's output
(sequential_heads.py). Each training has one thread, so that it gives the same model again. Every
command is printed. Stages with existing results are skipped, so an interrupted run can be resumed.
Finally, this command writes the bundled directory:

    python examples/en_de/export.py work/en_de_distill_ensemble heads examples/en_de/model
"""

from functools import partial
from pathlib import Path

from examples.common import commands, en_de
from examples.common.averaging import N_AVERAGED, train_and_average
from examples.common.training_text import binarise, read, with_crossed, without_references
from examples.en_de.sequential_heads import add_heads

TEXTS = ("libreoffice", "libreoffice-ui")
TEACHERS = (1, 2)  # seeds
TEACHING = ["--decoding", "beam", "--beam", "5"]
N_CROSSED = 45_000
SAVE_EVERY = 100
TEACHER = [*en_de.schedule(3000, 2e-3, 400, 12_000), "--dropout", "0.2"]
STUDENT = [*en_de.schedule(3000, 1.5e-3, 300, 4000), "--dropout", "0.1"]


def main() -> None:
    """Run all stages."""
    args = en_de.recipe_parser(__doc__, "en_de_distill_ensemble").parse_args()
    with commands.resumable(), commands.one_thread():
        build(args.workdir, en_de.asked_for(en_de.BUNDLED, args))


def build(work: Path, recipe: en_de.Recipe) -> None:
    """Run all stages from raw text to the table of the student's heads."""
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe, TEXTS)
    teachers = commands.side_by_side(
        [
            partial(train, work, recipe, f"teacher_{seed}", "data", TEACHER, seed)
            for seed in TEACHERS
        ]
    )
    without_references(work, "taught_sources", partial(with_crossed, n=N_CROSSED, seed=5))
    together = ":".join(str(teacher) for teacher in teachers)
    options = [*en_de.plugin_options(), *TEACHING]
    en_de.distil(work, together, "taught", options, data="taught_sources")
    mix(work)
    begin = ["--finetune-from-model", teachers[0]]
    student = train(work, recipe, "student", "mixed", [*STUDENT, *begin], seed=1)
    add_heads(work, recipe, student)


def train(work: Path, recipe: en_de.Recipe, name: str, data: str, options: list, seed: int) -> Path:
    """Train a stock transformer; return the average of its last checkpoints."""
    folder = work / name
    command = en_de.train_command(
        work / data, folder, recipe, save_every=SAVE_EVERY, keep=N_AVERAGED, seed=seed
    )
    return train_and_average(folder, [*command, *en_de.BASELINE, *options, "--disable-validation"])


def mix(work: Path) -> None:
    """Combine the teachers' translations: original sentences twice, crossed ones once."""
    if commands.finished(work / "mixed"):
        return
    sources, targets = (read(work / f"taught/data/text/train.{name}") for name in ("en", "de"))
    own = set(read(work / "data/text/train.en"))
    whole = [pair for pair in zip(sources, targets) if pair[0] in own]
    binarise(work, "mixed", *zip(*whole, *zip(sources, targets)))
    commands.mark_finished(work / "mixed")


if __name__ == "__main__":
    main()
