"""The command line of ``scripts/distill.py``."""

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq import options

from ...errors import errors_in_one_line
from ...help import as_ours
from ...noise import results_only
from ..command_line import (
    check_one_directory,
    check_places,
    check_shard,
    in_words,
    is_translation,
    positive,
    program,
    to_config,
)
from ..corpus import Corpus, uses_cuda
from ..kept_settings import check_settings
from ..translation.checkpoint import limit_batches, settings_of
from ..translation.chunks import ChunkStore
from ..translation.coordinator import Coordinator
from ..translation.pool import places, start_workers
from ..translation.progress_bar import LineBar
from .dataset import KEPT, build
from .filters import Filters, add_filter_options
from .shards import shards_of, translations_in
from .teacher import Teacher

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
    defaults = {"gen_subset": "train"}
    if is_translation(arguments):
        defaults["decoding"] = "streaming"
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
    store = ChunkStore(args.destdir / "shards")
    store.directory.mkdir(parents=True, exist_ok=True)
    settings = {
        **settings_of(cfg, corpus.task),
        "task.data": os.path.abspath(cfg.task.data),
        "gen_subset": cfg.dataset.gen_subset,
        "skip_invalid_size_inputs": cfg.dataset.skip_invalid_size_inputs_valid_test,
        "sentences": len(corpus),
        "shard_size": args.shard_size,
    }
    check_settings(args.destdir / "settings.json", settings, "--destdir")
    n_shards = translate(args, cfg, corpus, store)
    if args.num_shards > 1:
        print("translated; when all processes have ended, run this without --num-shards")
        return
    counts = build(
        args.destdir / "data",
        Path(args.data),
        corpus,
        translations_in(store, n_shards),
        Filters.of(args),
        args.workers or 1,
    )
    print(f"distilled pairs: {in_words(counts, KEPT)}\n{args.destdir / 'data'}")


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


def translate(args: argparse.Namespace, cfg: Any, corpus: Corpus, store: ChunkStore) -> int:
    """Translate the shards that are missing or damaged, or this process's part of them.

    Returns:
        the number of all shards

    Raises:
        OSError: if a checkpoint cannot be read, or a shard not be written.
        RuntimeError: for a mistake in the program.
        ValueError: for models and options that do not go together, or workers that die again and
            again.
    """
    # Workers that are forked have the corpus of this process; those of GPUs load their own.
    n_gpus = torch.cuda.device_count() if uses_cuda(cfg) else 0
    load = functools.partial(Teacher, cfg, None if n_gpus else corpus)
    own_places = places(args.workers, args.threads_per_worker, n_gpus)
    coordinator = Coordinator(
        functools.partial(shards_of, len(corpus), args.shard_size),
        store,
        functools.partial(start_workers, load, own_places, store),
        functools.partial(LineBar, len(corpus), not cfg.common.no_progress_bar),
    )
    return coordinator.translate(args.shard_id, args.num_shards)
