#!/usr/bin/env python3
"""Translate twenty everyday sentences with both models, beside each other.

    python examples/en_de/everyday.py

The sentences, in ``everyday.en``, are such as programs everywhere say. The table goes to standard
output, and to the file of ``--output``, if there is one.
"""

import argparse
import logging
from pathlib import Path

from examples.common import arguments
from examples.common.en_de import DISTILLED_MODEL, EN_DE, MODEL
from examples.common.table import untitled
from examples.en_de import demo
from fairseq_fastdec.noise import results_only
from fairseq_fastdec.tools import atomic_files

SENTENCES = EN_DE / "everyday.en"
COLUMNS = {"the bundled model": MODEL, "the distilled model": DISTILLED_MODEL}


def main() -> None:
    """Translate and print the table."""
    args = parse_args()
    with results_only(logging.WARNING):
        text = table() + "\n"
    print(text, end="")
    if args.output:
        atomic_files.write_text(args.output, text)


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the table to it, too")
    return parser.parse_args()


def table() -> str:
    """The sentences with what each model says, in Markdown."""
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()
    columns = {"English": sentences}
    for name, folder in COLUMNS.items():
        columns[name] = translations(folder, sentences)
    return untitled(rows_of(columns))


def translations(folder: Path, sentences: list[str]) -> list[str]:
    """The sentences translated one at a time by the model in a folder, as the demo does it."""
    hub = demo.load(folder)
    generator = demo.generator_of(hub, demo.METHODS["blockwise"])
    batches = [demo.batch_of(hub, sentence) for sentence in sentences]
    return [hub.decode(demo.decode(hub, generator, batch)) for batch in batches]


def rows_of(columns: dict[str, list[str]]) -> list[dict[str, str]]:
    """The rows of columns of the same length."""
    return [dict(zip(columns, cells)) for cells in zip(*columns.values())]


if __name__ == "__main__":
    main()
