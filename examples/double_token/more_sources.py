#!/usr/bin/env python3
"""Compare double-token and single-token models trained on the same teacher's translations.

    python examples/double_token/more_sources.py    # about five hours of one core

Both are initialised with the bundled model, and trained on its translations of the training data;
then, with twice as many decoder layers, on the single-token model's translations of more sources
(../common/crossing.py). Every command is printed. Stages with existing results are skipped, so an
interrupted run can be resumed.
"""

from dataclasses import dataclass
from pathlib import Path

from examples.common import commands, en_de
from examples.common.averaging import train_and_average
from examples.common.deeper import State, deepened, rewrite
from examples.common.table import markdown, read_run, signed
from examples.common.training_text import binarise, crossed_lines, read, without_references
from examples.double_token.models import DISTILLED_DOUBLE, DISTILLED_L2R, Model, beam_search
from examples.double_token.trainer import Training, command, training
from fairseq_fastdec.data import atomic_files

FIRST_MODEL = en_de.MODEL / "checkpoint.pt"
# Parameters of a blockwise decoder that a stock one does not have.
HEADS = "decoder.heads."
N_CROSSED = 72_000
DECODER_LAYERS = 4
SAVE_EVERY = 50
BEAMS = (10, 1)
TEACHING = ["--decoding", "beam", "--beam", "5"]
MODELS = {"Single-token L2R": DISTILLED_L2R, "Double-token bidir.": DISTILLED_DOUBLE}


@dataclass(frozen=True)
class Stage:
    """A stage of the training of both models."""

    name: str
    title: str
    data: str
    training: Training
    network: list


STAGES = (
    Stage(
        "taught",
        "the bundled model's translations",
        "distilled/data",
        training(3000, 2e-3, 400, 6000, dropout=0.2),
        [],
    ),
    Stage(
        "deeper",
        "and of more sources, 4 decoder layers",
        "mixed",
        training(3000, 1.5e-3, 300, 4700, dropout=0.1),
        ["--decoder-layers", DECODER_LAYERS],
    ),
)


def main() -> None:
    """Run all stages."""
    args = en_de.recipe_parser(__doc__, "double_token_more_sources").parse_args()
    with commands.resumable():
        compare(args.workdir, en_de.asked_for(en_de.BUNDLED, args))


def compare(work: Path, recipe: en_de.Recipe) -> None:
    """Run all stages from raw text to the table."""
    taught, deeper = STAGES
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, recipe)
    en_de.distil(work, FIRST_MODEL, options=[*en_de.plugin_options(), *TEACHING])
    rewrite(FIRST_MODEL, work / "first.pt", without_heads)
    for model in MODELS.values():
        train(work, recipe, taught, model, work / "first.pt")
    mix(work)
    for model in MODELS.values():
        begin = work / f"{folder_of(taught, model)}_deeper.pt"
        rewrite(
            work / folder_of(taught, model) / "averaged.pt",
            begin,
            lambda state: deepened(state, DECODER_LAYERS),
        )
        train(work, recipe, deeper, model, begin)
    show(work, [(stage, title, decode(work, stage, title)) for stage in STAGES for title in MODELS])


def folder_of(stage: Stage, model: Model) -> str:
    """The folder of a model at the end of a stage."""
    return f"{stage.name}_{model.name}"


def without_heads(state: State) -> State:
    """The base of a blockwise model with ``--identity-first-head``."""
    return {name: value for name, value in state.items() if not name.startswith(HEADS)}


def train(work: Path, recipe: en_de.Recipe, stage: Stage, model: Model, begin: Path) -> None:
    """Train one model, and average its last checkpoints."""
    folder = work / folder_of(stage, model)
    chosen = command(work / stage.data, folder, recipe, model, stage.training, SAVE_EVERY, begin)
    train_and_average(folder, [*chosen, *stage.network])


def mix(work: Path) -> None:
    """Combine the distilled data, twice, and the translations of crossed sources."""
    if commands.finished(work / "mixed"):
        return
    without_references(work, "crossed", crossed_sources)
    teacher = work / folder_of(STAGES[0], DISTILLED_L2R) / "averaged.pt"
    task = [*en_de.plugin_options(DISTILLED_L2R.task), *DISTILLED_L2R.order]
    en_de.distil(work, teacher, "translated", [*task, *TEACHING], data="crossed")
    binarise(work, "mixed", *(mixed(work, language) for language in ("en", "de")))
    commands.mark_finished(work / "mixed")


def crossed_sources(work: Path) -> list[str]:
    """Sentences that are not in the training data."""
    return crossed_lines(read(work / "distilled/data/text/train.en"), N_CROSSED, seed=7)


def mixed(work: Path, language: str) -> list[str]:
    """One side of the mixed data."""
    own, others = (
        read(work / name / "data/text" / f"train.{language}")
        for name in ("distilled", "translated")
    )
    return own + own + others


def decode(work: Path, stage: Stage, title: str) -> dict[int, float]:
    """BLEU on the test set, by beam width."""
    model = MODELS[title]
    bleu = {}
    for beam in BEAMS:
        output = work / "decoded" / f"{folder_of(stage, model)}_beam_{beam}"
        if not commands.finished(output):
            commands.generate_into(
                output,
                [
                    work / "data", *en_de.plugin_options(model.task), *model.order,
                    *beam_search(beam), "--batch-size", "32", *en_de.test_options(work),
                    "--path", work / folder_of(stage, model) / "averaged.pt",
                ],
            )  # fmt: skip
        bleu[beam] = read_run(output, title, title, en_de.TEST_TEXT).bleu
    return bleu


def show(work: Path, results: list) -> None:
    """Print the table, and write it as Markdown."""
    rows = [
        {
            "model": title,
            "learned": stage.title,
            **{f"beam {k}": f"{v:.2f}" for k, v in bleu.items()},
        }
        for stage, title, bleu in results
    ]
    text = markdown(signed("BLEU where both learned the same translations."), rows)
    print("\n" + text)
    atomic_files.write_text(work / "table.md", text + "\n")


if __name__ == "__main__":
    main()
