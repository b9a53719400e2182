"""Command-line options shared by the examples."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

from fairseq_fastdec.translating.command_line import positive

from . import commands


def described(text: Optional[str]) -> argparse.ArgumentParser:
    """A parser whose help begins with a text, without reformatting."""
    return argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_rounds(parser: argparse.ArgumentParser) -> None:
    """``--rounds`` of examples that decode with several methods."""
    parser.add_argument(
        "--rounds",
        type=positive,
        default=3,
        metavar="N",
        help="number of rounds, in which the methods take turns (default: 3)",
    )


def add_seeds(parser: argparse.ArgumentParser, others: str = "") -> None:
    """``--seeds`` of examples that train each model several times.

    Args:
        others: continues the help.
    """
    parser.add_argument(
        "--seeds",
        type=positive,
        nargs="+",
        default=[1],
        metavar="N",
        help=f"seeds of the models (default: 1){others}",
    )


def add_size(parser: argparse.ArgumentParser, name: str, sizes: Iterable[str]) -> None:
    """``--size`` and ``--workdir`` of an example; see :func:`sized_workdir`."""
    parser.add_argument("--size", choices=sorted(sizes), default="quick")
    parser.add_argument("--workdir", type=Path, help=f"default: work/{name}_SIZE in the repository")


def sized_workdir(args: argparse.Namespace, name: str) -> Path:
    """The directory of ``--workdir``, or the default for ``--size``; created if missing."""
    work = args.workdir or commands.ROOT / "work" / f"{name}_{args.size}"
    work.mkdir(parents=True, exist_ok=True)
    return work
