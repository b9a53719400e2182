"""Options that the examples share."""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Optional

from fairseq_fastdec.tools.command_line import positive

from . import commands


def described(text: Optional[str]) -> argparse.ArgumentParser:
    """A command line whose help begins with a text as it stands."""
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
        help="in which the methods take turns (default: 3)",
    )


def add_size(parser: argparse.ArgumentParser, name: str, sizes: Iterable[str]) -> None:
    """``--size`` of an example, and ``--workdir``; :func:`sized_workdir` is where it works."""
    parser.add_argument("--size", choices=sorted(sizes), default="quick")
    parser.add_argument("--workdir", type=Path, help=f"default: work/{name}_SIZE in the repository")


def sized_workdir(args: argparse.Namespace, name: str) -> Path:
    """The directory of ``--workdir``, or that of ``--size``; made if it is not there."""
    work = args.workdir or commands.ROOT / "work" / f"{name}_{args.size}"
    work.mkdir(parents=True, exist_ok=True)
    return work
