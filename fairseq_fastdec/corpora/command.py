"""The command ``translate``."""

import argparse
import contextlib
import functools
import logging
import math
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

from ..data.text import check_is_not_read
from ..processes.errors import INTERRUPTED, end_with, errors_in_one_line
from ..processes.noise import results_only
from ..processes.streams import standard
from ..translating.command_line import OWN_OPTIONS, in_words, program
from .arguments import (
    LEAST_LINES,
    LINES_OF_A_STREAM,
    MOST_LINES,
    check,
    parse_args,
)
from .chunks import ChunkStore, chunks_of
from .coordinator import Coordinator, InOrder
from .directory_lock import locked
from .filters import Filters
from .manifest import Manifest
from .model import CorpusModel, LineTranslator
from .output_lines import TRANSLATED, OutputRules, UntranslatedLine
from .pool import ChunkPool, forks, places, start_workers
from .progress_bar import LineBar
from .ray_pool import start_on_cluster
from .text_files import STANDARD_STREAM, FileContent, TextInput
from .worker import Load, Progress

# The number of chunks, unless the text is short or long: several per worker, so that all finish at
# nearly the same time.
CHUNKS_WANTED, CHUNKS_WANTED_ON_CLUSTER = 512, 8192


class Terminated(KeyboardInterrupt):
    """Raised on SIGTERM, which job queues of clusters send before they reclaim a machine."""


@results_only(logging.WARNING)
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in its input are reported in one line."""
    name = program("translate")
    kept = ""
    try:
        with errors_in_one_line(name, spelling=OWN_OPTIONS), _terminable():
            args = parse_args(sys.argv[1:] if arguments is None else arguments)
            args.input = args.input or [STANDARD_STREAM]
            if args.output != STANDARD_STREAM:
                kept = "; run the same command again to continue"
            run(args)
    except Terminated:
        end_with(f"{name}: interrupted{kept}", 128 + signal.SIGTERM)
    except KeyboardInterrupt:
        end_with(f"{name}: interrupted{kept}", INTERRUPTED)


def run(args: argparse.Namespace) -> None:
    """Translate missing chunks, then write the output.

    Raises:
        OSError: for files that cannot be read or written.
        ValueError: for incompatible options or data.
    """
    check(args)
    filters = Filters.of(args)
    rules = OutputRules(args.format, args.with_source, args.on_error, filters)
    text = TextInput(args.input)
    try:
        if args.output == STANDARD_STREAM:
            to_standard_output(args, text, rules)
        else:
            to_file(args, text, rules)
    except UntranslatedLine as error:
        raise ValueError(f"{text.place(error.number)}: {error}") from error


def to_standard_output(args: argparse.Namespace, text: TextInput, rules: OutputRules) -> None:
    """Translate, and write translations in order as they finish."""
    translator = args.model.translator(rules, None)
    with tempfile.TemporaryDirectory(prefix="fastdec-") as directory:
        store = ChunkStore(Path(directory))
        output = InOrder(store, standard("stdout").buffer)
        is_filter = args.input == [STANDARD_STREAM] and not args.chunk_size
        chunk_size = None if is_filter else args.chunk_size or LINES_OF_A_STREAM
        coordinator = _coordinator(args, text, translator, rules, store, chunk_size, None)
        coordinator.translate(written=output.advance)
    tell(in_words(output.counts, TRANSLATED))


def to_file(args: argparse.Namespace, text: TextInput, rules: OutputRules) -> None:
    """Translate missing chunks, and write the output when it is complete."""
    output = Path(args.output)
    directory = output.with_name(f"{output.name}.parts")
    check_is_not_read("--output", output, _files_of(args))
    if output.exists() and not output.is_file():
        raise ValueError(
            f"--output {output}: is not a file; name another one, or give --output - and redirect "
            "standard output"
        )
    # This command never creates links, so a link is not its output.
    if os.path.lexists(output) and (output.is_symlink() or not directory.exists()):
        raise ValueError(f"--output {output}: exists already; delete it or name another file")
    # Loaded before anything is written; forked workers share it.
    translator = args.model.translator(rules, None)
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory, args.shard_id, args.num_shards):
        manifest = Manifest(directory)
        content = text.content()
        n_lines = number_of_lines(content)
        n_chunks = CHUNKS_WANTED if args.cluster is None else CHUNKS_WANTED_ON_CLUSTER
        chunk_size = args.chunk_size or manifest.chunk_size or chunk_size_for(n_lines, n_chunks)
        manifest.check({**args.model.settings(), **_own_settings(args, content, chunk_size)})
        if manifest.finished is not None:
            if output.exists() and output.stat().st_size == manifest.finished["size"]:
                counts = in_words(manifest.finished["counts"], TRANSLATED)
                shutil.rmtree(directory, ignore_errors=True)
                tell(f"{output}: already exists: {counts}")
                return
            # The output was removed and is created again.
            manifest.finish(None)
        store = ChunkStore(directory)
        coordinator = _coordinator(args, text, translator, rules, store, chunk_size, n_lines)
        if args.num_shards > 1:
            coordinator.translate(args.shard_id, args.num_shards)
            tell("translated; when all processes have ended, run this without --num-shards")
            return
        store.remove_beginnings()
        result = coordinator.complete(output, text.can_be_read_again)
        manifest.finish(result)
        # The manifest is removed last: if the command is killed here, it still records that the
        # output is complete.
        store.remove_all()
        shutil.rmtree(directory, ignore_errors=True)
        tell(f"{output}: {in_words(result['counts'], TRANSLATED)}")


def _files_of(args: argparse.Namespace) -> Iterator[str]:
    """The values of options that can be the names of files."""
    for name, value in vars(args).items():
        if name == "input":
            yield from value
        elif isinstance(value, CorpusModel):
            yield from value.inputs()
        elif isinstance(value, str) and name != "output":
            yield from (value, *value.split(os.pathsep))


def _coordinator(
    args: argparse.Namespace,
    text: TextInput,
    translator: LineTranslator,
    rules: OutputRules,
    store: ChunkStore,
    chunk_size: Optional[int],
    n_lines: Optional[int],
) -> Coordinator:
    workers, model = (args.workers, args.threads_per_worker), args.model
    # The length of a stream is not known.
    share_read = text.share_read if chunk_size is not None else lambda: None

    def start_pool(progress: Progress) -> ChunkPool:
        if args.cluster is not None:
            return start_on_cluster(args.cluster, model, rules, *workers, progress)
        load: Load = functools.partial(model.translator, rules)
        own_places = places(*workers, model.n_gpus())
        if forks(own_places):
            load = functools.partial(lambda own, _: own, translator)
        return start_workers(load, own_places, store, progress)

    return Coordinator(
        functools.partial(chunks_of, text, chunk_size),
        store,
        start_pool,
        functools.partial(LineBar, n_lines, not args.no_progress_bar, share_read),
    )


def number_of_lines(content: Sequence[Optional[FileContent]]) -> Optional[int]:
    """The number of lines of all files; ``None`` if one of them is compressed or a stream."""
    numbers = [None if of_file is None else of_file.lines for of_file in content]
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def chunk_size_for(n_lines: Optional[int], n_chunks: int) -> int:
    """The number of lines per chunk, larger for longer text to limit the number of files."""
    if n_lines is None:
        return LINES_OF_A_STREAM
    return min(max(math.ceil(n_lines / n_chunks), LEAST_LINES), MOST_LINES)


def _own_settings(
    args: argparse.Namespace, content: Sequence[Optional[FileContent]], chunk_size: int
) -> dict[str, Any]:
    return {
        "input": [None if of_file is None else of_file[:2] for of_file in content],
        "chunk_size": chunk_size,
        "format": args.format,
        "with_source": args.with_source,
        "on_error": args.on_error,
        "drop_empty": args.drop_empty,
        "drop_longer": [args.drop_longer_a, args.drop_longer_b],
    }


def tell(message: str) -> None:
    """Print a message to standard error: standard output may have the translations."""
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """In this context, SIGTERM interrupts like Ctrl-C."""

    def stop(*_: Any) -> None:
        raise Terminated

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
