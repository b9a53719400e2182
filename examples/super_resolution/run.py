#!/usr/bin/env python3
"""Table 2 of Stern et al. (2018), super-resolution, on scikit-image's photographs.

    pip install scikit-image
    python examples/super_resolution/run.py --cpu-autocast                # shortened: half an hour
    python examples/super_resolution/run.py --cpu-autocast --size full    # two hours on two cores
    python examples/super_resolution/run.py --block-sizes 4 --settings both    # one cell

Grey patches of 8x8 pixels are enlarged to 16x16, one intensity at a time. It prints mean accepted
block sizes beside the paper's table, with quality and speed of each method, and draws a photograph
of the test set. The whole tables of ``--size full`` are written to examples/RESULTS.md, and the
picture to this directory. Models are trained on all cores, each with one thread. Every command is
printed. Stages with existing results in --workdir are skipped, so an interrupted run can be
resumed.
"""

import argparse
import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple

from examples.common import arguments, commands, en_de
from examples.common.table import origins, write_section
from examples.super_resolution import picture, recipe, results
from examples.super_resolution.patches import HIGH, halved, joined
from examples.super_resolution.photographs import TEST, load
from fairseq_fastdec.data import atomic_files

BLOCK_SIZES = (2, 4, 6, 8, 10)
EPSILON = 2
MAGNIFICATION = 2
PAGE = commands.ROOT / "examples" / "RESULTS.md"
SECTION = "images"  # the name of the section in the page
PICTURE = Path(__file__).with_name("super_resolution.png")


class Setting(NamedTuple):
    """A column of the table: the training of the heads, and p_1's acceptance."""

    heads: str
    is_approximate: bool

    def options(self, block_size: int) -> list:
        """The options for fairseq-generate."""
        acceptance = ["--acceptance", "distance", "--acceptance-distance", EPSILON]
        return [
            "--decoding", "blockwise", "--decoding-block-size", block_size,
            # As in the paper, every step has proposals: block sizes do not depend on the machine.
            "--proposal-confidence", "0",
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
    outputs = decode(work, methods, args.rounds)
    decoded = [
        results.read(of_method, method.setting, method.block_size)
        for method, of_method in zip(methods, outputs)
    ]
    text = f"{results.block_sizes(decoded)}\n\n{results.qualities(decoded)}\n"
    print("\n" + text)
    atomic_files.write_text(work / "tables.md", text)
    draw(work / PICTURE.name, decoded)
    if args.size == "full" and len(methods) == 1 + len(SETTINGS) * len(BLOCK_SIZES):
        where = origins(commands.origin(output) for rounds in outputs for output in rounds)
        write_section(PAGE, SECTION, f"{where}\n\n{text}")
        shutil.copy(work / PICTURE.name, PICTURE)


def train(work: Path, args: argparse.Namespace) -> list[Method]:
    """Train the models, each once, and return all methods."""
    size, autocast = recipe.SIZES[args.size], ["--cpu-autocast"] * args.cpu_autocast
    with commands.one_thread():
        base = recipe.train_base(work, size, autocast)
    kinds = dict.fromkeys(SETTINGS[name].heads for name in args.settings)
    # Fine-tuned heads begin with the frozen ones.
    first = dict.fromkeys("frozen" if kind == "fine-tuned" else kind for kind in kinds)
    heads = commands.side_by_side(
        [partial(recipe.train_heads, work, size, base, kind, autocast) for kind in first]
    )
    models = {(kind, k): model for kind, model in zip(first, heads) for k in args.block_sizes}
    if "fine-tuned" in kinds:
        fine_tuned = commands.side_by_side(
            [
                partial(recipe.fine_tune, work, size, models["frozen", k], k, autocast)
                for k in args.block_sizes
            ]
        )
        models |= {("fine-tuned", k): model for k, model in zip(args.block_sizes, fine_tuned)}
    return [
        Method(results.GREEDY, 1, base, ["--decoding", "greedy"]),
        *(
            Method(name, k, models[SETTINGS[name].heads, k], SETTINGS[name].options(k))
            for name in args.settings
            for k in args.block_sizes
        ),
    ]


def decode(work: Path, methods: list[Method], rounds: int) -> list[list[Path]]:
    """Decode the test patches with each method, in alternating rounds."""
    outputs: list[list[Path]] = [[] for _ in methods]
    for number in range(1, rounds + 1):
        for method, of_method in zip(methods, outputs):
            label = f"{method.setting} {method.block_size} round {number}"
            label = label.replace(",", "").replace(" ", "-")
            of_method.append(recipe.decode(work, label, method.model, method.options))
    return outputs


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
    print(f"{path}: {', '.join(versions)}")


if __name__ == "__main__":
    main()
