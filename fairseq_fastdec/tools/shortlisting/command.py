"""The command line of ``build-shortlist``."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from fairseq.data import Dictionary

from ...fairseq_patches.languages import infer_languages
from ...processes.errors import errors_in_one_line
from ...processes.noise import results_only
from ...translating.command_line import (
    check_one_directory,
    check_output,
    described,
    path_of,
    positive,
    program,
)
from .model1 import pruned, train, write
from .sentences import read

DESCRIPTION = """\
Create a lexical table for --shortlist from the training data of a model.

    python -m fairseq_fastdec build-shortlist data-bin/en-de -s en -t de \\
        --output data-bin/en-de/lex.s2t

learns word translation probabilities (IBM Model 1 with a NULL word, Brown et al. 1993) and writes
lines 'target source probability', sorted by source word, best first, like Marian's lex.s2t. Words
are those of the binarised data, for example subwords.
"""


@results_only()
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in its input are reported in one line."""
    args = parse_args(sys.argv[1:] if arguments is None else arguments)
    with errors_in_one_line(program("build-shortlist")):
        run(args)


def parse_args(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = described(argparse.ArgumentParser(), "build-shortlist", DESCRIPTION)
    parser.add_argument("data", help="a data directory made by fairseq-preprocess")
    parser.add_argument("-s", "--source-lang", metavar="SRC", help="(default: as in the data)")
    parser.add_argument("-t", "--target-lang", metavar="TGT", help="(default: as in the data)")
    parser.add_argument("--output", type=path_of, required=True, metavar="FILE", help="the table")
    parser.add_argument(
        "--gen-subset",
        default="train",
        metavar="SPLIT",
        help="data split to learn from (default: train)",
    )
    parser.add_argument(
        "--sentences", type=positive, metavar="N",
        help="learn from N sentence pairs, evenly spread, if a large corpus does not fit into "
        "memory: 4 bytes for each pair of tokens in a sentence pair, and 40 for each pair of types "
        "(default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--iterations", type=positive, default=5, metavar="N", help="iterations of EM (default: 5)"
    )
    parser.add_argument(
        "--threshold", type=probability, default=1e-4, metavar="P",
        help="leave out pairs that are less probable (default: 0.0001)",
    )  # fmt: skip
    parser.add_argument(
        "--best", type=positive, default=100, metavar="N",
        help="keep at most N targets of each source type (default: 100)",
    )  # fmt: skip
    return parser.parse_args(arguments)


def probability(text: str) -> float:
    """Parse a number from 0 to 1. argparse adds the flag to the message."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a number from 0 to 1")
    return value


def run(args: argparse.Namespace) -> None:
    """Learn and write the table.

    Raises:
        OSError: for files that cannot be read or written.
        ValueError: for data without words on one side.
    """
    check_one_directory(args.data, "name one")
    infer_languages(args)
    check_output(args.output, Path(args.data).glob("*"))
    begin = time.perf_counter()
    languages = (args.source_lang, args.target_lang)
    dictionaries = tuple(
        Dictionary.load(str(Path(args.data) / f"dict.{language}.txt")) for language in languages
    )
    source, target = read(args.data, args.gen_subset, languages, dictionaries, args.sentences)
    if not source.tokens.size or not target.tokens.size:
        raise ValueError(f"{args.data}: the split {args.gen_subset!r} has no words on one side")
    print(
        f"{source.lengths.size} sentence pairs with {source.tokens.size} {languages[0]} and "
        f"{target.tokens.size} {languages[1]} tokens",
        flush=True,
    )

    def report(iteration: int, perplexity: float) -> None:
        seconds = time.perf_counter() - begin
        print(
            f"iteration {iteration} of {args.iterations}: perplexity {perplexity:.2f} before it, "
            f"{seconds:.0f} seconds",
            flush=True,
        )

    n_source, n_target = (len(dictionary) for dictionary in dictionaries)
    everything = train(source, target, n_source, n_target, args.iterations, report)
    table = pruned(everything, n_source, args.threshold, args.best)
    write(args.output, table, *dictionaries)
    n_known = np.unique(table.sources).size
    print(
        f"{args.output}: {table.sources.size} of {everything.sources.size} word pairs, for "
        f"{n_known} of {n_source} source types, {table.sources.size / max(n_known, 1):.1f} targets "
        f"each; {time.perf_counter() - begin:.0f} seconds"
    )
