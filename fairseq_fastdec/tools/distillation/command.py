"""The command line of ``distill``."""

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq import options

from ...corpora.chunks import ChunkStore
from ...corpora.coordinator import Coordinator
from ...corpora.filters import Filters, add_filter_options
from ...corpora.pool import places, start_workers
from ...corpora.progress_bar import LineBar
from ...data.kept_settings import check_settings
from ...data.text import check_keeps
from ...fairseq_patches.help import as_ours
from ...processes.errors import INTERRUPTED, end_with, errors_in_one_line
from ...processes.noise import results_only
from ...translating.command_line import (
    add_worker_options,
    check_files,
    check_one_directory,
    check_places,
    check_shard,
    described,
    in_words,
    is_translation,
    path_of,
    positive,
    program,
)
from ..corpus import Corpus, check_options, to_config, uses_cuda
from .dataset import KEPT, build
from .settings import limit_batches, settings_of
from .shards import shards_of, translations_in
from .teacher import Teacher

DESCRIPTION = """\
Sequence-level knowledge distillation: create training data with a teacher's translations.

    python -m fairseq_fastdec distill data-bin/en-de --path teacher.pt --destdir distilled

translates the training data of data-bin/en-de (or another split with --gen-subset) and creates
distilled/data for fairseq-train, with the same dictionaries, validation and test data. The teacher
can be an ensemble (--path a.pt:b.pt). All options of fairseq-generate are available; the default is
--decoding streaming with --beam 5.

Translations are stored shard by shard. If the command is interrupted, the same command continues
with the first missing shard. Several processes share the work with --num-shards N --shard-id I, I
from 0; when all have ended, run the command without these options to create the data.
"""


@results_only()
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in its input are reported in one line."""
    args = parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        with errors_in_one_line(program("distill")):
            run(args)
    except KeyboardInterrupt:
        again = "run the same command again to continue"
        end_with(f"{program('distill')}: interrupted; {again}", INTERRUPTED)


def parse_args(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options of fairseq-generate and of this command."""
    parser = described(options.get_generation_parser(), "distill", DESCRIPTION)
    group = as_ours(parser.add_argument_group("distillation"))
    group.add_argument(
        "--destdir", type=path_of, required=True, metavar="DIR",
        help="DIR/data is the distilled data, DIR/shards the translations",
    )  # fmt: skip
    group.add_argument(
        "--shard-size", type=positive, default=8192, metavar="N",
        help="sentences per shard, the most that are lost if the command is interrupted (default: "
             "8192)",
    )  # fmt: skip
    add_filter_options(group, "sentences")
    add_worker_options(group, ", and for fairseq-preprocess (default: 1)")
    defaults = {"gen_subset": "train"}
    if is_translation(arguments):
        defaults["decoding"] = "streaming"
    return options.parse_args_and_arch(
        parser,
        list(arguments),
        modify_parser=lambda parser: parser.set_defaults(**defaults),
    )


def run(args: argparse.Namespace) -> None:
    """Translate the missing shards, then create the data.

    Raises:
        OSError: for files that cannot be read or written.
        ValueError: for incompatible options or data.
    """
    check(args)
    cfg = to_config(args)
    limit_batches(cfg)
    corpus = Corpus(cfg)
    check_options(cfg, corpus.task)
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
    """Check the command line.

    Raises:
        ValueError: for an invalid option; it names the flag.
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
        raise ValueError("--path: give the teacher, or an ensemble of several separated by colons")
    check_one_directory(args.data, "distil one at a time")
    check_shard(args)
    check_files(args)
    check_keeps("--destdir", args.destdir / "data", [args.data, *args.path.split(os.pathsep)])


def translate(args: argparse.Namespace, cfg: Any, corpus: Corpus, store: ChunkStore) -> int:
    """Translate the shards that are missing or damaged, or this process's part of them.

    Returns:
        the number of all shards

    Raises:
        OSError: if a checkpoint cannot be read, or a shard cannot be written.
        RuntimeError: for a bug.
        ValueError: for incompatible models and options, or workers that die repeatedly.
    """
    # Forked workers share the corpus of this process; workers on GPUs load it themselves.
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
