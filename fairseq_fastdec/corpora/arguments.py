"""The options of ``translate``, and checks of their combinations."""

import argparse
from collections.abc import Sequence
from dataclasses import fields
from numbers import Integral
from typing import Any

from ..processes.errors import flag_of
from ..translating.bundle_file import is_bundle
from ..translating.command_line import (
    MEMORY_OPTIONS,
    SEARCH_OPTIONS,
    add_glossary_option,
    add_lm_path,
    add_memory_options,
    add_search_options,
    add_worker_options,
    check_files,
    check_shard,
    described,
    given,
    positive,
)
from ..translating.generation_options import HONOURED
from .filters import add_filter_options
from .model import CorpusModel
from .output_lines import FORMATS, ON_ERROR, PLAIN, STOP
from .text_files import STANDARD_STREAM

DESCRIPTION = """\
Translate text of any length, line by line, on all cores of a machine.

    python -m fairseq_fastdec translate MODEL --input mono.en.gz --output mono.de

writes one line for each input line, in the same order. MODEL is a bundle (made by `export`), a
checkpoint or its directory; several checkpoints form an ensemble. Without --input and --output, the
command is a filter of standard input.

If the command is ended, the same command continues: translations are kept in OUTPUT.parts, chunk
by chunk, until OUTPUT is complete. Several machines with a common file system share the work with
--num-shards N --shard-id I, I from 0; when all have ended, the command without these options writes
the output.
"""
# Lines per chunk: for files, by their length, and for streams, whose length is unknown.
LEAST_LINES, MOST_LINES, LINES_OF_A_STREAM = 512, 8192, 4096
# fairseq's default of --beam.
DEFAULT_BEAM = 5
# The text of a checkpoint, as arguments of ``load``.
TEXT_OPTIONS = ("data", "source_lang", "target_lang", "tokenizer", "bpe", "bpe_codes")


def parse_args(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Returns:
        the values; ``model`` is the :class:`~.model.CorpusModel`

    Raises:
        ValueError: for an option that bundles do not support.
    """
    parser = argparse.ArgumentParser(allow_abbrev=False)
    described(parser, "translate", DESCRIPTION)
    parser.add_argument(
        "model", nargs="+", metavar="MODEL",
        help="a bundle, a checkpoint or its directory; several checkpoints form an ensemble, also "
        "as A:B",
    )  # fmt: skip
    bundle = next((word for word in arguments if is_bundle(word)), None)
    names = None
    if bundle is None:
        try:
            names = _add_checkpoint_options(parser)
        except ModuleNotFoundError:  # without fairseq, which bundles do not need
            if not {"-h", "--help"} & {*arguments}:
                raise
    if names is None:
        group = parser.add_argument_group("decoding (default: as in the export)")
        add_search_options(group, "the method of the export, greedy or beam")
        for letter, side in (("-s", "source"), ("-t", "target")):
            group.add_argument(
                letter, f"--{side}-lang", dest=side, metavar="LANG",
                help=f"the {side} language of a model of many",
            )  # fmt: skip
        _add_draft_file(group)
        add_memory_options(group)
        add_glossary_option(group)
    _add_text_options(parser.add_argument_group("text"))
    _add_worker_options(parser.add_argument_group("workers"))
    if bundle is None:
        args = parser.parse_args(arguments)
        args.model = _checkpoints(args, names or [])
        return args
    args, unknown = parser.parse_known_args(arguments)
    if unknown or args.model != [bundle]:
        flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        raise ValueError(not_of_bundles([*flags, bundle][0]))
    memory = given(args, MEMORY_OPTIONS)
    if memory and args.draft_file is not None:
        raise ValueError("--draft-file: cannot be combined with --memory-source; remove one")
    options = {**given(args, (*SEARCH_OPTIONS, "source", "target", "glossary")), **memory}
    options["batch_size"] = args.batch_size
    args.model = CorpusModel([bundle], options, args.draft_file)
    return args


def add_text_of_checkpoint(group: Any) -> None:
    """Add the options of :data:`TEXT_OPTIONS`."""
    group.add_argument("--data", metavar="DIR", help="the dictionaries (default: the checkpoint's)")
    group.add_argument("-s", "--source-lang", metavar="LANG", help="default: the checkpoint's")
    group.add_argument("-t", "--target-lang", metavar="LANG", help="default: the checkpoint's")
    group.add_argument(
        "--tokenizer",
        metavar="NAME",
        help="fairseq's name or none (default: moses with BPE codes)",
    )
    group.add_argument(
        "--bpe", metavar="NAME", help="fairseq's name or none (default: that of the codes)"
    )
    group.add_argument("--bpe-codes", metavar="FILE", help="default: next to the checkpoint")


def not_of_bundles(word: str) -> str:
    """The error for a word of a command line that cannot be combined with a bundle."""
    return (
        f"{word}: not possible with a bundle, which contains data and options of its export; give "
        "the bundle and remove this, or name a checkpoint"
    )


def _add_checkpoint_options(parser: argparse.ArgumentParser) -> list[str]:
    """Add the options of :func:`fairseq_fastdec.load`, and return the names of those of decoding.

    They have no defaults, since the options of a checkpoint's task are the defaults.
    """
    from fairseq.dataclass.utils import gen_parser_from_dataclass

    from ..decoding.option_groups import Grouped
    from ..decoding.options import DecodingOptions
    from ..fairseq_patches.help import as_ours

    group = as_ours(parser.add_argument_group("model"))
    add_text_of_checkpoint(group)
    group.add_argument("--user-dir", metavar="DIR", help="as in fairseq")
    group.add_argument("--cpu", action="store_true", help="do not use GPUs")
    group.add_argument("--fp16", action="store_true", help="half precision on GPUs")
    group.add_argument("--seed", type=int, default=1, help="for --sampling (default: 1)")
    group.add_argument("--batch-size", type=positive, metavar="N", help="sentences in a batch")
    group.add_argument("--max-tokens", type=positive, metavar="N", help="source tokens in a batch")
    group = as_ours(parser.add_argument_group("search"))
    searching = HONOURED.keys() - {"prefix_size"}
    for name in sorted(searching):
        valid = HONOURED[name]
        kind, metavar = (int, "N") if valid.kind is Integral else (float, "X")
        group.add_argument(flag_of(name), type=kind, metavar=metavar, help=valid.reason)
    add_lm_path(group)
    for name in ("sampling", "unnormalized"):
        group.add_argument(flag_of(name), action="store_true", help="as in fairseq")
    grouped: Any = Grouped(parser, fields(DecodingOptions))
    gen_parser_from_dataclass(grouped, DecodingOptions(), delete_default=True)
    own = {field.name for field in fields(DecodingOptions)} - {"_name"}
    return [*searching, "lm_path", "sampling", "unnormalized", *own]


def _checkpoints(args: argparse.Namespace, names: list[str]) -> CorpusModel:
    """The model of a command line with checkpoints.

    Raises:
        ValueError: for an option that is not possible with several processes.
    """
    if args.decoding_stats is not None:
        raise ValueError(
            "--decoding-stats: not possible here; remove it: several processes would write the file"
        )
    options = given(args, (*TEXT_OPTIONS, "batch_size", "max_tokens", *names))
    draft_file = options.pop("draft_file", None)
    options = {name: value for name, value in options.items() if value is not False}
    for name in ("tokenizer", "bpe"):
        if options.get(name) == "none":
            options[name] = None
    return CorpusModel(
        args.model, options, draft_file, args.seed, not args.cpu, args.fp16, args.user_dir
    )


def _add_draft_file(group: Any) -> None:
    group.add_argument(
        "--draft-file", metavar="FILE",
        help="a draft for each line, which the model verifies: text, one per line, an empty line "
        "for no draft",
    )  # fmt: skip


def _add_text_options(group: Any) -> None:
    group.add_argument(
        "--input", nargs="+", action="extend", metavar="FILE",
        help="text in UTF-8, one sentence per line; .gz, .xz, .bz2 and .zst are unpacked (default: "
        "-, standard input)",
    )  # fmt: skip
    group.add_argument(
        "--output", default=STANDARD_STREAM, metavar="FILE",
        help="the translations; compressed according to the extension (default: -, standard "
        "output, in order, which cannot be resumed; of standard input each within 0.2 seconds and "
        "the time of its translation)",
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
        f"(default: {LEAST_LINES} to {MOST_LINES}, by the length of the input; from standard input "
        "to standard output, the lines that have arrived)",
    )  # fmt: skip
    group.add_argument("--no-progress-bar", action="store_true")
    group.add_argument("--num-shards", type=int, default=1, metavar="N", help="see above")
    group.add_argument("--shard-id", type=int, default=0, metavar="I", help="from 0")


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
    check_shard(args)
    check_files(args)
    if args.num_shards > 1 and STANDARD_STREAM in (args.output, *args.input):
        raise ValueError("--num-shards: needs files that all processes can access; name them")
    nbest, beam = args.nbest or 1, args.beam or DEFAULT_BEAM
    if args.beam is not None and nbest > beam:
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
