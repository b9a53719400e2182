"""The command line of ``scripts/distill.py``."""

import argparse
import functools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from fairseq import options

from ...errors import errors_in_one_line
from ...help import as_ours
from ...noise import results_only
from ..command_line import (
    check_one_directory,
    check_places,
    check_shard,
    positive,
    program,
    to_config,
)
from ..corpus import Corpus, uses_cuda
from ..kept_settings import check_settings
from ..translation.coordinator import Coordinator
from ..translation.machine import limit_batches, start_workers
from ..translation.progress_bar import LineBar
from .dataset import build, show
from .filters import Filters, add_filter_options
from .shards import Shard, Shards
from .teacher import Teacher, settings_of

DESCRIPTION = """\
Sequence-level knowledge distillation: training data with a teacher's translations for targets.

    python scripts/distill.py data-bin/en-de --path teacher.pt --destdir distilled

translates the training data of data-bin/en-de (--gen-subset takes another split) and makes
distilled/data, which fairseq-train takes like the original: the same dictionaries, validation and
test data. The teacher can be an ensemble (--path a.pt:b.pt). All options of fairseq-generate work;
the default is --decoding streaming with --beam 5.

Translations are kept shard by shard. However the command was ended, the same command goes on with
the first shard that is missing. Several processes share the work with --num-shards N --shard-id I,
I from 0 on; when all have ended, the command without these puts the data together.
"""
TRANSLATION = ("translation", "translation_fastdec")


@results_only()
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command and report errors of its input in one line."""
    args = parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        with errors_in_one_line(program("distill")):
            run(args)
    except KeyboardInterrupt:
        sys.exit(f"\n{program('distill')}: interrupted; the same command goes on from here")


def parse_args(arguments: Sequence[str]) -> argparse.Namespace:
    """fairseq-generate's command line and our own options."""
    parser = options.get_generation_parser()
    parser.prog = program("distill")
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    group = as_ours(parser.add_argument_group("distillation"))
    group.add_argument(
        "--destdir", type=Path, required=True, metavar="DIR",
        help="DIR/data becomes the distilled data, DIR/shards keeps the translations",
    )  # fmt: skip
    group.add_argument(
        "--shard-size", type=positive, default=8192, metavar="N",
        help="sentences that are lost at most when the command is interrupted (default: 8192)",
    )  # fmt: skip
    add_filter_options(group, "sentences")
    group.add_argument(
        "--workers", type=positive, metavar="N",
        help="processes that translate (default: one for each GPU, or as many as the cores allow), "
        "and then of fairseq-preprocess (default: 1)",
    )  # fmt: skip
    group.add_argument(
        "--threads-per-worker", type=positive, default=1, metavar="N",
        help="threads of each process that translates (default: 1)",
    )  # fmt: skip
    of_task = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    of_task.add_argument("--task", default=TRANSLATION[0])
    task = of_task.parse_known_args(arguments)[0].task
    defaults = {"gen_subset": "train", **({"decoding": "streaming"} if task in TRANSLATION else {})}
    return options.parse_args_and_arch(
        parser,
        list(arguments),
        modify_parser=lambda parser: parser.set_defaults(**defaults),
    )


def run(args: argparse.Namespace) -> None:
    """Translate what is missing, then make the data.

    Raises:
        OSError: for files that cannot be read or written.
        ValueError: for options or data that do not go together.
    """
    check(args)
    cfg = to_config(args)
    limit_batches(cfg)
    corpus = Corpus(cfg)
    shards = Shards(args.destdir / "shards", len(corpus), args.shard_size)
    settings = settings_of(cfg, len(corpus), args.shard_size)
    check_settings(args.destdir / "settings.json", settings, "--destdir")
    translate(args, cfg, corpus, shards)
    if args.num_shards > 1:
        print("translated; when all processes have ended, run this without --num-shards")
        return
    counts = build(
        args.destdir / "data",
        Path(args.data),
        corpus,
        shards.read(),
        Filters.of(args),
        args.workers or 1,
    )
    print(f"distilled pairs: {show(counts)}\n{args.destdir / 'data'}")


def check(args: argparse.Namespace) -> None:
    """Find mistakes in the command line.

    Raises:
        ValueError: it names the flag.
    """
    as_in_data = "remove it: text stays tokenised as in the data"
    check_places(
        args,
        {
            "--results-path": (args.results_path is not None, "use --destdir"),
            "--post-process": (args.post_process is not None, as_in_data),
            "--tokenizer": (args.tokenizer is not None, as_in_data),
            "--bpe": (args.bpe is not None, as_in_data),
        },
    )
    if args.path is None:
        raise ValueError("--path: name the teacher, or an ensemble of several with colons between")
    check_one_directory(args.data, "distil one at a time")
    check_shard(args)


class Missing(NamedTuple):
    """Shards to be translated, as :class:`~..translation.coordinator.Work`."""

    shards: list[Shard]

    def chunks(self) -> Iterator[Shard]:
        """See :class:`~..translation.coordinator.Work`."""
        return iter(self.shards)

    def share_read(self) -> Optional[float]:
        """See :class:`~..translation.coordinator.Work`."""
        return None

    def place(self, number: int) -> str:
        """See :class:`~..translation.coordinator.Work`."""
        return f"sentence {number + 1}"


def translate(args: argparse.Namespace, cfg: Any, corpus: Corpus, shards: Shards) -> None:
    """Translate the shards that are missing or damaged, or this process's part of them.

    Raises:
        OSError: if a checkpoint cannot be read, or a shard not be written.
        RuntimeError: for a mistake in the program.
        ValueError: for models and options that do not go together, or workers that die again and
            again.
    """
    n_processes, process = cfg.dataset.num_shards, cfg.dataset.shard_id
    for number in range(process, len(shards.sentences), n_processes):
        if shards.path(number).exists() and shards.is_damaged(number):
            print(f"{shards.path(number)}: damaged; it is translated again", flush=True)
            shards.remove(number)
    missing = [
        Shard(number, shards.sentences[number])
        for number in shards.missing()
        if number % n_processes == process
    ]
    if not missing:
        return
    total = sum(shard.n_lines for shard in missing)
    print(f"{total} of {len(corpus)} sentences are to be translated", flush=True)
    # Workers that are forked have the corpus of this process; those of GPUs load their own.
    load = functools.partial(Teacher, cfg, None if uses_cuda(cfg) else corpus)
    coordinator = Coordinator(
        Missing(missing),
        shards,
        functools.partial(
            start_workers, load, uses_cuda(cfg), args.workers, args.threads_per_worker, shards
        ),
        functools.partial(LineBar, total, not cfg.common.no_progress_bar),
    )
    coordinator.translate()
