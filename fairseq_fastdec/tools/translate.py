"""Translates lines of text: ``python -m fairseq_fastdec translate``.

With a bundle, neither torch nor fairseq is imported.
"""

import argparse
import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Optional

from ..processes.errors import end_with, errors_in_one_line
from ..processes.noise import results_only
from ..processes.streams import standard
from ..translating.opening import load
from ..translating.results import Translation
from .command_line import (
    MEMORY_OPTIONS,
    NO_OPTIONS,
    SEARCH_OPTIONS,
    add_memory_options,
    add_search_options,
    check_output,
    given,
    one_or_all,
    positive,
    program,
)
from .translation.output_lines import NOT_UTF8 as INVALID
from .translation.text_files import STANDARD_STREAM, TextInput

logger = logging.getLogger(__name__)

DESCRIPTION = """\
Translate lines of text with a bundle (made by `export`) or a checkpoint: one translation per line,
in the order of the input, or --nbest of them, separated by tabs. Lines that cannot be translated
become empty lines, with a warning.
"""
NOT_UTF8 = Translation(None, error=INVALID)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command."""
    name = program("translate")
    parser = argparse.ArgumentParser(prog=name, description=DESCRIPTION)
    parser.add_argument(
        "model", nargs="+", metavar="MODEL",
        help="a bundle, a checkpoint or its directory; several checkpoints form an ensemble, also "
        "as A:B",
    )  # fmt: skip
    parser.add_argument(
        "--input", default="-", metavar="FILE",
        help="text in UTF-8; .gz, .xz, .bz2 and .zst are unpacked (default: standard input)",
    )  # fmt: skip
    parser.add_argument("--output", default="-", metavar="FILE", help="default: standard output")
    parser.add_argument("--threads", type=positive, metavar="N", help="default: one per core")
    add_search_options(parser, "the method (default: the bundle's, or greedy)")
    add_memory_options(parser)
    args = parser.parse_args(arguments)
    with errors_in_one_line(name, spelling=NO_OPTIONS), results_only():
        translator = load(one_or_all(args.model), **given(args, (*SEARCH_OPTIONS, *MEMORY_OPTIONS)))
        translator.schedule(threads=args.threads, batch_size=args.batch_size)
        with contextlib.ExitStack() as files:
            source = TextInput([args.input])
            if args.output == STANDARD_STREAM:
                output = standard("stdout").buffer
            else:
                inputs = (args.input, *args.model, args.memory_source, args.memory_target)
                check_output(args.output, inputs)
                output = files.enter_context(open(args.output, "wb"))
            invalid: set[int] = set()
            lines = _valid_lines(source.lines(), invalid)
            n_failed = sum(
                _write(number, NOT_UTF8 if number in invalid else found, output)
                for number, found in translator.translate_stream(lines)
            )
        translator.close()
    if n_failed:
        end_with(f"{name}: lines without a translation: {n_failed}")


def _valid_lines(lines: Iterable[bytes], invalid: set[int]) -> Iterator[str]:
    """The lines, empty if they are not UTF-8; the numbers of these are added to ``invalid``."""
    for number, line in enumerate(lines):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError:
            invalid.add(number)
            yield ""


def _write(number: int, found: Any, output: BinaryIO) -> int:
    """Write the translations of a line; return 1 if it could not be translated."""
    translations = found if isinstance(found, list) else [found]
    error = translations[0].error
    if error is not None:
        logger.warning("line %d: %s", number + 1, error)
    line = "\t".join(translation.text or "" for translation in translations) + "\n"
    output.write(line.encode("utf-8"))
    output.flush()
    return int(error is not None)
