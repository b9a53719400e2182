"""The options of ``scripts/translate_corpus.py``, and combinations that it refuses."""

import argparse
from collections.abc import Sequence
from typing import Any

from fairseq import options

from ...help import as_ours
from ..command_line import (
    check_one_directory,
    check_places,
    check_shard,
    is_translation,
    positive,
    program,
)
from ..distillation.filters import add_filter_options
from .output_lines import FORMATS, ON_ERROR, PLAIN, STOP
from .text_files import STANDARD_STREAM

DESCRIPTION = """\
Translate text of any length, line for line, with every core of a machine.

    python scripts/translate_corpus.py data-bin/en-de --path checkpoint.pt -s en -t de \\
        --tokenizer moses --bpe subword_nmt --bpe-codes data-bin/en-de/bpe.codes \\
        --input mono.en.gz --output mono.de

writes as many lines as it reads, in the same order. Text is tokenised and segmented as by
fairseq-interactive, whose options all work; the default is --decoding streaming with --beam 5, and
--decoding beam with --nbest. With --input - --output - it is a filter.

However the command was ended, the same command goes on from there: translations are kept in
OUTPUT.parts, chunk by chunk, until OUTPUT is there as a whole. Several machines with a common file
system share the work with --num-shards N --shard-id I, I from 0 on; when all have ended, the
command without these puts the output together.
"""
# Lines of a chunk: of files by their length, of a stream whose length nobody knows.
LEAST_LINES, MOST_LINES, LINES_OF_A_STREAM = 512, 8192, 4096


def parse_args(arguments: Sequence[str]) -> argparse.Namespace:
    """fairseq-generate's command line and our own options."""
    parser = options.get_generation_parser()
    parser.prog = program("translate-corpus")
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    _add_text_options(as_ours(parser.add_argument_group("text")))
    _add_worker_options(as_ours(parser.add_argument_group("workers")))
    has_methods = is_translation(arguments)
    defaults = {"decoding": None} if has_methods else {}
    args = options.parse_args_and_arch(
        parser,
        list(arguments),
        modify_parser=lambda parser: parser.set_defaults(**defaults),
    )
    if has_methods and args.decoding is None:
        args.decoding = "beam" if args.nbest > 1 else "streaming"
    return args


def _add_text_options(group: Any) -> None:
    # fairseq has an option of this name, for one file.
    group.add_argument(
        "--input", dest="texts", nargs="+", required=True, metavar="FILE",
        help="text, a sentence a line, in UTF-8; .gz, .xz, .bz2 and .zst are unpacked; - is "
        "standard input",
    )  # fmt: skip
    group.add_argument(
        "--output", required=True, metavar="FILE",
        help="the translations; compressed as the name says; - is standard output, in order as "
        "they come, and cannot be resumed; with --input -, each within 0.2 seconds and the time of "
        "its translation",
    )  # fmt: skip
    group.add_argument(
        "--format", choices=FORMATS, default=PLAIN,
        help="plain: a line of text for a line (default); tsv: a line for each hypothesis, with "
        "the number of the source line from 1 on, the score (base 2) and the text; jsonl: an "
        "object for a line",
    )  # fmt: skip
    group.add_argument(
        "--with-source", action="store_true", help="tsv and jsonl have the source, too"
    )
    group.add_argument(
        "--on-error", choices=ON_ERROR, default=STOP,
        help="for a line that cannot be translated (too long, no UTF-8): stop there; or write the "
        "source, or nothing, and count it (default: stop)",
    )  # fmt: skip
    add_filter_options(group, "lines", "not with --format plain")


def _add_worker_options(group: Any) -> None:
    group.add_argument(
        "--workers", type=positive, metavar="N",
        help="processes that translate (default: one for each GPU, or as many as the cores allow)",
    )  # fmt: skip
    group.add_argument(
        "--threads-per-worker", type=positive, default=1, metavar="N",
        help="threads of each (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--cluster", type=_cluster, metavar="ray[://HOST:PORT]",
        help="translate on all machines of a Ray cluster: ray, the one that RAY_ADDRESS names or "
        "that this machine is part of; ray://HOST:PORT, another; --workers are those of each "
        "machine then",
    )  # fmt: skip
    group.add_argument(
        "--chunk-size", type=positive, metavar="N",
        help="lines that are sorted by length together, and that are lost at most when a worker "
        f"dies (default: {LEAST_LINES} to {MOST_LINES}, by the length of the input; with --input - "
        "--output -, the lines that have arrived)",
    )  # fmt: skip


def _cluster(text: str) -> str:
    """The name of a cluster; argparse puts the flag before the message."""
    if text != "ray" and not (text.startswith("ray://") and text != "ray://"):
        raise argparse.ArgumentTypeError(f"{text}: must be ray, or ray://HOST:PORT")
    return text


def check(args: argparse.Namespace) -> None:
    """Find mistakes in the command line.

    Raises:
        ValueError: it names the flag.
    """
    check_places(
        argparse.Namespace(**{**vars(args), "nbest": 1}),
        {
            "--results-path": (args.results_path is not None, "use --output"),
            "--prefix-size": (args.prefix_size > 0, "remove it: there are no references"),
            "--decoding-stats": (
                getattr(args, "decoding_stats", None) is not None,
                "remove it: several processes would write the file",
            ),
        },
    )
    if args.path is None:
        raise ValueError("--path: name the checkpoint, or several separated by colons")
    check_one_directory(args.data, "name the one with the dictionaries")
    check_shard(args)
    if args.num_shards > 1 and STANDARD_STREAM in (args.output, *args.texts):
        raise ValueError("--num-shards: needs files that all processes see; name them")
    if args.nbest > args.beam:
        raise ValueError(f"--nbest {args.nbest}: more than --beam {args.beam}; raise --beam")
    if args.sampling and args.nbest != args.beam:
        raise ValueError(
            f"--sampling: draws --beam {args.beam} translations of a line; give --nbest "
            f"{args.beam}, or --beam {args.nbest}"
        )
    if args.nbest > 1 and not args.sampling and _prunes(args):
        raise ValueError(
            f"--nbest {args.nbest}: --decoding {args.decoding} with its options prunes the beam, "
            "and finds fewer hypotheses for some lines; use --decoding beam without "
            "--prune-threshold, --max-candidates and --finalize"
        )
    if args.format == PLAIN:
        _check_plain(args)


def _prunes(args: argparse.Namespace) -> bool:
    """Whether a beam can end with fewer hypotheses than its width."""
    options = ("prune_threshold", "max_candidates", "finalize")
    return getattr(args, "decoding", None) in ("variable_beam", "streaming") or any(
        getattr(args, option, None) is not None for option in options
    )


def _check_plain(args: argparse.Namespace) -> None:
    """Plain text stays in step with its source."""
    given = {
        "--nbest": args.nbest > 1,
        "--with-source": args.with_source,
        "--drop-empty": args.drop_empty,
        "--drop-longer-a": args.drop_longer_a is not None,
        "--drop-longer-b": args.drop_longer_b is not None,
    }
    for flag, is_given in given.items():
        if is_given:
            raise ValueError(
                f"{flag}: --format plain has a line of text for a line, and nothing else; use "
                "--format tsv or jsonl"
            )
