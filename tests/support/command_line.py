"""Runs fairseq's commands in this process, since starting torch is slow."""

import contextlib
import io
import re
import sys
from pathlib import Path
from unittest import mock

from fairseq_cli import generate as generate_cli
from fairseq_cli import interactive as interactive_cli
from fairseq_cli import preprocess as preprocess_cli
from fairseq_cli import train as train_cli
from fairseq_cli import validate as validate_cli

PLUGIN = str(Path(__file__).resolve().parents[2] / "fairseq_fastdec")
COMMON = ["--user-dir", PLUGIN, "--cpu", "--no-progress-bar"]
TINY = [
    "--encoder-embed-dim", "32", "--decoder-embed-dim", "32", "--dropout", "0",
    "--encoder-ffn-embed-dim", "64", "--decoder-ffn-embed-dim", "64",
    "--encoder-layers", "1", "--decoder-layers", "1", "--share-all-embeddings",
    "--encoder-attention-heads", "2", "--decoder-attention-heads", "2",
]  # fmt: skip


def run(command, *arguments) -> str:
    """Run a command and return its standard output."""
    printed = io.StringIO()
    argv = ["fairseq", *(str(argument) for argument in arguments)]
    with (
        mock.patch.object(sys, "argv", argv),
        # It removes every second handler of the root logger, whichever of pytest's that are.
        mock.patch.object(validate_cli, "reset_logging"),
        contextlib.redirect_stdout(printed),
    ):
        command.cli_main()
    return printed.getvalue()


def preprocess(*arguments) -> str:
    """fairseq-preprocess."""
    return run(preprocess_cli, *arguments)


def train(data, save_dir, *arguments, updates=100, lr="3e-3", sizes=TINY) -> str:
    """fairseq-train of a tiny model; by default a transformer."""
    return run(
        train_cli, data, "--save-dir", save_dir, *COMMON, *sizes, "--optimizer", "adam",
        "--lr", lr, "--max-tokens", 400, "--max-update", updates, "--seed", 1,
        "--no-epoch-checkpoints", "--save-interval", 1000, "--validate-interval", 1000,
        "--log-format", "simple", "--num-workers", 0, *arguments,
    )  # fmt: skip


def validate(data, path, *arguments) -> str:
    """fairseq-validate."""
    return run(validate_cli, data, "--path", path, *COMMON, "--max-tokens", 400, *arguments)


def generate(data, path, *arguments) -> str:
    """fairseq-generate with this plugin."""
    return run(generate_cli, data, "--path", path, *COMMON, "--num-workers", 0, *arguments)


def interactive(data, path, lines: list[str], tmp_path, *arguments) -> str:
    """fairseq-interactive on some lines."""
    source = tmp_path / "input.txt"
    source.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return run(interactive_cli, data, "--path", path, *COMMON, "--input", source, *arguments)


def hypotheses(printed: str) -> dict[int, str]:
    """The tokens of H- lines by sentence number."""
    return numbered("H", printed)


def numbered(mark: str, printed: str) -> dict[int, str]:
    """The texts of H- or D- lines by sentence number."""
    found = re.findall(rf"(?m)^{mark}-(\d+)\t[^\t]*\t(.*)$", printed)
    return {int(number): text for number, text in found}


def scores(printed: str) -> dict[int, float]:
    """The scores of H- lines by sentence number."""
    return {int(i): float(s) for i, s in re.findall(r"(?m)^H-(\d+)\t([^\t]*)\t", printed)}
