#!/usr/bin/env python3
"""Train and decode a blockwise model on real English-German text, through fairseq's commands.

    python examples/en_de/run.py                 # shortened: about ten minutes on 2 cores
    python examples/en_de/run.py --size full     # about two hours

Every command is printed as it would be typed. A stage whose result exists is skipped, so that an
interrupted run goes on where it was; --workdir names where results are kept.
"""

import argparse
import contextlib
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Iterator, List, Optional, Union

from table import Run, read_run, show_table, translated_line

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLUGIN = ROOT / "fairseq_fastdec"


@dataclass
class Recipe:
    """What differs between the sizes."""

    bpe_operations: int
    test_sentences: int
    baseline_options: List[str]
    blockwise_options: List[str]
    rounds: int
    network: List[str]


def network(dim: int, ffn: int, encoder_layers: int, decoder_layers: int) -> List[str]:
    """The options of a small pre-norm transformer."""
    return [
        "--encoder-embed-dim", str(dim), "--decoder-embed-dim", str(dim),
        "--encoder-ffn-embed-dim", str(ffn), "--decoder-ffn-embed-dim", str(ffn),
        "--encoder-layers", str(encoder_layers), "--decoder-layers", str(decoder_layers),
        "--encoder-attention-heads", "4", "--decoder-attention-heads", "4",
        "--encoder-normalize-before", "--decoder-normalize-before",
        "--share-all-embeddings",
    ]  # fmt: skip


def schedule(max_tokens: int, lr: float, warmup: int, updates: int) -> List[str]:
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
        # With so little time, small batches and no dropout learn most from each sentence.
        baseline_options=schedule(800, 2e-3, 200, 1500) + ["--dropout", "0"],
        blockwise_options=schedule(1500, 3e-3, 50, 1500) + ["--dropout", "0"],
        rounds=3,
        network=network(192, 512, 3, 2),
    ),
    "full": Recipe(
        bpe_operations=4000,
        test_sentences=1500,
        baseline_options=schedule(3000, 2e-3, 400, 6000) + ["--dropout", "0.2"],
        # More hidden units cost training time only: decoding asks the heads at one position a step.
        blockwise_options=schedule(2000, 2e-3, 100, 4000)
        + ["--dropout", "0.1", "--block-ffn-embed-dim", "1024"],
        rounds=3,
        network=network(256, 512, 3, 2),
    ),
}


METHODS = {
    "fairseq --beam 1": ["--decoding", "fairseq", "--beam", "1"],
    "greedy": ["--decoding", "greedy", "--beam", "1"],
    "blockwise": ["--decoding", "blockwise", "--beam", "1"],
}


def main() -> None:
    """All stages."""
    args = parse_args()
    with resumable():
        run_recipe(args)


@contextlib.contextmanager
def resumable() -> Iterator[None]:
    """End the program with one line where it is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; the same command goes on from here")


def run_recipe(args: argparse.Namespace) -> None:
    """From raw text to the table."""
    recipe = asked_for(RECIPES[args.size], args)
    work = args.workdir or ROOT / "work" / f"en_de_{args.size}"
    work.mkdir(parents=True, exist_ok=True)
    prepare(work, recipe)
    train_baseline(work, recipe)
    distil(work)
    train_blockwise(work, recipe)
    runs = decode(work, recipe)
    show_table(
        work, runs, f"{recipe.test_sentences} test sentences, batch size 1, {args.size} recipe"
    )


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=sorted(RECIPES), default="quick")
    parser.add_argument("--workdir", type=Path, help="default: work/en_de_SIZE in the repository")
    add_autocast_option(parser)
    return parser.parse_args()


def add_autocast_option(parser: argparse.ArgumentParser) -> None:
    """``--cpu-autocast`` of the examples."""
    parser.add_argument(
        "--cpu-autocast",
        action="store_true",
        help="train with --cpu-autocast: faster on processors with bfloat16 instructions",
    )


def asked_for(recipe: Recipe, args: argparse.Namespace) -> Recipe:
    """The recipe, its trainings with ``--cpu-autocast`` if the example was given it."""
    return replace(recipe, network=[*recipe.network, *["--cpu-autocast"] * args.cpu_autocast])


def prepare(work: Path, recipe: Recipe) -> None:
    """Tokenise, split into subwords and binarise; the test set may be cut short."""
    if (work / "data" / "test.en-de.de.idx").exists():
        return
    for language in ("en", "de"):
        lines = (HERE / "data" / f"test.{language}").read_bytes().split(b"\n")
        shortened = b"\n".join(lines[: recipe.test_sentences]) + b"\n"
        (work / f"test.{language}").write_bytes(shortened)
    run(
        [
            sys.executable,
            ROOT / "scripts" / "prepare_data.py",
            "-s",
            "en",
            "-t",
            "de",
            "--bpe-operations",
            recipe.bpe_operations,
            "--train",
            HERE / "data" / "libreoffice",
            "--valid",
            HERE / "data" / "valid",
            "--test",
            work / "test",
            "--destdir",
            work / "data",
        ]  # fmt: skip
    )


def train_baseline(
    work: Path, recipe: Recipe, name: str = "baseline", data: str = "data", seed: int = 1
) -> None:
    """A stock transformer."""
    if not finished(work / name):
        run(
            train_command(work / data, work / name, recipe, seed=seed)
            + [*recipe.baseline_options, "--arch", "transformer"]
            + ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"]
        )
        mark_finished(work / name)


def distil(
    work: Path,
    teacher: Union[str, Path] = "baseline/checkpoint_last.pt",
    name: str = "distilled",
    options: Optional[List] = None,
    data: str = "data",
) -> None:
    """Replace the training targets by the teacher's translations (section 6.2), greedy by default.

    The heads have to guess what p_1 will say, and on distilled data that is what they are taught. A
    translation far longer than its source is a model going in circles, and is left out.
    """
    folder = work / name
    if finished(folder):
        return
    run(
        [
            sys.executable, ROOT / "scripts" / "distill.py", work / data,
            *(options or [*plugin_options(), "--decoding", "greedy", "--beam", "1"]),
            "--path", work / teacher, "--destdir", folder, "--batch-size", "64",
            "--max-len-a", "1.5", "--max-len-b", "20",
            "--drop-longer-a", "1.5", "--drop-longer-b", "5",
        ]
    )  # fmt: skip
    mark_finished(folder)


def train_blockwise(work: Path, recipe: Recipe) -> None:
    """Four heads on top of the baseline, which stays as it is."""
    folder = work / "frozen"
    if finished(folder):
        return
    run(
        [*train_command(work / "distilled" / "data", folder, recipe), *recipe.blockwise_options]
        + [*heads_options(4), "--freeze-base"]
        + ["--finetune-from-model", work / "baseline" / "checkpoint_last.pt"]
    )
    mark_finished(folder)


def heads_options(block_size: int) -> List:
    """A blockwise model whose p_1 is the base, and the loss of its heads."""
    return [
        "--arch", "blockwise_transformer", "--block-size", block_size, "--block-ffn", "split",
        "--identity-first-head",
        "--criterion", "random_sub_loss", "--sub-loss", "random-position",
        "--label-smoothing", "0.1",
    ]  # fmt: skip


def train_command(
    data: Path,
    save_dir: Path,
    recipe: Recipe,
    task: str = "translation_fastdec",
    save_every: int = 1000,
    keep: int = 1,
    seed: int = 1,
) -> List:
    """What all trainings have in common.

    Args:
        save_every: so many updates lie between two checkpoints within an epoch.
        keep: how many of those stay.
    """
    return [
        *fairseq("train"), data, *plugin_options(task), *recipe.network,
        "--optimizer", "adam", "--adam-betas", "(0.9,0.98)", "--clip-norm", "1.0",
        "--seed", seed,
        "--save-interval-updates", save_every, "--keep-interval-updates", keep,
        "--no-epoch-checkpoints", "--validate-interval", "100",
        "--log-format", "simple", "--log-interval", "50", "--save-dir", save_dir,
    ]  # fmt: skip


def decode(work: Path, recipe: Recipe) -> List[Run]:
    """Every method on the same sentences, in alternating rounds."""
    rows = [("baseline", "fairseq --beam 1"), ("frozen", "greedy"), ("frozen", "blockwise")]
    results = []
    for number in range(1, recipe.rounds + 1):
        for model, method in rows:
            label = re.sub(r"\W+", "-", f"{model} {method} {number}")
            output = work / "decoded" / label
            if not finished(output):
                generate(work, model, output, METHODS[method])
            results.append(read_run(output, model, method))
    return results


def generate(work: Path, model: str, output: Path, options: List[str]) -> None:
    """fairseq-generate with one method on the test set, one sentence at a time."""
    generate_into(
        output,
        [
            work / "data", *plugin_options(), *options, *statistics_options(options, output),
            "--path", work / model / "checkpoint_last.pt", "--batch-size", "1",
            *test_options(work),
        ],
    )  # fmt: skip


def test_options(work: Path) -> List:
    """The test set, scored as text that people read."""
    return [
        "--gen-subset", "test", "--scoring", "sacrebleu", "--tokenizer", "moses",
        "--bpe", "subword_nmt", "--bpe-codes", work / "data" / "bpe.codes",
    ]  # fmt: skip


def statistics_options(options: List[str], output: Path) -> List:
    """Statistics beside the translations, for methods that keep some."""
    return [] if "fairseq" in options else ["--decoding-stats", output / "stats.jsonl"]


def decode_in_batches(work: Path, label: str, model: Path, options: List) -> Path:
    """The test set, where only BLEU and blocks are looked at; returns where the results are."""
    output = work / "decoded" / label
    if not finished(output):
        generate_into(
            output,
            [
                work / "data", *plugin_options(), "--path", model, *test_options(work), *options,
                "--beam", "1", "--batch-size", "32", "--decoding-stats", output / "stats.jsonl",
            ],
        )  # fmt: skip
    return output


def generate_into(output: Path, arguments: List) -> None:
    """fairseq-generate; translations and log go to ``output``, which is finished then."""
    output.mkdir(parents=True, exist_ok=True)
    run([*fairseq("generate"), *arguments, "--results-path", output], log=output / "log.txt")
    print("  " + translated_line(output))
    mark_finished(output)


def fairseq(command: str) -> List:
    """fairseq-train or fairseq-generate of the running Python."""
    return [Path(sys.executable).parent / f"fairseq-{command}"]


def plugin_options(task: str = "translation_fastdec") -> List:
    """A task, with this plugin; --cpu keeps a GPU out of the comparison."""
    return [
        "--user-dir", PLUGIN, "--task", task,
        "--source-lang", "en", "--target-lang", "de", "--cpu",
    ]  # fmt: skip


def run(command: List, log: Optional[Path] = None) -> None:
    """Print a command, run it, and stop everything if it fails.

    Args:
        log: where its log goes instead of the screen.
    """
    words = [str(word) for word in command]
    shown = shlex.join(os.path.relpath(word) if word.startswith("/") else word for word in words)
    print(f"\n+ {shown}", flush=True)
    with open(log, "w", encoding="utf-8") if log else contextlib.nullcontext() as file:
        result = subprocess.run(words, stdout=file, stderr=file)
    if result.returncode != 0:
        sys.exit(f"the last command failed; its output is {f'in {log}' if log else 'above'}")


def finished(directory: Path) -> bool:
    """Whether a stage ran to its end; a training that did not is resumed."""
    return (directory / "finished").exists()


def mark_finished(directory: Path) -> None:
    """Note that a stage ran to its end."""
    (directory / "finished").touch()


if __name__ == "__main__":
    main()
