#!/usr/bin/env python3
"""How much faster two tokens a step are, by beam, vocabulary and size of the model.

    python examples/double_token/speed.py --rounds 2    # ten minutes on 2 cores

Section 5.2 of Imamura and Sumita (WAT 2020), on a CPU: the time of ``double_token`` beside that of
``beam``, which decodes one token a step. The models are transformer base and big with random
weights. Outputs have 31 tokens, sources 20. Both methods take turns. If the command is repeated, it
skips what it has measured. Run nothing else on the machine.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import torch

import fairseq_fastdec  # noqa: F401  (registers the task)
from examples.common import arguments, commands
from examples.common.figures import read_figures, write_figures
from examples.common.model_text import LANGUAGES
from examples.common.random_base import FORCED, save_base, write_sentences
from examples.common.table import origins, untitled, write_section
from examples.double_token.models import DOUBLE_BIDIRECTIONAL, DOUBLE_TOKEN, PROPOSED
from examples.double_token.table_2 import THE_PAPER
from examples.engine.base import times_as_fast
from fairseq_fastdec.translating.command_line import positive

PAGE = commands.ROOT / "examples" / "RESULTS.md"
FIGURES = commands.ROOT / "benchmarks" / "double_token_speed.json"
# The name of the section in the page.
SECTION = "double-token speed"
# The number of sentences for each batch size; 32 is the paper's.
SENTENCES = {32: 32, 1: 6}
BIG = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in {"embed_dim": 1024, "ffn_embed_dim": 4096, "attention_heads": 16}.items()
}
SIZES: dict[str, dict[str, int]] = {"base": {}, "big": BIG}


class Case(NamedTuple):
    """A model and a beam width."""

    size: str = "base"
    types: int = 32_000
    beam: int = 10


BEAMS = (1, 2, 5, 10, 20)
OTHER_VOCABULARIES = (1_000, 4_000, 16_000, 64_000)
CASES = [Case(beam=beam) for beam in BEAMS]
CASES += [Case(types=types) for types in OTHER_VOCABULARIES]
CASES.append(Case("big"))
# The paper's figures for WMT14 en-de, Table 2.
PAPER = {Case("base"): f"{THE_PAPER[PROPOSED][1]}x", Case("big"): "1.24x"}


def main() -> None:
    """Measure, and write figures and the table."""
    args = parse_args()
    with commands.resumable():
        figures = [measured(args.workdir, case, size, args) for case in CASES for size in SENTENCES]
    write_figures(FIGURES, figures)
    write_section(PAGE, SECTION, section(figures))


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    default = commands.ROOT / "work" / "double_token_speed"
    parser.add_argument("--workdir", type=Path, default=default)
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    arguments.add_rounds(parser)
    return parser.parse_args()


def measured(work: Path, case: Case, batch_size: int, args: argparse.Namespace) -> dict[str, Any]:
    """The seconds of both methods in all rounds, with where they are from."""
    own = work / f"{case.size}-{case.types}"
    prepare(own, case)
    output = own / f"beam-{case.beam}-batch-{batch_size}"
    commands.stage(output, benchmark_command(own, case, batch_size, args, output))
    results = read_figures(output / "benchmark.json", {})["results"]
    return {
        **case._asdict(),
        "batch_size": batch_size,
        **commands.origin(output),
        **{result["method"]: result["seconds"] for result in results},
    }


def prepare(work: Path, case: Case) -> None:
    """Write a test set and the two models, once."""
    if commands.finished(work):
        return
    work.mkdir(parents=True, exist_ok=True)
    network = {"seed": 1, **SIZES[case.size]}
    write_sentences(work / "data", LANGUAGES, case.types)
    save_base(work / "single.pt", LANGUAGES, n_types=case.types, **network)
    save_base(
        work / "double.pt", LANGUAGES, arch="double_token_transformer", n_types=case.types,
        task=DOUBLE_TOKEN, **network,
    )  # fmt: skip
    commands.mark_finished(work)


def benchmark_command(
    work: Path, case: Case, batch_size: int, args: argparse.Namespace, output: Path
) -> list[Any]:
    """``benchmarks.compare`` of both methods."""
    source, target = LANGUAGES
    options = [
        work / "data", "-s", source, "-t", target, *FORCED, "--beam", case.beam,
        "--sentences", SENTENCES[batch_size], "--batch-size", batch_size,
        "--rounds", args.rounds, "--threads", args.threads, "--processes", 1,
    ]  # fmt: skip
    order = " ".join(["--task", DOUBLE_TOKEN, *DOUBLE_BIDIRECTIONAL.order])
    methods = {
        "single": f"--decoding beam --path {work / 'single.pt'}",
        "double": f"{order} --decoding double_token --path {work / 'double.pt'}",
    }
    return commands.benchmark(options, methods, output)


def section(figures: list[dict[str, Any]]) -> str:
    """The table of the figures, with where they are from."""
    ratios = {
        (Case(*(row[name] for name in Case._fields)), row["batch_size"]): times_as_fast(
            row["double"], row["single"]
        )
        for row in figures
    }
    lines = [
        {
            "model": case.size,
            "types": f"{case.types:,}",
            "beam": str(case.beam),
            "the paper, batch 32": PAPER.get(case, ""),
            **{f"ours, batch {size}": ratios[case, size] for size in SENTENCES},
        }
        for case in CASES
    ]
    return f"{origins(figures)}\n\n{untitled(lines)}\n"


if __name__ == "__main__":
    main()
