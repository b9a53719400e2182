"""The options of ``scripts/translate_corpus.py``, and checks of their combinations."""

import argparse
from collections.abc import Sequence
from typing import Any

from ...translating.bundle_file import is_bundle
from ..command_line import (
    add_memory_options,
    add_search_options,
    add_worker_options,
    check_files,
    check_one_directory,
    check_places,
    check_shard,
    described,
    is_translation,
    positive,
)
from ..distillation.filters import add_filter_options
from .output_lines import FORMATS, ON_ERROR, PLAIN, STOP
from .text_files import STANDARD_STREAM

DESCRIPTION = """\
Translate text of any length, line by line, on all cores of a machine.

    python scripts/translate_corpus.py data-bin/en-de --path checkpoint.pt -s en -t de \\
        --tokenizer moses --bpe subword_nmt --bpe-codes data-bin/en-de/bpe.codes \\
        --input mono.en.gz --output mono.de

writes one line for each input line, in the same order. Text is tokenised and segmented as in
fairseq-interactive, whose options are all available; the default is --decoding streaming with
--beam 5, and --decoding beam with --nbest. With --input - --output - it is a filter. A bundle takes
the place of data and checkpoint:

    python scripts/translate_corpus.py model.fastdec --input mono.en.gz --output mono.de

If the command is ended, the same command continues: translations are kept in OUTPUT.parts, chunk
by chunk, until OUTPUT is complete. Several machines with a common file system share the work with
--num-shards N --shard-id I, I from 0; when all have ended, the command without these options writes
the output.
"""
# Lines per chunk: for files, by their length, and for streams, whose length is unknown.
LEAST_LINES, MOST_LINES, LINES_OF_A_STREAM = 512, 8192, 4096


def parse_args(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line: the options of fairseq-generate or of a bundle, and of this command.

    Returns:
        the values; ``bundle`` is the path of the bundle, or ``None`` with a checkpoint

    Raises:
        ValueError: for an option that bundles do not support.
    """
    bundle = next((argument for argument in arguments if is_bundle(argument)), None)
    args = _parse_checkpoint(arguments) if bundle is None else _parse_bundle(arguments, bundle)
    args.bundle = bundle
    return args


def _parse_checkpoint(arguments: Sequence[str]) -> argparse.Namespace:
    from fairseq import options

    from ...fairseq_patches.help import as_ours

    parser = described(options.get_generation_parser(), "translate-corpus", DESCRIPTION)
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


def _parse_bundle(arguments: Sequence[str], bundle: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    described(parser, "translate-corpus", DESCRIPTION)
    parser.add_argument("model", metavar="BUNDLE")
    _add_text_options(parser.add_argument_group("text"))
    _add_worker_options(parser.add_argument_group("workers"))
    group = parser.add_argument_group("decoding (default: as in the export)")
    add_search_options(group, "the method of the export, greedy or beam")
    group.add_argument(
        "--draft-file",
        metavar="FILE",
        help="a draft for each line, which the model verifies: text, one per line, an empty line "
        "for no draft",
    )
    add_memory_options(group)
    group.add_argument("--no-progress-bar", action="store_true")
    group.add_argument("--num-shards", type=int, default=1)
    group.add_argument("--shard-id", type=int, default=0)
    args, unknown = parser.parse_known_args(arguments)
    if unknown or args.model != bundle:
        flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        raise ValueError(
            f"{[*flags, bundle][0]}: not possible with a bundle, which contains data and options "
            "of its export; give the bundle and remove this, or name a data directory and --path "
            "CHECKPOINT"
        )
    return args


def _add_text_options(group: Any) -> None:
    # fairseq has an option of this name, but for one file.
    group.add_argument(
        "--input", dest="texts", nargs="+", required=True, metavar="FILE",
        help="text in UTF-8, one sentence per line; .gz, .xz, .bz2 and .zst are unpacked; - is "
        "standard input",
    )  # fmt: skip
    group.add_argument(
        "--output", required=True, metavar="FILE",
        help="the translations; compressed according to the extension; - is standard output, in "
        "order, which cannot be resumed; with --input -, each within 0.2 seconds and the time of "
        "its translation",
    )  # fmt: skip
    group.add_argument(
        "--format", choices=FORMATS, default=PLAIN,
        help="plain: one line of text per input line (default); tsv: one line per hypothesis, with "
        "the number of the source line from 1, the score (base 2) and the text; jsonl: one object "
        "per line",
    )  # fmt: skip
    group.add_argument("--with-source", action="store_true", help="add the source to tsv and jsonl")
    group.add_argument(
        "--on-error", choices=ON_ERROR, default=STOP,
        help="for a line that cannot be translated (too long, not UTF-8): stop; or write the "
        "source or an empty line, and count it (default: stop)",
    )  # fmt: skip
    add_filter_options(group, "lines", "not with --format plain")


def _add_worker_options(group: Any) -> None:
    add_worker_options(group)
    group.add_argument(
        "--cluster", type=_cluster, metavar="ray[://HOST:PORT]",
        help="translate on all machines of a Ray cluster: ray for that of RAY_ADDRESS or of this "
        "machine, ray://HOST:PORT for another; --workers is the number per machine",
    )  # fmt: skip
    group.add_argument(
        "--chunk-size", type=positive, metavar="N",
        help="lines that are sorted by length together, the most that are lost if a worker dies "
        f"(default: {LEAST_LINES} to {MOST_LINES}, by the length of the input; with --input - "
        "--output -, the lines that have arrived)",
    )  # fmt: skip


def _cluster(text: str) -> str:
    """The name of a cluster; argparse puts the flag before the message."""
    if text != "ray" and not (text.startswith("ray://") and text != "ray://"):
        raise argparse.ArgumentTypeError(f"{text}: must be ray, or ray://HOST:PORT")
    return text


def check(args: argparse.Namespace) -> None:
    """Check the command line.

    Raises:
        ValueError: for a mistake; the message names the flag.
    """
    if args.bundle is None:
        _check_checkpoint(args)
    check_shard(args)
    check_files(args)
    if args.num_shards > 1 and STANDARD_STREAM in (args.output, *args.texts):
        raise ValueError("--num-shards: needs files that all processes can access; name them")
    nbest, beam = args.nbest or 1, args.beam
    if beam is not None and nbest > beam:
        raise ValueError(f"--nbest {nbest}: more than --beam {beam}; raise --beam")
    samples = getattr(args, "sampling", False)
    if samples and nbest != beam:
        raise ValueError(
            f"--sampling: draws --beam {beam} translations per line; give --nbest {beam}, or "
            f"--beam {nbest}"
        )
    if nbest > 1 and not samples and _prunes(args):
        raise ValueError(
            f"--nbest {nbest}: --decoding {args.decoding} with its options prunes the beam, "
            "and finds fewer hypotheses for some lines; use --decoding beam without "
            "--prune-threshold, --max-candidates and --finalize"
        )
    if args.format == PLAIN:
        _check_plain(args)


def _check_checkpoint(args: argparse.Namespace) -> None:
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


def _prunes(args: argparse.Namespace) -> bool:
    """Whether a beam can end with fewer hypotheses than its width."""
    options = ("prune_threshold", "max_candidates", "finalize")
    return getattr(args, "decoding", None) in ("variable_beam", "streaming") or any(
        getattr(args, option, None) is not None for option in options
    )


def _check_plain(args: argparse.Namespace) -> None:
    """Check that the output has one line for each line of the input."""
    given = {
        "--nbest": (args.nbest or 1) > 1,
        "--with-source": args.with_source,
        "--drop-empty": args.drop_empty,
        "--drop-longer-a": args.drop_longer_a is not None,
        "--drop-longer-b": args.drop_longer_b is not None,
    }
    for flag, is_given in given.items():
        if is_given:
            raise ValueError(
                f"{flag}: --format plain has exactly one line of text per line; use --format tsv "
                "or jsonl"
            )
