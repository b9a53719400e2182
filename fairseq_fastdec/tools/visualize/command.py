"""DDGviz: visualise how a checkpoint decodes several tokens in parallel.

    python -m fairseq_fastdec ddgviz data-bin/en-de --path checkpoint_best.pt --sentences some.en \\
        --tokenizer moses --bpe subword_nmt --bpe-codes data-bin/en-de/bpe.codes

draws, for each line of some.en, the decoding dependency graph and below it the matrix of decoder
invocations and output tokens (Santilli et al. 2023, sections 3.5 and 4.3), as sentence-1.png and
sentence-1.svg, and all of them together as ddgviz.html and ddgviz.json. All options of
fairseq-interactive are available. The default is --decoding jacobi.
"""

import argparse
import functools
import importlib
import logging
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Optional

from fairseq import options, tasks, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from ...checkpoints.batches import max_positions_of
from ...data import atomic_files
from ...data.text import check_is_not_read, input_text
from ...decoding.methods.generator import SingleHypothesisMethod
from ...fairseq_patches.help import as_ours
from ...fairseq_patches.languages import infer_languages
from ...processes.errors import errors_in_one_line
from ...processes.noise import imports_unheard, results_only
from ...translating.command_line import described, path_of, positive, program
from ...translating.text import segmented
from ..corpus import best_translations, load_models, on_device
from . import Recorder, SentenceTrace, document, page, subwords

with imports_unheard():
    from fairseq_cli import interactive

logger = logging.getLogger(__name__)

PICTURES, DOCUMENTS = ("png", "svg"), ("html", "json")


@results_only()
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in its input are reported in one line."""
    args = parse_args(sys.argv[1:] if arguments is None else arguments)
    with errors_in_one_line(program("ddgviz"), ImportError):
        run(args)


def parse_args(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options of fairseq-interactive and of this command."""
    parser = described(options.get_interactive_generation_parser(), "ddgviz", __doc__)
    group = as_ours(parser.add_argument_group("ddgviz"))
    group.add_argument(
        "--sentences",
        default="-",
        metavar="FILE",
        help="source sentences, one per line; - is standard input (default: -)",
    )
    group.add_argument(
        "--output",
        type=path_of,
        default=Path("ddgviz"),
        metavar="DIR",
        help="output directory; files of the same name are replaced (default: ddgviz)",
    )
    group.add_argument(
        "--formats",
        type=formats,
        default=[*PICTURES, *DOCUMENTS],
        metavar="LIST",
        help="output formats: png, svg, html and json, separated by commas (default: all)",
    )
    group.add_argument(
        "--max-sentences-shown",
        type=positive,
        default=20,
        metavar="N",
        help="stop after this many sentences (default: 20)",
    )
    group.add_argument(
        "--subwords",
        choices=subwords.CHOICES,
        default="show",
        help="show them as in the dictionary (Rah@@ men), mark where a word continues (Rah· men), "
        "or join them, with whole words next to their pieces (default: show)",
    )
    return options.parse_args_and_arch(
        parser,
        list(arguments),
        modify_parser=lambda parser: parser.set_defaults(decoding="jacobi"),
    )


def formats(text: str) -> list[str]:
    """Parse a list of formats. argparse adds the flag to the message."""
    names = text.split(",")
    unknown = [name for name in names if name not in (*PICTURES, *DOCUMENTS)]
    if unknown:
        raise argparse.ArgumentTypeError(
            f"{unknown[0]!r}: unknown; choose from {','.join((*PICTURES, *DOCUMENTS))}"
        )
    return names


def run(args: argparse.Namespace) -> None:
    """Decode, then write all files.

    Raises:
        ValueError: for input that cannot be read or drawn, and for a decoding option that the model
            or method does not support.
    """
    figure = picture_module(args.formats)
    infer_languages(args)
    lines = read_sentences(args.sentences, args.max_sentences_shown)
    names = [f"sentence-{number + 1}" for number in lines]
    for name in [*names, "ddgviz"]:
        for extension in (*PICTURES, *DOCUMENTS):
            check_is_not_read("--output", args.output / f"{name}.{extension}", [args.sentences])
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ValueError(f"--output {args.output}: is a file; name a directory") from error
    traces = sorted(decode(args, lines), key=lambda trace: trace.id)
    for trace in traces:
        for name in PICTURES:
            if figure is not None and name in args.formats:
                path = args.output / f"sentence-{trace.id + 1}.{name}"
                figure.save(trace, path)
                print(path)
    for name, content in (("html", page.write), ("json", document.write)):
        if name in args.formats:
            path = args.output / f"ddgviz.{name}"
            atomic_files.write_text(path, content(traces))
            print(path)


def picture_module(names: Sequence[str]) -> Optional[ModuleType]:
    """The drawing module; ``None`` if no pictures are requested.

    Raises:
        ValueError: without matplotlib.
    """
    if not set(PICTURES) & set(names):
        return None
    try:
        return importlib.import_module("fairseq_fastdec.tools.visualize.figure")
    except ImportError as error:
        raise ValueError(f"--formats {','.join(names)}: {error}") from error


def read_sentences(name: str, n_most: int) -> dict[int, str]:
    """The sentences by line number, from 0, without empty ones.

    Raises:
        ValueError: for a file that cannot be read or has no sentence.
    """
    try:
        with input_text(name) as file:
            lines = {n: line.strip() for n, line in enumerate(file) if line.strip()}
    except OSError as error:
        raise ValueError(f"--sentences {name}: cannot be read ({error.strerror})") from error
    if not lines:
        raise ValueError(f"--sentences {name}: has no sentences; give one per line")
    if len(lines) > n_most:
        logger.warning(
            "--max-sentences-shown %d: %d more sentences are left out; raise the limit to draw "
            "them",
            n_most,
            len(lines) - n_most,
        )
    return dict(list(lines.items())[:n_most])


def decode(args: argparse.Namespace, lines: dict[int, str]) -> Iterator[SentenceTrace]:
    """Decode all sentences as in fairseq-interactive, and yield their traces.

    Raises:
        ValueError: for a task or method that cannot be traced.
    """
    cfg = convert_namespace_to_omegaconf(args)
    if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
        cfg.dataset.batch_size = 1
    if str(getattr(cfg.task, "decoding", None)) == "fairseq":
        raise ValueError(
            "--decoding fairseq: fairseq's generator decodes one token a step and cannot be "
            "traced; use --decoding greedy for the same tokens"
        )
    task = tasks.setup_task(cfg.task)
    models = load_models(cfg, task)
    generator = task.build_generator(models, cfg.generation)
    if not isinstance(generator, SingleHypothesisMethod):
        raise ValueError(
            f"--decoding {cfg.task.decoding}: cannot be traced; use greedy, blockwise, lookahead "
            "or one of the Jacobi methods"
        )
    generator.observer = Recorder()
    coders = (task.build_tokenizer(cfg.tokenizer), task.build_bpe(cfg.bpe))
    encode = functools.partial(segmented, coders=coders)
    numbers = list(lines)
    max_positions = max_positions_of(task, models)
    batches = interactive.make_batches(list(lines.values()), cfg, task, max_positions, encode)
    for batch in batches:
        sample = {"net_input": {"src_tokens": batch.src_tokens, "src_lengths": batch.src_lengths}}
        best = best_translations(task, generator, models, on_device(sample, cfg))
        for row, index in enumerate(batch.ids.tolist()):
            source = utils.strip_pad(batch.src_tokens[row], task.source_dictionary.pad())
            trace: SentenceTrace[int] = SentenceTrace(
                numbers[index],
                source.tolist(),
                best[row].tolist(),
                generator.observer.take(row),
                generator.name,
                blocks=generator.results[row].blocks,
            )
            yield trace.named(
                task.source_dictionary.__getitem__,
                task.target_dictionary.__getitem__,
                args.subwords,
            )
