#!/usr/bin/env python3
"""Translate twenty everyday sentences with the bundled model.

    python examples/en_de/everyday.py

The sentences, in ``everyday.en``, are typical of user interfaces. The table is printed, and written
to the file of ``--output`` if given.
"""

import argparse
import logging
from pathlib import Path

from examples.common import arguments
from examples.common.en_de import EN_DE, MODEL
from examples.common.table import untitled
from examples.en_de import demo
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.processes.noise import results_only

SENTENCES = EN_DE / "everyday.en"


def main() -> None:
    """Translate and print the table."""
    args = parse_args()
    with results_only(logging.WARNING):
        text = table() + "\n"
    print(text, end="")
    if args.output:
        atomic_files.write_text(args.output, text)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="also write the table to this file"
    )
    return parser.parse_args()


def table() -> str:
    """The sentences and their translations, in Markdown."""
    sentences = SENTENCES.read_text(encoding="utf-8").splitlines()
    pairs = zip(sentences, translations(sentences))
    return untitled([{"English": source, "German": target} for source, target in pairs])


def translations(sentences: list[str]) -> list[str]:
    """Translate sentences one at a time, as in the demo."""
    hub = demo.load(MODEL)
    generator = demo.generator_of(hub, demo.METHODS["blockwise"])
    batches = [demo.batch_of(hub, sentence) for sentence in sentences]
    return [hub.decode(demo.decode(hub, generator, batch)) for batch in batches]


if __name__ == "__main__":
    main()
