"""The command line of ``python -m benchmarks.profile_engine``."""

import argparse
import logging
from collections.abc import Sequence
from typing import Any, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import nn

from fairseq_fastdec.processes.errors import errors_in_one_line
from fairseq_fastdec.processes.noise import results_only
from fairseq_fastdec.processes.streams import standard
from fairseq_fastdec.translating.command_line import positive

from .profile import (
    BYTES_OF_WEIGHT,
    PARTS,
    Case,
    Profile,
    memory_bandwidth,
    profile,
)

PROGRAM = "python -m benchmarks.profile_engine"
DESCRIPTION = """\
Measure the parts of a decoder invocation in milliseconds, by batch size and precision.

    python -m benchmarks.profile_engine                               # a random transformer base
    python -m benchmarks.profile_engine --arch transformer_iwslt_de_en --types 10000
    python -m benchmarks.profile_engine --data data-bin/en-de --path checkpoint_best.pt
    python -m benchmarks.profile_engine ... --decoding blockwise --decoding-block-sizes 1,2,4,8

Random sentences are decoded to a fixed length. Parts that took no time in any column are left out,
such as prediction heads in most methods. The row floor is the time for reading the weights once
from memory; it is explained below the table.
"""
# Milliseconds; less is printed as 0.00.
SHOWN = 0.005


@results_only(logging.WARNING)
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in its input are reported in one line."""
    args = parse_args(arguments)
    torch.set_num_threads(args.threads)
    with errors_in_one_line(PROGRAM):
        standard("stdout")
        cases, profiles, bandwidth = run(args)
    print(table(cases, profiles))
    if args.decoding_block_sizes:
        print(
            f"\nto {block(args.decoding_block_sizes[0])}: relative time without the encoder, which "
            "runs once per sentence.\nLarger blocks are faster if the mean number of tokens kept "
            "grows by more than this factor."
        )
    print(
        "\nfloor: the time for reading each weight of a step once from memory, at the "
        f"{bandwidth / 1e9:.1f} GB/s measured\n"
        f"with --threads {args.threads}. A step of one sentence cannot be faster, unless weights "
        "of the previous step are still\n"
        "in the processor's cache, as with small models. In larger batches a step reads the\n"
        "weights once for all sentences, and takes longer to compute than to read."
    )


def parse_args(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    """Parse the command line; lists are separated by commas."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="binarised data of the checkpoint, for its dictionaries")
    parser.add_argument("--path", help="a checkpoint (default: random weights)")
    parser.add_argument("--arch", default="transformer", help="of random weights")
    parser.add_argument(
        "--types", type=positive, default=37000, help="vocabulary size for random weights"
    )
    parser.add_argument("--decoding", default="greedy")
    parser.add_argument("--beam", type=positive, default=1)
    parser.add_argument(
        "--decoding-block-sizes",
        type=numbers,
        metavar="LIST",
        help="for blockwise decoding: feed this many tokens of each sentence in every invocation",
    )
    parser.add_argument("--batch-sizes", type=numbers, default=[1, 32], metavar="LIST")
    parser.add_argument(
        "--precisions",
        type=precisions,
        default=list(BYTES_OF_WEIGHT),
        metavar="LIST",
    )
    parser.add_argument("--source-length", type=positive, default=20, help="tokens, with EOS")
    parser.add_argument("--target-length", type=positive, default=30, help="tokens, with EOS")
    parser.add_argument(
        "--repeats",
        type=positive,
        default=5,
        help="repetitions, of which the fastest counts (default: 5)",
    )
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    args = parser.parse_args(arguments)
    if (args.path is None) != (args.data is None):
        parser.error("give both --path and --data, or neither")
    if args.path is None and args.arch not in ARCH_MODEL_REGISTRY:
        parser.error(f"--arch {args.arch}: unknown")
    return args


def numbers(text: str) -> list[int]:
    """Parse whole numbers of at least 1, separated by commas."""
    return [positive(number) for number in text.split(",")]


def precisions(text: str) -> list[str]:
    """Parse names of precisions, separated by commas."""
    names = text.split(",")
    for name in names:
        if name not in BYTES_OF_WEIGHT:
            raise argparse.ArgumentTypeError(f"{name}: choose from {', '.join(BYTES_OF_WEIGHT)}")
    return names


def run(args: argparse.Namespace) -> tuple[list[Case], list[Profile], float]:
    """Profile all cases.

    Raises:
        ValueError, OSError: for a checkpoint or a case that is not possible.
    """
    if args.path:
        model, dictionary = load(args)
    else:
        dictionary = random_dictionary(args.types)
        model = random_model(args.arch, translation(dictionary))
    bandwidth = memory_bandwidth()
    cases = [
        Case(
            args.decoding,
            args.beam,
            precision,
            batch_size,
            args.source_length,
            args.target_length,
            block_size,
        )
        for batch_size in args.batch_sizes
        for precision in args.precisions
        for block_size in args.decoding_block_sizes or [None]
    ]
    profiles = [profile(model, dictionary, case, bandwidth, args.repeats) for case in cases]
    return cases, profiles, bandwidth


def load(args: argparse.Namespace) -> tuple[nn.Module, Dictionary]:
    """Load a checkpoint's model and target dictionary."""
    models, _, task = checkpoint_utils.load_model_ensemble_and_task(
        [args.path], arg_overrides={"data": args.data}
    )
    return models[0].eval(), task.target_dictionary


def translation(dictionary: Dictionary) -> TranslationTask:
    """fairseq's task, without data."""
    return TranslationTask(TranslationConfig(), dictionary, dictionary)


def random_dictionary(n_types: int) -> Dictionary:
    """A dictionary of ``n_types`` types, the special ones included."""
    dictionary = Dictionary()
    for index in range(n_types - dictionary.nspecial):
        dictionary.add_symbol(f"w{index}")
    return dictionary


def random_model(arch: str, task: FairseqTask, **given: Any) -> nn.Module:
    """A randomly initialised model with shared embeddings and the given options."""
    args = arguments_of(arch, share_all_embeddings=True, **given)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task).eval()


def arguments_of(arch: str, **given: Any) -> Any:
    """The options of an architecture as in fairseq-train, with the given ones."""
    parser = argparse.ArgumentParser(allow_abbrev=False, argument_default=argparse.SUPPRESS)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    args, _ = parser.parse_known_args([])
    vars(args).update(given, arch=arch)
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


def table(cases: list[Case], profiles: list[Profile]) -> str:
    """A Markdown table with parts as rows and cases as columns, without parts that took no time."""
    titles = [title(case) for case in cases]
    lines = ["| ms a step | " + " | ".join(titles) + " |", "|---" * (len(cases) + 1) + "|"]
    rows = [(part, [times.parts[part] for times in profiles]) for part in PARTS]
    rows = [(part, row) for part, row in rows if any(x >= SHOWN for x in row)]
    rows += [
        ("total", [times.total for times in profiles]),
        ("floor", [times.floor for times in profiles]),
    ]
    first = cases[0].block_size
    if first is not None:
        rows.append((f"to {block(first)}", to_first_blocks(cases, profiles)))
    lines += [f"| {name} | " + " | ".join(f"{x:.2f}" for x in row) + " |" for name, row in rows]
    return "\n".join(lines)


def title(case: Case) -> str:
    """The column title of a case."""
    blocks = [] if case.block_size is None else [block(case.block_size)]
    return ", ".join([f"batch {case.batch_size}", case.precision, *blocks])


def block(size: int) -> str:
    """The label of a block size."""
    return f"blocks of {size}"


def to_first_blocks(cases: list[Case], profiles: list[Profile]) -> list[float]:
    """The time per invocation of each case, relative to blocks of the first size."""
    first = {
        (case.batch_size, case.precision): times.without_encoder
        for case, times in zip(cases, profiles)
        if case.block_size == cases[0].block_size
    }
    return [
        times.without_encoder / first[case.batch_size, case.precision]
        for case, times in zip(cases, profiles)
    ]
