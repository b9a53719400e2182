"""The English-German recipe: data preparation, training and decoding."""

import argparse
import lzma
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional, Union

from . import arguments, commands

EN_DE = commands.ROOT / "examples" / "en_de"
# The bundled model.
MODEL = EN_DE / "model"
# The references of the test set; a recipe may decode only its first sentences.
TEST_TEXT = EN_DE / "data" / "test.de"
CROSS_ENTROPY = ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"]
BASELINE = ["--arch", "transformer", *CROSS_ENTROPY]


@dataclass
class Recipe:
    """The settings that differ between the sizes."""

    bpe_operations: int
    test_sentences: int
    baseline_options: list[str]
    blockwise_options: list[str]
    rounds: int
    network: list[str]


def training_lines(language: str) -> list[str]:
    """The lines of LibreOffice's help, the training text of all sizes."""
    packed = (EN_DE / "data" / f"libreoffice.{language}.xz").read_bytes()
    return lzma.decompress(packed).decode("utf-8").split("\n")[:-1]


def network(dim: int, ffn: int, encoder_layers: int, decoder_layers: int) -> list[str]:
    """The options of a small pre-norm transformer."""
    return [
        "--encoder-embed-dim", str(dim), "--decoder-embed-dim", str(dim),
        "--encoder-ffn-embed-dim", str(ffn), "--decoder-ffn-embed-dim", str(ffn),
        "--encoder-layers", str(encoder_layers), "--decoder-layers", str(decoder_layers),
        "--encoder-attention-heads", "4", "--decoder-attention-heads", "4",
        "--encoder-normalize-before", "--decoder-normalize-before",
        "--share-all-embeddings",
    ]  # fmt: skip


def schedule(max_tokens: int, lr: float, warmup: int, updates: int) -> list[str]:
    """Batch size and a learning rate that falls to zero by the last update."""
    return [
        "--max-tokens", str(max_tokens), "--max-update", str(updates), "--lr", str(lr),
        "--lr-scheduler", "polynomial_decay", "--warmup-updates", str(warmup),
        "--total-num-update", str(updates),
    ]  # fmt: skip


RECIPES = {
    "quick": Recipe(
        bpe_operations=4000,
        test_sentences=300,
        # In such short trainings, small batches without dropout learn most per sentence.
        baseline_options=schedule(800, 2e-3, 200, 1500) + ["--dropout", "0"],
        blockwise_options=schedule(1500, 3e-3, 50, 1500) + ["--dropout", "0"],
        rounds=3,
        network=network(192, 512, 3, 2),
    ),
    "medium": Recipe(
        bpe_operations=4000,
        test_sentences=1500,
        baseline_options=schedule(1500, 2e-3, 300, 4000) + ["--dropout", "0.1"],
        blockwise_options=schedule(1500, 2e-3, 100, 3000) + ["--dropout", "0.1"],
        rounds=3,
        network=network(192, 512, 3, 2),
    ),
    "full": Recipe(
        bpe_operations=4000,
        test_sentences=1500,
        baseline_options=schedule(3000, 2e-3, 400, 6000) + ["--dropout", "0.2"],
        # More hidden units only slow down training: decoding runs the heads at one position per
        # step.
        blockwise_options=schedule(2000, 2e-3, 100, 4000)
        + ["--dropout", "0.1", "--block-ffn-embed-dim", "1024"],
        rounds=3,
        network=network(256, 512, 3, 2),
    ),
}
# Models of the bundled model's shape.
BUNDLED = replace(RECIPES["full"], network=network(256, 512, 5, 2))


def add_autocast_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--cpu-autocast``."""
    parser.add_argument(
        "--cpu-autocast",
        action="store_true",
        help="train with --cpu-autocast: faster on processors with bfloat16 instructions",
    )


def recipe_parser(text: Optional[str], name: str) -> argparse.ArgumentParser:
    """The command line of a recipe: ``--workdir``, by default ``work/NAME``, and autocast."""
    parser = arguments.described(text)
    parser.add_argument("--workdir", type=Path, default=commands.ROOT / "work" / name)
    add_autocast_option(parser)
    return parser


def asked_for(recipe: Recipe, args: argparse.Namespace) -> Recipe:
    """The recipe, with ``--cpu-autocast`` for its trainings if the example was called with it."""
    return replace(recipe, network=[*recipe.network, *["--cpu-autocast"] * args.cpu_autocast])


def prepare(work: Path, recipe: Recipe, texts: Sequence[str] = ("libreoffice",)) -> None:
    """Tokenise, split into subwords and binarise; the test set may be cut short.

    Args:
        texts: the training texts in ``examples/en_de/data``.
    """
    if (work / "data" / "test.en-de.de.idx").exists():
        return
    for language in ("en", "de"):
        lines = (EN_DE / "data" / f"test.{language}").read_bytes().split(b"\n")
        shortened = b"\n".join(lines[: recipe.test_sentences]) + b"\n"
        (work / f"test.{language}").write_bytes(shortened)
    commands.run(
        [
            *commands.module("fairseq_fastdec", "prepare-data"),
            "-s", "en", "-t", "de", "--bpe-operations", recipe.bpe_operations,
            "--train", *(EN_DE / "data" / text for text in texts),
            "--valid", EN_DE / "data" / "valid",
            "--test", work / "test", "--destdir", work / "data",
        ]
    )  # fmt: skip


def train_baseline(
    work: Path,
    recipe: Recipe,
    name: str = "baseline",
    data: str = "data",
    seed: int = 1,
    begins_with: Optional[Path] = None,
) -> None:
    """Train a stock transformer; see :func:`train_command` for ``begins_with``."""
    commands.stage(
        work / name,
        train_command(work / data, work / name, recipe, seed=seed, begins_with=begins_with)
        + [*recipe.baseline_options, *BASELINE],
    )


def distil(
    work: Path,
    teacher: Union[str, Path] = "baseline/checkpoint_last.pt",
    name: str = "distilled",
    options: Optional[list] = None,
    data: str = "data",
) -> None:
    """Replace the training targets by the teacher's translations (section 6.2), greedy by default.

    The heads have to predict p_1's output, which is what distilled data contain. Translations much
    longer than their source are repetitive, and left out.
    """
    folder = work / name
    commands.stage(
        folder,
        [
            *commands.module("fairseq_fastdec", "distill"), work / data,
            *(options or [*plugin_options(), "--decoding", "greedy", "--beam", "1"]),
            "--path", work / teacher, "--destdir", folder, "--batch-size", "64",
            "--max-len-a", "1.5", "--max-len-b", "20",
            "--drop-longer-a", "1.5", "--drop-longer-b", "5",
        ],
    )  # fmt: skip


def heads_options(block_size: int, block_heads: str = "parallel") -> list:
    """The options of a blockwise model whose p_1 is the base, and of its loss."""
    shape = (
        ["--block-ffn", "split"] if block_heads == "parallel" else ["--block-heads", block_heads]
    )
    return [
        "--arch", "blockwise_transformer", "--block-size", block_size, *shape,
        "--identity-first-head",
        "--criterion", "random_sub_loss", "--sub-loss", "random-position",
        "--label-smoothing", "0.1",
    ]  # fmt: skip


def train_command(
    data: Path,
    save_dir: Path,
    recipe: Recipe,
    task: str = "translation",
    save_every: int = 1000,
    keep: int = 1,
    seed: int = 1,
    begins_with: Optional[Path] = None,
) -> list:
    """The beginning of the commands of all trainings.

    Args:
        save_every: the number of updates between checkpoints within an epoch.
        keep: the number of these checkpoints to keep.
        begins_with: a checkpoint with initial parameters (default: random).
    """
    return [
        *commands.fairseq("train"), data, *plugin_options(task), *recipe.network,
        *optimizer_options(seed), *saving_options(save_dir, save_every, keep),
        *([] if begins_with is None else ["--finetune-from-model", begins_with]),
    ]  # fmt: skip


def optimizer_options(seed: int = 1) -> list:
    """Adam as for transformers."""
    return [
        "--optimizer", "adam", "--adam-betas", "(0.9,0.98)", "--clip-norm", "1.0",
        "--seed", seed,
    ]  # fmt: skip


def saving_options(save_dir: Path, save_every: int, keep: int = 1) -> list:
    """The options for saving and logging; see :func:`train_command`."""
    return [
        "--save-interval-updates", save_every, "--keep-interval-updates", keep,
        "--no-epoch-checkpoints", "--validate-interval", "100",
        "--log-format", "simple", "--log-interval", "50", "--save-dir", save_dir,
    ]  # fmt: skip


def plugin_options(task: str = "translation") -> list:
    """A task with this plugin; --cpu excludes GPUs from the comparison."""
    return [
        "--user-dir", commands.PLUGIN, "--task", task,
        "--source-lang", "en", "--target-lang", "de", "--cpu",
    ]  # fmt: skip


def text_options(codes: Path) -> list[str]:
    """The options of fairseq with which subwords become text."""
    return ["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", str(codes)]


def test_options(work: Path) -> list:
    """The test set, scored as detokenised text."""
    codes = work / "data" / "bpe.codes"
    return ["--gen-subset", "test", "--scoring", "sacrebleu", *text_options(codes)]


def decode_in_batches(work: Path, label: str, model: Path, options: list) -> Path:
    """Decode the test set in batches, for BLEU and block sizes; return the output directory."""
    output = work / "decoded" / label
    if not commands.finished(output):
        commands.generate_into(
            output,
            [
                work / "data", *plugin_options(), "--path", model, *test_options(work), *options,
                "--beam", "1", "--batch-size", "32", "--decoding-stats", output / "stats.jsonl",
            ],
        )  # fmt: skip
    return output
