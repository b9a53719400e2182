"""The command line of ``scripts/translate_corpus.py``."""

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Optional

from fairseq import tasks, utils

from ...data.codec import warn_of_subwords
from ...errors import errors_in_one_line
from ...noise import results_only
from ..command_line import in_words, program, to_config
from ..corpus import uses_cuda
from ..distillation.filters import Filters
from .arguments import LEAST_LINES, LINES_OF_A_STREAM, MOST_LINES, check, parse_args
from .chunks import ChunkStore
from .cluster.ray_nodes import start_on_cluster
from .coordinator import Coordinator, InOrder, Part, TextWork, complete
from .directory_lock import locked
from .machine import limit_batches, start_workers
from .manifest import Manifest, settings_of
from .output_lines import TRANSLATED, OutputRules
from .progress_bar import LineBar
from .text_files import STANDARD_STREAM, FileContent, TextInput
from .worker import ChunkTranslator

# How many chunks a text has, unless it is short or long: several for each worker, so that all end
# at nearly the same time.
CHUNKS_WANTED, CHUNKS_WANTED_ON_CLUSTER = 512, 8192


class Terminated(KeyboardInterrupt):
    """SIGTERM came: queues of a cluster send it before they take the machine away."""


@results_only(logging.WARNING)
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command and report errors of its input in one line."""
    args = parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        with errors_in_one_line(program("translate-corpus")), _terminable():
            run(args)
    except KeyboardInterrupt:
        kept = "" if args.output == STANDARD_STREAM else "; the same command goes on from here"
        sys.exit(f"\n{program('translate-corpus')}: interrupted{kept}")


def run(args: argparse.Namespace) -> None:
    """Translate what is missing, then put the output together.

    Raises:
        OSError: for files that cannot be read or written.
        ValueError: for options or data that do not go together.
    """
    check(args)
    cfg = to_config(args)
    rules = OutputRules(
        args.format,
        args.with_source,
        args.on_error,
        Filters.of(args),
    )
    text = TextInput(args.texts)
    utils.import_user_module(cfg.common)
    task = tasks.setup_task(cfg.task)
    warn_of_subwords(cfg, task, args.data)
    if args.output == STANDARD_STREAM:
        to_standard_output(args, cfg, text, rules)
    else:
        to_file(args, cfg, task, text, rules)


def to_standard_output(
    args: argparse.Namespace, cfg: Any, text: TextInput, rules: OutputRules
) -> None:
    """Translate, and write what is done, in order."""
    with tempfile.TemporaryDirectory(prefix="fastdec-") as directory:
        store = ChunkStore(Path(directory))
        output = InOrder(store, sys.stdout.buffer)
        # On Windows nothing tells what has arrived on standard input.
        is_filter = args.texts == [STANDARD_STREAM] and not args.chunk_size and os.name == "posix"
        coordinator = Coordinator(
            TextWork(text, None if is_filter else args.chunk_size or LINES_OF_A_STREAM),
            store,
            _workers(args, cfg, rules, store),
            functools.partial(LineBar, None, not cfg.common.no_progress_bar),
        )
        coordinator.translate(written=output.advance)
    tell(in_words(output.counts, TRANSLATED))


def to_file(
    args: argparse.Namespace, cfg: Any, task: Any, text: TextInput, rules: OutputRules
) -> None:
    """Translate what is missing, and put the output together if all is there."""
    output = Path(args.output)
    directory = output.with_name(f"{output.name}.parts")
    # A link was not made by this command, whether or not there is a file behind it.
    if os.path.lexists(output) and (output.is_symlink() or not directory.exists()):
        raise ValueError(f"--output {output}: exists already; delete it or name another file")
    directory.mkdir(parents=True, exist_ok=True)
    part = Part(args.shard_id, args.num_shards)
    with locked(directory, part.index, part.count):
        manifest = Manifest(directory)
        content = text.content()
        n_lines = number_of_lines(content)
        n_chunks = CHUNKS_WANTED if args.cluster is None else CHUNKS_WANTED_ON_CLUSTER
        chunk_size = args.chunk_size or manifest.chunk_size() or chunk_size_for(n_lines, n_chunks)
        own = _own_settings(args, content, chunk_size)
        manifest.check(settings_of(cfg, task, own))
        if _is_there(output, manifest):
            shutil.rmtree(directory, ignore_errors=True)
            tell(f"{output}: is there already: {in_words(manifest.finished['counts'], TRANSLATED)}")
            return
        store = ChunkStore(directory)
        coordinator = Coordinator(
            TextWork(text, chunk_size),
            store,
            _workers(args, cfg, rules, store),
            functools.partial(LineBar, n_lines, not cfg.common.no_progress_bar),
        )
        if part.count > 1:
            coordinator.translate(part)
            tell("translated; when all processes have ended, run this without --num-shards")
            return
        store.remove_beginnings()
        manifest.finish(complete(coordinator, text, store, output))
        # The manifest goes last: it tells a command that is killed here that the output is whole.
        store.remove_all()
        shutil.rmtree(directory, ignore_errors=True)
        tell(f"{output}: {in_words(manifest.finished['counts'], TRANSLATED)}")


def _is_there(output: Path, manifest: Manifest) -> bool:
    """Whether the output is there as a whole; if somebody removed it, it is made again."""
    if manifest.finished is None:
        return False
    if output.exists() and output.stat().st_size == manifest.finished["size"]:
        return True
    manifest.begin_again()
    return False


def _workers(
    args: argparse.Namespace, cfg: Any, rules: OutputRules, store: ChunkStore
) -> Callable[[], Any]:
    if args.cluster is not None:
        return functools.partial(
            start_on_cluster, args.cluster, cfg, rules, args.workers, args.threads_per_worker, store
        )
    limit_batches(cfg)
    load = functools.partial(ChunkTranslator, cfg, rules)
    return functools.partial(
        start_workers, load, uses_cuda(cfg), args.workers, args.threads_per_worker, store
    )


def number_of_lines(content: Sequence[Optional[FileContent]]) -> Optional[int]:
    """The lines of all files; ``None`` if one of them is compressed, or is read only once."""
    numbers = [None if of_file is None else of_file.lines for of_file in content]
    return None if None in numbers else sum(numbers)


def chunk_size_for(n_lines: Optional[int], n_chunks: int) -> int:
    """The lines to sort and lose together: many for a long text, which then has few files."""
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
    """Say something beside the output, which may be standard output."""
    print(message, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Within, SIGTERM interrupts as Ctrl-C does."""

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
