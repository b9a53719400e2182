#!/usr/bin/env python3
"""Train and decode a blockwise model on real English-German text, through standard fairseq commands.

    python examples/en_de/run.py                 # shortened: about ten minutes on 2 cores
    python examples/en_de/run.py --size full     # about two hours

Every command is printed as it would be typed. A stage whose result exists is skipped, so that an
interrupted run goes on where it was; --workdir names where results are kept.
"""

import argparse
import contextlib
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional

from table import Run, read_run, show_table, translated_line

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLUGIN = ROOT / "fairseq_fastdec"


@dataclass
class Recipe:
    """What differs between the sizes."""

    bpe_operations: int
    test_sentences: int
    baseline_updates: int
    blockwise_updates: int
    max_tokens: int
    lr: float
    blockwise_lr: float
    warmup: int
    rounds: int
    frozen_model: bool
    network: List[str]


def network(dim: int, ffn: int, encoder_layers: int, decoder_layers: int, dropout: float) -> List[str]:
    """The options of a small pre-norm transformer."""
    return [
        "--encoder-embed-dim", str(dim), "--decoder-embed-dim", str(dim),
        "--encoder-ffn-embed-dim", str(ffn), "--decoder-ffn-embed-dim", str(ffn),
        "--encoder-layers", str(encoder_layers), "--decoder-layers", str(decoder_layers),
        "--encoder-attention-heads", "4", "--decoder-attention-heads", "4",
        "--encoder-normalize-before", "--decoder-normalize-before",
        "--share-all-embeddings", "--dropout", str(dropout),
    ]  # fmt: skip


RECIPES = {
    "quick": Recipe(
        bpe_operations=4000,
        test_sentences=300,
        baseline_updates=800,
        blockwise_updates=300,
        max_tokens=1500,
        lr=2e-3,
        blockwise_lr=1e-3,
        warmup=300,
        rounds=2,
        frozen_model=False,
        network=network(192, 512, 3, 2, dropout=0.1),
    ),
    "full": Recipe(
        bpe_operations=4000,
        test_sentences=1500,
        baseline_updates=6000,
        blockwise_updates=3000,
        max_tokens=3000,
        lr=2e-3,
        blockwise_lr=1e-3,
        warmup=400,
        rounds=2,
        frozen_model=True,
        network=network(256, 512, 3, 2, dropout=0.2),
    ),
}


def main() -> None:
    """All stages."""
    args = parse_args()
    recipe = RECIPES[args.size]
    work = args.workdir or ROOT / "work" / f"en_de_{args.size}"
    work.mkdir(parents=True, exist_ok=True)
    prepare(work, recipe)
    train_baseline(work, recipe)
    train_blockwise(work, recipe, "blockwise", frozen=False)
    if recipe.frozen_model:
        train_blockwise(work, recipe, "blockwise_frozen", frozen=True)
    runs = decode(work, recipe)
    show_table(work, runs, f"{recipe.test_sentences} test sentences, batch size 1, {args.size} recipe")


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=sorted(RECIPES), default="quick")
    parser.add_argument("--workdir", type=Path, help="default: work/en_de_SIZE in the repository")
    return parser.parse_args()


def prepare(work: Path, recipe: Recipe) -> None:
    """Tokenise, split into subwords and binarise; the test set may be cut short."""
    if (work / "data" / "test.en-de.de.idx").exists():
        return
    for language in ("en", "de"):
        lines = (HERE / "data" / f"test.{language}").read_text(encoding="utf-8").splitlines(True)
        shortened = "".join(lines[: recipe.test_sentences])
        (work / f"test.{language}").write_text(shortened, encoding="utf-8")
    run(
        [
            sys.executable, ROOT / "scripts" / "prepare_data.py",
            "-s", "en", "-t", "de", "--bpe-operations", recipe.bpe_operations,
            "--train", HERE / "data" / "libreoffice", "--valid", HERE / "data" / "valid",
            "--test", work / "test", "--destdir", work / "data",
        ]  # fmt: skip
    )


def train_baseline(work: Path, recipe: Recipe) -> None:
    """A stock transformer."""
    if not finished(work / "baseline"):
        run(
            train_command(work, recipe, "baseline", recipe.baseline_updates, recipe.lr)
            + ["--arch", "transformer", "--warmup-updates", recipe.warmup]
            + ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"]
        )
        mark_finished(work / "baseline")


def train_blockwise(work: Path, recipe: Recipe, name: str, frozen: bool) -> None:
    """Four heads on top of the baseline, which is fine-tuned with them or left as it is."""
    if finished(work / name):
        return
    command = train_command(work, recipe, name, recipe.blockwise_updates, recipe.blockwise_lr)
    command += ["--finetune-from-model", work / "baseline" / "checkpoint_last.pt"]
    command += ["--arch", "blockwise_transformer", "--block-size", "4", "--block-ffn", "split"]
    command += ["--identity-first-head", "--warmup-updates", "50"]
    command += ["--criterion", "random_sub_loss", "--sub-loss", "mean", "--label-smoothing", "0.1"]
    if frozen:
        command.append("--freeze-base")
    run(command)
    mark_finished(work / name)


def train_command(work: Path, recipe: Recipe, name: str, updates: int, lr: float) -> List:
    """What all trainings have in common."""
    return [
        *fairseq("train"), work / "data", *plugin_options(), *recipe.network,
        "--optimizer", "adam", "--adam-betas", "(0.9,0.98)", "--clip-norm", "1.0",
        "--lr", lr, "--lr-scheduler", "inverse_sqrt", "--warmup-init-lr", "1e-7",
        "--max-tokens", recipe.max_tokens, "--max-update", updates, "--seed", "1",
        "--save-interval-updates", "1000", "--keep-interval-updates", "1",
        "--no-epoch-checkpoints", "--validate-interval", "100",
        "--log-format", "simple", "--log-interval", "50", "--save-dir", work / name,
    ]  # fmt: skip


def decode(work: Path, recipe: Recipe) -> List[Run]:
    """Every method on the same sentences, in alternating rounds."""
    models = ["blockwise"] + ["blockwise_frozen"] * recipe.frozen_model
    methods = {
        "fairseq --beam 1": ["--decoding", "fairseq", "--beam", "1"],
        "greedy": ["--decoding", "greedy", "--beam", "1"],
        "blockwise": ["--decoding", "blockwise", "--beam", "1"],
        "blockwise, top 2": ["--decoding", "blockwise", "--beam", "1", "--acceptance", "topk"],
    }
    results = []
    for number in range(1, recipe.rounds + 1):
        for model in models:
            for method, options in methods.items():
                label = f"{model}-{method.replace(' ', '_').replace(',', '')}-{number}"
                output = work / "decoded" / label
                if not (output / "done").exists():
                    generate(work, model, output, options)
                results.append(read_run(output, model, method))
    return results


def generate(work: Path, model: str, output: Path, options: List[str]) -> None:
    """fairseq-generate with one method; translations and log go to ``output``."""
    output.mkdir(parents=True, exist_ok=True)
    run(
        [
            *fairseq("generate"), work / "data", *plugin_options(), *options,
            "--path", work / model / "checkpoint_last.pt", "--gen-subset", "test",
            "--batch-size", "1", "--sacrebleu", "--tokenizer", "moses",
            "--bpe", "subword_nmt", "--bpe-codes", work / "data" / "bpe.codes",
            "--decoding-stats", output / "stats.jsonl", "--results-path", output,
        ],  # fmt: skip
        log=output / "log.txt",
    )
    print("  " + translated_line(output))
    (output / "done").touch()


def fairseq(command: str) -> List:
    """fairseq-train or fairseq-generate of the running Python."""
    return [Path(sys.executable).parent / f"fairseq-{command}"]


def plugin_options() -> List:
    """The task of this plugin; --cpu keeps a GPU out of the comparison."""
    return [
        "--user-dir", PLUGIN, "--task", "translation_fastdec",
        "--source-lang", "en", "--target-lang", "de", "--cpu",
    ]  # fmt: skip


def run(command: List, log: Optional[Path] = None) -> None:
    """Print a command, run it, and stop everything if it fails.

    Args:
        log: where its log goes instead of the screen.
    """
    words = [str(word) for word in command]
    shown = (os.path.relpath(word) if word.startswith("/") else word for word in words)
    print("\n+ " + shlex.join(shown), flush=True)
    with open(log, "w", encoding="utf-8") if log else contextlib.nullcontext() as file:
        result = subprocess.run(words, stdout=file, stderr=file)
    if result.returncode != 0:
        sys.exit(f"the last command failed; its output is {f'in {log}' if log else 'above'}")


def finished(directory: Path) -> bool:
    """Whether a training ran to its end; without that it is resumed."""
    return (directory / "finished").exists()


def mark_finished(directory: Path) -> None:
    """Note that a training ran to its end."""
    (directory / "finished").touch()


if __name__ == "__main__":
    main()
