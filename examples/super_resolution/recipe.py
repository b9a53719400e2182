"""The commands that prepare the data, train the models and decode with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from examples.common import commands, en_de
from examples.common.deeper import rewrite, write_first_heads

from . import beginning, intensities, patches, photographs
from .patches import N_PIXELS, SOURCE, TARGET

DIM = 128
PATCHES_PER_UPDATE = 8
SAVE_EVERY = 100
LARGEST = 10
NETWORK = [
    *en_de.network(DIM, 512, 1, 3), "--dropout", "0",
    "--max-source-positions", str(N_PIXELS + 1), "--max-target-positions", str(N_PIXELS + 1),
]  # fmt: skip
HEADS = [
    "--label-smoothing", "0", "--block-ffn-embed-dim", "256", "--heads-per-position", "2",
]  # fmt: skip


@dataclass(frozen=True)
class Size:
    """The amount of training: patches, and updates of the base, of frozen heads, of fine-tuning."""

    n_train: int
    base: int
    frozen: int
    fine_tuned: int


SIZES = {"quick": Size(12_000, 500, 150, 150), "full": Size(32_000, 4000, 1500, 1500)}


def prepare(work: Path, size: Size) -> None:
    """Cut the photographs into patches, and binarise their intensities."""
    folder, text = work / "data", work / "text"
    if commands.finished(folder):
        return
    text.mkdir(parents=True, exist_ok=True)
    train = patches.draw(photographs.load(photographs.TRAIN), size.n_train, seed=1)
    patches.write_pairs(text / "train", train)
    for split, names in (("valid", photographs.VALID), ("test", photographs.TEST)):
        patches.write_pairs(text / split, np.concatenate(of_whole(names)))
    intensities.write_dictionary(text / "dict.txt")
    intensities.write_embeddings(text / "embeddings.txt", DIM)
    commands.run(
        [
            *commands.fairseq("preprocess"), "--source-lang", SOURCE, "--target-lang", TARGET,
            "--trainpref", text / "train", "--validpref", text / "valid",
            "--testpref", text / "test", "--joined-dictionary", "--srcdict", text / "dict.txt",
            "--destdir", folder,
        ],
        log=work / "preprocess.txt",
    )  # fmt: skip
    commands.mark_finished(folder)


def of_whole(names: Sequence[str]) -> list[np.ndarray]:
    """The patches ``[N, 16, 16]`` of each halved photograph, row by row."""
    return [patches.tiles(patches.halved(pixels)) for pixels in photographs.load(names)]


def train_base(work: Path, size: Size, autocast: list[str]) -> Path:
    """Train a stock transformer; return its checkpoint."""
    options = ["--arch", "transformer", "--criterion", "cross_entropy"]
    embeddings = ["--encoder-embed-path", work / "text" / "embeddings.txt"]
    # One tiny update, to make fairseq-train write an initial model.
    new = _train(work, "new", _schedule(1e-9, 0, 1), [*options, *embeddings])
    start = new.with_name("looking.pt")
    rewrite(new, start, beginning.look)
    options += ["--finetune-from-model", start, *autocast]
    return _train(work, "base", _schedule(2e-3, 100, size.base), options)


def train_heads(work: Path, size: Size, base: Path, kind: str, autocast: list[str]) -> Path:
    """Train heads for all block sizes on the frozen base; return their checkpoint.

    Args:
        kind: ``frozen``, the paper's heads, or ``sequential``.
    """
    block_heads = "sequential" if kind == "sequential" else "parallel"
    # As many heads as any row needs; those that are not used have no effect.
    options = [*en_de.heads_options(LARGEST, block_heads), *HEADS, "--freeze-base"]
    options += ["--finetune-from-model", base, *autocast]
    return _train(work, kind, _schedule(2e-3, 50, size.frozen), options)


def fine_tune(work: Path, size: Size, frozen: Path, block_size: int, autocast: list[str]) -> Path:
    """Train the base with the first of the frozen heads; return the checkpoint."""
    start = frozen.with_name(f"first_{block_size}.pt")
    if not start.exists():
        write_first_heads(frozen, block_size, start)
    options = [*en_de.heads_options(block_size), *HEADS, "--finetune-from-model", start, *autocast]
    return _train(work, f"fine-tuned-{block_size}", _schedule(1e-3, 50, size.fine_tuned), options)


def decode(work: Path, label: str, model: Path, options: list) -> Path:
    """Decode the test patches one by one; return the output directory."""
    output = work / "decoded" / label
    if not commands.finished(output):
        commands.generate_into(
            output,
            [
                work / "data", *_plugin_options(), "--path", model, *options, "--beam", "1",
                "--gen-subset", "test", "--batch-size", "1", "--decoding-stats",
                output / "stats.jsonl",
                # As in the paper, outputs have a fixed length.
                "--max-len-a", "0", "--max-len-b", N_PIXELS, "--min-len", N_PIXELS,
            ],
        )  # fmt: skip
    return output


def _schedule(lr: float, warmup: int, updates: int) -> list[str]:
    return en_de.schedule(PATCHES_PER_UPDATE * (N_PIXELS + 1), lr, warmup, updates)


def _train(work: Path, name: str, schedule: list[str], options: list) -> Path:
    folder = work / name
    commands.stage(
        folder,
        [
            *commands.fairseq("train"), work / "data", *_plugin_options(), *NETWORK,
            *schedule, *options,
            "--optimizer", "adam", "--adam-betas", "(0.9,0.98)", "--clip-norm", "1.0",
            "--seed", "1", "--num-workers", "0", "--validate-interval", "100",
            "--save-interval-updates", SAVE_EVERY, "--keep-interval-updates", "1",
            "--no-epoch-checkpoints", "--log-format", "simple", "--log-interval", "50",
            "--save-dir", folder,
        ],
    )  # fmt: skip
    return folder / "checkpoint_last.pt"


def _plugin_options() -> list:
    """The task with this plugin; --cpu excludes GPUs from the comparison."""
    return [
        "--user-dir", commands.PLUGIN,
        "--source-lang", SOURCE, "--target-lang", TARGET, "--cpu",
    ]  # fmt: skip
