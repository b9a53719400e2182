#!/usr/bin/env python3
"""Table 2 of Stern et al. (2018), super-resolution, on scikit-image's photographs.

    pip install scikit-image
    python examples/super_resolution/run.py --cpu-autocast                # shortened: half an hour
    python examples/super_resolution/run.py --cpu-autocast --size full    # two hours of one core
    python examples/super_resolution/run.py --block-sizes 4 --settings both    # one cell

Grey patches of 8x8 pixels are enlarged to 16x16, one intensity at a time. It prints mean accepted
block sizes as in the paper's table, with quality and time of each method, and draws a photograph of
the test set. Every command is printed. Stages with existing results in --workdir are skipped, so an
interrupted run can be resumed.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

from examples.common import arguments, commands, en_de
from examples.super_resolution import picture, recipe, results
from examples.super_resolution.patches import HIGH, halved, joined
from examples.super_resolution.photographs import TEST, load
from fairseq_fastdec.data import atomic_files

BLOCK_SIZES = (2, 4, 6, 8, 10)
EPSILON = 2
MAGNIFICATION = 2


class Setting(NamedTuple):
    """A column of the table: the training of the heads, and p_1's acceptance."""

    heads: str
    is_approximate: bool

    def options(self, block_size: int) -> list:
        """The options for fairseq-generate."""
        acceptance = ["--acceptance", "distance", "--acceptance-distance", EPSILON]
        return [
            "--decoding", "blockwise", "--decoding-block-size", block_size,
            *(acceptance if self.is_approximate else []),
        ]  # fmt: skip


SETTINGS = {
    "regular": Setting("frozen", is_approximate=False),
    "approximate": Setting("frozen", is_approximate=True),
    "fine tuning": Setting("fine-tuned", is_approximate=False),
    "both": Setting("fine-tuned", is_approximate=True),
    # Not in the paper.
    "sequential heads": Setting("sequential", is_approximate=False),
    "sequential, approximate": Setting("sequential", is_approximate=True),
}


class Method(NamedTuple):
    """A cell of the table."""

    setting: str
    block_size: int
    model: Path
    options: list


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        compare(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument(
        "--block-sizes", type=int, nargs="+", choices=BLOCK_SIZES, default=BLOCK_SIZES, metavar="K"
    )
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    arguments.add_size(parser, "super_resolution", recipe.SIZES)
    arguments.add_rounds(parser)
    en_de.add_autocast_option(parser)
    return parser.parse_args()


def compare(args: argparse.Namespace) -> None:
    """Run all stages from photographs to the tables and the picture."""
    work = arguments.sized_workdir(args, "super_resolution")
    recipe.prepare(work, recipe.SIZES[args.size])
    methods = train(work, args)
    decoded = decode(work, methods, args.rounds)
    tables = [results.block_sizes(decoded), results.qualities(decoded)]
    print("\n" + "\n\n".join(tables))
    atomic_files.write_text(work / "tables.md", "\n\n".join(tables) + "\n")
    draw(work / "super_resolution.png", decoded)


def train(work: Path, args: argparse.Namespace) -> list[Method]:
    """Train the models, each once, and return all methods."""
    size, autocast = recipe.SIZES[args.size], ["--cpu-autocast"] * args.cpu_autocast
    base = recipe.train_base(work, size, autocast)
    methods = [Method(results.GREEDY, 1, base, ["--decoding", "greedy"])]
    for name in args.settings:
        setting = SETTINGS[name]
        for k in args.block_sizes:
            model = recipe.train_heads(work, size, base, setting.heads, k, autocast)
            methods.append(Method(name, k, model, setting.options(k)))
    return methods


def decode(work: Path, methods: list[Method], rounds: int) -> list[results.Decoded]:
    """Decode the test patches with each method, in alternating rounds."""
    outputs: list[list[Path]] = [[] for _ in methods]
    for number in range(1, rounds + 1):
        for method, of_method in zip(methods, outputs):
            label = f"{method.setting} {method.block_size} round {number}"
            label = label.replace(",", "").replace(" ", "-")
            of_method.append(recipe.decode(work, label, method.model, method.options))
    return [
        results.read(of_method, method.setting, method.block_size)
        for method, of_method in zip(methods, outputs)
    ]


def draw(path: Path, decoded: list[results.Decoded]) -> None:
    """Draw the first test photograph: input, greedy, the last method, truth."""
    (photograph,) = load(TEST[:1])
    height, width = (size // HIGH for size in halved(photograph).shape)
    first, last = decoded[0], decoded[-1]
    versions = {
        "input": first.low,
        first.setting: first.patches,
        f"{last.setting}, k = {last.block_size}": last.patches,
        "truth": first.truth,
    }
    picture.write(
        path,
        {name: joined(made[: height * width], width) for name, made in versions.items()},
        MAGNIFICATION,
    )
    print(f"\n{path}: {', '.join(versions)}")


if __name__ == "__main__":
    main()
