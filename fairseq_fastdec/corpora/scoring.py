"""The command ``score``."""

import argparse
import contextlib
import itertools
import logging
import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Optional, Union

from ..data.atomic_files import replacing
from ..processes.errors import errors_in_one_line
from ..processes.noise import results_only
from ..processes.streams import standard
from ..translating.bundle_file import is_bundle
from ..translating.command_line import (
    OWN_OPTIONS,
    check_output,
    described,
    given,
    in_words,
    one_or_all,
    program,
)
from ..translating.opening import load
from ..translating.results import Problem, SentenceError, Translation
from ..translating.translator import Translator
from .arguments import (
    LINES_OF_A_STREAM,
    TEXT_OPTIONS,
    add_text_of_checkpoint,
    not_of_bundles,
)
from .output_lines import EMPTY, NOT_UTF8, STOP
from .text_files import STANDARD_STREAM, TextInput, packed

DESCRIPTION = """\
Score translations with a model, as fairseq-generate --score-reference does.

    python -m fairseq_fastdec score MODEL --source FILE --target FILE --output FILE

writes one line for each pair of lines: the mean log-probability of the target's tokens, EOS
included, in base 2 as fairseq prints it. MODEL is a bundle, a checkpoint or its directory; several
checkpoints form an ensemble.
"""
# Options of checkpoints, which bundles contain.
OF_CHECKPOINTS = ("data", "tokenizer", "bpe", "bpe_codes", "engine_precision")
SCORED = "scored"


@results_only(logging.WARNING)
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in its input are reported in one line."""
    with errors_in_one_line(program("score"), spelling=OWN_OPTIONS):
        args = parse_args(arguments)
        texts = [TextInput([path]) for path in _inputs(args).values()]
        if args.output != STANDARD_STREAM:
            check_output(args.output, [*args.model, args.source, args.target])
        model, languages = _opened(args)
        counts: Counter[str] = Counter()
        with _writing(args.output) as file:
            for first, pairs in _chunks(texts, _inputs(args)):
                found = _scores(model, pairs, {**languages, "details": args.details})
                for number, own in enumerate(found, first + 1):
                    if isinstance(own, Problem) and args.on_error == STOP:
                        raise ValueError(
                            f"{args.source}, {args.target}, line {number}: {own}; --on-error "
                            "empty continues, and counts such lines"
                        )
                    counts[own.kind if isinstance(own, Problem) else SCORED] += 1
                    file.write(_line(own).encode("utf-8"))
                file.flush()
        print(in_words(counts, SCORED), file=sys.stderr)


def parse_args(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    """Parse the command line.

    Raises:
        ValueError: for options that cannot be combined.
    """
    parser = described(argparse.ArgumentParser(allow_abbrev=False), "score", DESCRIPTION)
    add = parser.add_argument
    add("model", nargs="+", metavar="MODEL", help="a bundle, a checkpoint or its directory")
    for side in ("source", "target"):
        add(f"--{side}", required=True, metavar="FILE", help=f"text in UTF-8, one {side} per line; "
            "compressed according to the extension; -: standard input")  # fmt: skip
    add("--output", default=STANDARD_STREAM, metavar="FILE",
        help="the scores (default: -, standard output)")  # fmt: skip
    add("--details", action="store_true", help="write three columns, separated by tabs: the score, "
        "the log-probabilities of the tokens, the target's subwords")  # fmt: skip
    add("--on-error", choices=(STOP, EMPTY), default=STOP,
        help="for a pair that cannot be scored (too long, not UTF-8): stop; or write an empty "
        "line, and count it (default: stop)")  # fmt: skip
    group = parser.add_argument_group("model")
    add_text_of_checkpoint(group)
    group.add_argument("--engine-precision", metavar="NAME", help="fp32, bf16 or int8")
    args = parser.parse_args(arguments)
    if args.source == args.target == STANDARD_STREAM:
        raise ValueError("--target -: --source is standard input already; name a file")
    bundle = next((path for path in args.model if is_bundle(path)), None)
    if bundle is not None:
        flags = [f"--{name.replace('_', '-')}" for name in given(args, OF_CHECKPOINTS)]
        if flags or args.model != [bundle]:
            raise ValueError(not_of_bundles([*flags, bundle][0]))
    return args


def _inputs(args: argparse.Namespace) -> dict[str, str]:
    return {"--source": args.source, "--target": args.target}


def _opened(args: argparse.Namespace) -> tuple[Translator, dict[str, str]]:
    """The model, and the arguments of its calls."""
    if is_bundle(args.model[0]):
        languages = {"source": args.source_lang, "target": args.target_lang}
        return load(args.model[0]), {side: name for side, name in languages.items() if name}
    options = given(args, (*TEXT_OPTIONS, "engine_precision"))
    named = {name: None for name in ("tokenizer", "bpe") if options.get(name) == "none"}
    return load(one_or_all(args.model), **{**options, **named}), {}


@contextlib.contextmanager
def _writing(output: str) -> Iterator[BinaryIO]:
    """Open the output; a file is complete or does not exist."""
    if output == STANDARD_STREAM:
        yield standard("stdout").buffer
        return
    with replacing(Path(output)) as partial, packed(partial, output) as file:
        yield file


def _chunks(
    texts: Sequence[TextInput], names: dict[str, str]
) -> Iterator[tuple[int, list[tuple[bytes, bytes]]]]:
    """Pairs of lines that are scored together, and the number of the first, from 0.

    Raises:
        ValueError: if one text has more lines.
    """
    lines: Iterator[Any] = itertools.zip_longest(*(text.lines() for text in texts))
    first = 0
    while pairs := list(itertools.islice(lines, LINES_OF_A_STREAM)):
        for number, pair in enumerate(pairs, first):
            if None in pair:
                ended, longer = list(names) if pair[0] is None else reversed(list(names))
                raise ValueError(
                    f"{ended} {names[ended]}: has {number} lines, and {longer} {names[longer]} has "
                    "more; give one line for each"
                )
        yield first, pairs
        first += len(pairs)


def _scores(
    model: Translator, pairs: Sequence[tuple[bytes, bytes]], options: dict[str, Any]
) -> list[Union[Problem, Translation, float]]:
    """The scores of pairs of lines.

    Args:
        options: the arguments of :meth:`Translator.score`.
    """
    found: list[Any] = [NOT_UTF8] * len(pairs)
    texts: dict[int, list[str]] = {}
    for place, pair in enumerate(pairs):
        with contextlib.suppress(UnicodeDecodeError):
            texts[place] = [line.decode("utf-8") for line in pair]
    sources, targets = zip(*texts.values()) if texts else ((), ())
    try:
        scored = model.score(sources, targets, **options)
    except SentenceError as error:
        scored = [error.errors.get(at, own) for at, own in enumerate(error.translations)]
    for place, own in zip(texts, scored):
        found[place] = getattr(own, "error", None) or own
    return found


def _line(found: Union[Problem, Translation, float]) -> str:
    """A line of the output."""
    if isinstance(found, Problem):
        return "\n"
    if isinstance(found, float):
        return f"{_base_2(found)}\n"
    scores = " ".join(map(_base_2, found.positional_scores))
    return f"{_base_2(found.score)}\t{scores}\t{' '.join(found.tokens)}\n"


def _base_2(score: float) -> str:
    """A natural logarithm as fairseq prints it."""
    return f"{score / math.log(2):.4f}"
