"""Options and checks shared by the command lines of the tools.

This module imports neither torch nor fairseq.
"""

import argparse
import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from ..data.text import PathLike, check_can_be_read_again, check_is_not_read
from ..processes.errors import flag_of
from .generation_options import LM_PATH, LM_WEIGHT
from .scheduler import CAPACITY

PACKAGE = __name__.partition(".")[0]
# Decoding options of a bundle or a checkpoint that commands without fairseq's options have.
SEARCH_OPTIONS = ("decoding", "beam", "nbest", "lenpen", "max_len_a", "max_len_b", "lm_weight")
# What commands say in place of arguments of ``fairseq_fastdec.load``, if they have such options,
# and if they have none.
OWN_OPTIONS = {
    "data=DIRECTORY": "--data DIRECTORY",
    "bpe_codes=FILE, or bpe=None for text in subwords": "--bpe-codes FILE",
    "source_lang, target_lang": "--source-lang, --target-lang",
    "source_lang and target_lang": "--source-lang and --target-lang",
}
EXPORT_FIRST = "copy them there, or give a bundle, made by `export` with"
NO_OPTIONS = {
    "give data=DIRECTORY": f"{EXPORT_FIRST} --data",
    "give bpe_codes=FILE, or bpe=None for text in subwords": f"{EXPORT_FIRST} --bpe-codes",
    "give source_lang and target_lang, or data=DIRECTORY": f"{EXPORT_FIRST} -s, -t or --data",
    "source_lang, target_lang: ": "",
    "name the languages; give both": f"name the languages; {EXPORT_FIRST} -s and -t",
}
# Options for files that are written.
WRITTEN = ("output", "decoding_stats", "log_file")
# The files of a translation memory.
MEMORY_OPTIONS = ("memory_source", "memory_target")


def program(command: str) -> str:
    """The name of a command, for errors and help."""
    return f"python -m {PACKAGE} {command}"


def described(
    parser: argparse.ArgumentParser, command: str, description: Optional[str]
) -> argparse.ArgumentParser:
    """Set the name of a command's parser and its description, whose line ends are kept."""
    parser.prog, parser.description = program(command), description
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    return parser


def version() -> str:
    """The version of this package."""
    return importlib.import_module(PACKAGE).__version__


def positive(text: str) -> int:
    """Parse a whole number of at least 1. argparse adds the flag to the message."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number of at least 1")
    return int(text)


def add_search_options(group: Any, methods: str) -> None:
    """Add the options of :data:`SEARCH_OPTIONS`, and ``--batch-size``.

    Args:
        methods: the help of ``--decoding``.
    """
    group.add_argument("--decoding", metavar="METHOD", help=methods)
    group.add_argument("--beam", type=positive, metavar="K")
    group.add_argument("--nbest", type=positive, metavar="N", help="translations of each line")
    group.add_argument("--lenpen", type=float, metavar="POWER")
    group.add_argument("--max-len-a", type=float, metavar="A")
    group.add_argument("--max-len-b", type=int, metavar="B")
    add_lm_weight(group)
    group.add_argument(
        "--batch-size", type=positive, default=CAPACITY, metavar="N",
        help=f"sentences that each thread decodes at once (default: {CAPACITY})",
    )  # fmt: skip


def add_lm_path(group: Any) -> None:
    """Add ``--lm-path``."""
    text = "a checkpoint of a language model with the target's dictionary, for beam and greedy"
    group.add_argument(LM_PATH, metavar="FILE", help=text)


def add_lm_weight(group: Any) -> None:
    """Add ``--lm-weight``."""
    text = "the factor of the language model's log-probabilities"
    group.add_argument(LM_WEIGHT, type=float, metavar="X", help=text)


def add_memory_options(group: Any) -> None:
    """Add the options of :data:`MEMORY_OPTIONS`."""
    group.add_argument(
        "--memory-source", metavar="FILE",
        help="earlier sentences as text, one per line; the translations of similar ones are drafts "
        "that the model verifies; an index is written next to --memory-target",
    )  # fmt: skip
    group.add_argument(
        "--memory-target", metavar="FILE", help="the translations of --memory-source"
    )


def add_glossary_option(group: Any) -> None:
    """Add ``--glossary``."""
    group.add_argument(
        "--glossary", metavar="FILE",
        help="lines of a term, a tab and its prescribed translation; needs --decoding beam",
    )  # fmt: skip


def given(args: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The values of the named options, without those that are ``None``."""
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def flags_of(options: Mapping[str, Any]) -> list[str]:
    """Options of Python as on the command line."""
    return [
        flag_of(name) if value is True else f"{flag_of(name)} {value}"
        for name, value in options.items()
    ]


def add_worker_options(group: Any, besides: str = "") -> None:
    """Add ``--workers`` and ``--threads-per-worker``.

    Args:
        besides: what else ``--workers`` sets, for the help.
    """
    group.add_argument(
        "--workers", type=positive, metavar="N",
        help="processes that translate (default: one per GPU, or as many as the cores allow)"
        f"{besides}",
    )  # fmt: skip
    group.add_argument(
        "--threads-per-worker", type=positive, default=1, metavar="N",
        help="threads per process (default: 1)",
    )  # fmt: skip


def is_translation(arguments: Sequence[str]) -> bool:
    """Whether a command line is for the translation task, the default, with ``--decoding``."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--task", default="translation")
    return parser.parse_known_args(arguments)[0].task == "translation"


def one_or_all(models: list[str]) -> Any:
    """The models of a command line for ``fairseq_fastdec.load``: a bundle is not in a list."""
    return models[0] if len(models) == 1 else models


def in_words(counts: dict[str, int], first: str) -> str:
    """Format counts, ``first`` before the others: ``97 kept, 3 too long``."""
    others = sorted(name for name, count in counts.items() if count and name != first)
    return ", ".join(f"{counts.get(name, 0)} {name}" for name in [first, *others])


def check_places(args: argparse.Namespace, places: dict[str, tuple[bool, str]]) -> None:
    """Reject options of fairseq-generate that a script does not support.

    Args:
        places: further options that this script does not support: by flag, whether the option was
            given, and what to do instead.

    Raises:
        ValueError: for such an option; it names the flag.
    """
    remove = "remove it"
    common = {
        "--nbest": (args.nbest > 1, "remove it: the best hypothesis counts"),
        "--score-reference": (args.score_reference, remove),
        "--lm-path": (args.lm_path is not None, remove),
        "--replace-unk": (args.replace_unk is not None, remove),
        "--print-alignment": (args.print_alignment is not None, remove),
        "--constraints": (args.constraints is not None, remove),
    }
    for flag, (is_given, remedy) in {**common, **places}.items():
        if is_given:
            raise ValueError(f"{flag}: not possible here; {remedy}")


def check_one_directory(data: str, remedy: str) -> None:
    """Check that one data directory is given.

    Raises:
        ValueError: if there are several, joined by colons as in fairseq.
    """
    from fairseq import utils

    if len(utils.split_paths(data)) > 1:
        raise ValueError(f"{data}: contains several data directories; {remedy}")


def check_output(output: PathLike, inputs: Iterable[Optional[PathLike]] = ()) -> None:
    """Check that a file that a command will write is none of its inputs, and has a directory.

    Args:
        inputs: see :func:`.data.text.check_is_not_read`.

    Raises:
        ValueError: if not; the message names --output.
    """
    folder = Path(output).parent
    if not folder.is_dir():
        raise ValueError(f"--output {output}: there is no directory {folder}")
    check_is_not_read("--output", output, inputs)


def path_of(text: str) -> Path:
    """Parse a path. An empty one would be the current directory."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; name a file or directory")
    return Path(text)


def check_files(args: argparse.Namespace) -> None:
    """Check that the files of options can be read by several processes.

    Raises:
        ValueError: for a pipe or a device; the message names the flag.
    """
    for name, value in vars(args).items():
        if isinstance(value, (str, Path)) and name not in WRITTEN:
            check_can_be_read_again(flag_of(name), value)


def check_shard(args: argparse.Namespace) -> None:
    """Check --shard-id.

    Raises:
        ValueError: if --shard-id is not one of --num-shards.
    """
    if not 0 <= args.shard_id < args.num_shards:
        raise ValueError(
            f"--shard-id {args.shard_id}: must be from 0 to {args.num_shards - 1} with "
            f"--num-shards {args.num_shards}"
        )
