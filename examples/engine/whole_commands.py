#!/usr/bin/env python3
"""Measure the time of whole commands, with and without the plugin, in turns.

    python examples/engine/whole_commands.py                  # 1,500 sentences: about ten minutes
    python examples/engine/whole_commands.py --repeat 20      # 30,000 sentences

The model is the distilled one (../en_de/model), or a copy without prediction heads for
fairseq without this plugin. Times are from the start to the end of the process. Run nothing else on
the machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import torch

import fairseq_fastdec  # noqa: F401  (registers the classes that torch may read)
from examples.common import arguments, commands
from examples.common.en_de import MODEL, text_options
from examples.common.model_text import LANGUAGES, write_test_set
from examples.common.table import markdown
from fairseq_fastdec.translating.command_line import positive

SENTENCE = "Click the Save button.\n"
STOCK, PLUGIN, OURS = "fairseq", "fairseq with the plugin", "python -m fairseq_fastdec"


class Job(NamedTuple):
    """The same work for all commands.

    Attributes:
        name: the name of fairseq's command.
        stock: options without the plugin; ours: options with it.
    """

    name: str
    stock: list[str]
    ours: list[str]


JOBS = {
    "generate, greedy": Job("generate", ["--beam", "1"], ["--decoding", "greedy"]),
    "generate, greedy, int8": Job(
        "generate", ["--beam", "1"], ["--decoding", "greedy", "--engine-precision", "int8"]
    ),
    "generate, blockwise": Job("generate", ["--beam", "1"], ["--decoding", "blockwise"]),
    "generate, beam 5, int8": Job(
        "generate",
        ["--beam", "5"],
        ["--decoding", "beam", "--beam", "5", "--engine-precision", "int8"],
    ),
    "interactive, one sentence": Job("interactive", ["--beam", "1"], ["--decoding", "greedy"]),
}


def main() -> None:
    """Prepare, run, print."""
    args = parse_args()
    work = args.workdir
    if not commands.finished(work):
        work.mkdir(parents=True, exist_ok=True)
        prepare(work, args.repeat)
        commands.mark_finished(work)
    seconds: dict[tuple, list[float]] = {}
    for _ in range(args.rounds):
        for name in args.jobs:
            for program in (STOCK, PLUGIN, OURS):
                taken = run(command_of(work, JOBS[name], program), program == STOCK)
                print(f"{name}: {program}: {taken:.2f} s", flush=True)
                seconds.setdefault((name, program), []).append(taken)
    title = (
        f"Whole commands, {1500 * args.repeat} sentences in batches of 32, "
        f"{torch.get_num_threads()} threads, {args.rounds} alternating rounds (medians)."
    )
    print("\n" + markdown(title, [row(name, seconds) for name in args.jobs]))


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("--jobs", nargs="+", choices=list(JOBS), default=list(JOBS))
    parser.add_argument("--workdir", type=Path, default=Path("work/whole_commands"))
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--repeat", type=positive, default=1, help="repetitions of the test set")
    return parser.parse_args()


def prepare(work: Path, repeat: int) -> None:
    """Binarise the test set, and write a copy of the model without heads."""
    write_test_set(work / "data", MODEL, repeat)
    (work / "sentence.en").write_text(SENTENCE, encoding="utf-8")
    state = torch.load(MODEL / "checkpoint.pt", map_location="cpu", weights_only=True)
    state["cfg"]["model"]._name = state["cfg"]["model"].arch = "transformer"
    state["cfg"]["criterion"] = {"_name": "cross_entropy", "sentence_avg": False}
    weights = state["model"].items()
    state["model"] = {name: value for name, value in weights if ".heads." not in name}
    torch.save(state, work / "stock.pt")


def command_of(work: Path, job: Job, program: str) -> list[str]:
    """The command line of a job."""
    path = work / "stock.pt" if program == STOCK else MODEL / "checkpoint.pt"
    words = [*commands.fairseq(job.name)]
    if program == OURS:
        words = [sys.executable, "-m", "fairseq_fastdec", job.name]
    if job.name == "generate":
        words += [work / "data", "--batch-size", "32", "--required-batch-size-multiple", "1"]
    else:
        words += [MODEL, "--input", work / "sentence.en"]
        words += ["-s", LANGUAGES[0], "-t", LANGUAGES[1]]
        words += text_options(MODEL / "bpe.codes")
    words += ["--path", path, "--cpu", *(job.stock if program == STOCK else job.ours)]
    if program == PLUGIN:
        words += ["--user-dir", commands.PLUGIN]
    return [str(word) for word in words]


def run(command: list[str], is_stock: bool) -> float:
    """The run time of a command in seconds; its output is discarded."""
    environment = {name: value for name, value in os.environ.items() if "WEIGHTS_ONLY" not in name}
    if is_stock:
        # Required by fairseq with torch 2.6 and newer.
        environment["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


def row(name: str, seconds: dict[tuple, list[float]]) -> dict[str, str]:
    """A row of the table."""
    medians = {
        program: statistics.median(seconds[name, program]) for program in (STOCK, PLUGIN, OURS)
    }
    cells = {"command": name, f"{STOCK}, seconds": f"{medians[STOCK]:.2f}"}
    for program in (PLUGIN, OURS):
        cells[program] = f"{medians[program]:.2f} s, {medians[STOCK] / medians[program]:.1f}x"
    return cells


if __name__ == "__main__":
    with commands.resumable():
        main()
