#!/usr/bin/env python3
"""Reproduce a paper: prepare the data, train, decode, and write the tables.

    python examples/papers.py double_token

runs the commands of docs/papers.md one after the other. Each is printed. If the program is
interrupted, the same command continues it. At the end, the seeds, hyperparameters and checksums of
all trainings are added to ``benchmarks/trainings.json`` and the table of examples/RESULTS.md.
"""

import shlex
import sys
from pathlib import Path
from typing import Any

import fairseq_fastdec  # noqa: F401  (lets torch load fairseq's checkpoints)
from examples.common import arguments, commands, trainings
from examples.common.figures import add_figures
from examples.common.table import write_section

FIGURES = commands.ROOT / "benchmarks" / "trainings.json"
PAGE = commands.ROOT / "examples" / "RESULTS.md"
SECTION = "trainings"  # the name of the section in the page
# The commands of each paper, as they are typed.
PAPERS: dict[str, list[str]] = {
    "blockwise": [
        "python examples/en_de/block_sizes.py --size medium --cpu-autocast --rounds 3",
        "python examples/en_de/block_sizes.py --size medium --cpu-autocast "
        "--block-sizes 1 4 8 --seeds 1 2 3",
        "python examples/en_de/block_sizes.py --size medium --cpu-autocast "
        "--block-sizes 4 8 --heads split",
        "python examples/en_de/block_sizes.py --size medium --cpu-autocast "
        "--block-sizes 4 8 --heads mean --settings 'fine tuning' both",
        "python examples/super_resolution/run.py --size full --cpu-autocast --rounds 3",
    ],
    "jacobi": [
        "OMP_NUM_THREADS=1 python examples/jacobi/run.py --opus-sized --rounds 5",
        "OMP_NUM_THREADS=1 python examples/jacobi/run.py --opus-sized --sweep --rounds 3",
        "OMP_NUM_THREADS=1 python examples/jacobi/run.py --opus-sized --torch --rounds 2",
    ],
    "streaming": [
        "python examples/wmt_ensemble/run.py --small --cpu-autocast --sentences 500 --rounds 5 "
        "-- --cpu",
        "python examples/wmt_ensemble/run.py --small --cpu-autocast --appendix --rounds 2 -- --cpu",
        "python examples/parsing/run.py --size full --cpu-time --rounds 3",
    ],
    "double_token": [
        "python examples/double_token/run.py --cpu-autocast --seeds 1 2 3 --rounds 1",
        "python examples/double_token/speed.py --rounds 2",
    ],
}


def main() -> None:
    """Run the commands of a paper."""
    parser = arguments.described(__doc__)
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument(
        "--workdir", type=Path, help="default: work/PAPER in the repository", metavar="FOLDER"
    )
    args = parser.parse_args()
    work = args.workdir or commands.ROOT / "work" / args.paper
    with commands.resumable():
        for text in PAPERS[args.paper]:
            words, environment = command(text, work)
            commands.run(words, environment=environment)
    record(args.paper, work)


def command(text: str, work: Path) -> tuple[list[Any], dict[str, str]]:
    """A command of a paper, with a folder of its script in the work directory.

    Returns:
        its words, and the environment variables before it
    """
    words = shlex.split(text)
    at = words.index("python")
    script, *options = words[at + 1 :]
    path = commands.ROOT / script
    folder = work / f"{path.parent.name}_{path.stem}"
    environment = dict(word.split("=", 1) for word in words[:at])
    return [sys.executable, path, "--workdir", folder, *options], environment


def record(paper: str, work: Path) -> None:
    """Add the trainings of a paper to the file of figures, and write the table to the page."""
    rows = [{"paper": paper, **row} for row in trainings.rows(work)]
    figures = add_figures(FIGURES, rows, ("paper", "training"))
    write_section(PAGE, SECTION, section(figures))


def section(figures: list[dict[str, str]]) -> str:
    """The tables of all trainings."""
    tables = []
    for paper in PAPERS:
        own = [row for row in figures if row["paper"] == paper]
        rows = sorted(own, key=lambda row: row["training"])
        if rows:
            tables.append(f"### {paper}\n\n{trainings.table(rows)}\n")
    return "\n".join(tables)


if __name__ == "__main__":
    main()
