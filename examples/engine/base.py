#!/usr/bin/env python3
"""Compare transformer base with fairseq: several tokens per step, and an ensemble of two.

    python examples/engine/base.py                   # all parts: about ten minutes
    python examples/engine/base.py --parts blocks --rounds 1

The models have random weights and 37,000 types; outputs have 31 tokens, sources 20. In the first
part, models and heads always predict the same word, so that all proposals are accepted and the
table shows the cost of a step with several tokens. All methods of a part take turns, each in one
process with all threads. Run nothing else on the machine.
"""

import itertools
import shlex
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

import torch
from torch import nn

import fairseq_fastdec  # noqa: F401  (registers the architectures)
from examples.common import arguments, commands
from examples.common.random_base import FORCED, save_base, write_sentences
from examples.common.table import markdown
from fairseq_fastdec.translating.command_line import positive

LANGUAGES = ("en", "de")
BLOCK_SIZES = (4, 8)
SEQUENTIAL = {"block_heads": "sequential", "identity_first_head": True}
HEADS = {
    "parallel": {},
    "split": {"block_ffn": "split", "identity_first_head": True},
    "sequential": SEQUENTIAL,
    "low-rank sequential": {**SEQUENTIAL, "block_output_rank": 128},
}
# Sequential heads propose the word independent of their confidence.
WHOLE = {name: "--proposal-confidence 0" * ("sequential" in name) for name in HEADS}
PRECISIONS = {"fp32": "model", "int8": "int8"}
# The only type that the models of the first part predict.
WORD = 50
FAIRSEQ = "fairseq"


class Part(NamedTuple):
    """An experiment.

    Attributes:
        title: the title of its table.
        checkpoints: the ensemble, for methods without their own checkpoint.
        batch_size: the number of sentences per batch.
        sentences: the number of sentences decoded.
        fairseq: options of fairseq's search.
        methods: by name, the options of a method and optionally its own checkpoint.
    """

    title: str
    checkpoints: tuple[str, ...]
    batch_size: int
    sentences: int
    fairseq: str
    methods: dict[str, tuple[str, Optional[str]]]


PARTS = {
    "blocks": Part(
        "One sentence at a time, beside fairseq's --beam 1",
        ("stock",),
        1,
        8,
        "--beam 1",
        {
            "greedy": ("--decoding greedy", None),
            **{
                f"{heads} heads, k = {k}": (f"--decoding blockwise {WHOLE[heads]}", f"{heads}{k}")
                for k in BLOCK_SIZES
                for heads in HEADS
            },
        },
    ),
    "ensemble": Part(
        "An ensemble of two, batches of 8, beside fairseq's --beam 5",
        ("base1", "base2"),
        8,
        16,
        "--beam 5",
        {
            "beam 5": ("--decoding beam --beam 5", None),
            "streaming 5": ("--decoding streaming --beam 5", None),
        },
    ),
}


def main() -> None:
    """Prepare, measure, print."""
    parser = arguments.described(__doc__)
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--workdir", type=Path, default=Path("work/base"))
    parser.add_argument("--threads", type=positive, default=torch.get_num_threads())
    arguments.add_rounds(parser)
    args = parser.parse_args()
    if not commands.finished(args.workdir):
        args.workdir.mkdir(parents=True, exist_ok=True)
        prepare(args.workdir)
        commands.mark_finished(args.workdir)
    tables = []
    for name in args.parts:
        command = benchmark_command(args.workdir, name, args.rounds, args.threads)
        document = commands.run_benchmark(command, args.workdir / name)
        tables.append(table(PARTS[name], document))
    print("\n" + "\n\n".join(tables))


def prepare(work: Path) -> None:
    """Write the test set, two models with different seeds, and models with all kinds of heads."""
    write_sentences(work / "data", LANGUAGES)
    for seed in (1, 2):
        save_base(work / f"base{seed}.pt", LANGUAGES, seed)
    save_base(work / "stock.pt", LANGUAGES, 1, change=say_one_word)
    for k, (heads, options) in itertools.product(BLOCK_SIZES, HEADS.items()):
        save_base(
            work / f"{heads}{k}.pt", LANGUAGES, 1, "blockwise_transformer", say_one_word,
            block_size=k, **options,
        )  # fmt: skip


@torch.no_grad()
def say_one_word(network: nn.Module) -> None:
    """Change a model and its heads to always predict the same type."""
    decoder = network.decoder
    heads = getattr(decoder, "heads", None)
    norms = [decoder.layers[-1].final_layer_norm]
    if hasattr(heads, "output_norm"):
        norms.append(heads.output_norm)
    word = decoder.output_projection.weight[WORD]
    for norm in norms:
        norm.weight.fill_(0.3)
        norm.bias.copy_(9 * word)
    if getattr(heads, "narrow", None) is not None:
        # Keep the word's direction in the projection.
        heads.narrow.weight[0] = heads.widen.weight[:, 0] = word / word.norm()


def benchmark_command(work: Path, name: str, n_rounds: int, n_threads: int) -> list[Any]:
    """``benchmarks.compare`` with all methods of a part."""
    part = PARTS[name]
    source, target = LANGUAGES
    methods = {FAIRSEQ: f"--decoding fairseq {part.fairseq}"}
    for method, (own, checkpoint) in part.methods.items():
        if checkpoint:
            own += f" --path {shlex.quote(paths(work, checkpoint))}"
        for precision, value in PRECISIONS.items():
            methods[f"{method}, {precision}"] = f"{own} --engine-precision {value}"
    options = [
        work / "data", "-s", source, "-t", target, "--path", paths(work, *part.checkpoints),
        *FORCED, "--sentences", part.sentences, "--batch-size", part.batch_size,
        "--rounds", n_rounds, "--threads", n_threads, "--processes", 1,
    ]  # fmt: skip
    return commands.benchmark(options, methods, work / name)


def paths(work: Path, *checkpoints: str) -> str:
    """The value for ``--path``."""
    return ":".join(str(work / f"{name}.pt") for name in checkpoints)


def table(part: Part, document: dict[str, Any]) -> str:
    """A Markdown table from ``benchmark.json``: the relative speed of each method."""
    results = {own["method"]: own for own in document["results"]}
    first = next(iter(part.methods))
    rows = []
    for method in part.methods:
        for precision in PRECISIONS:
            own, greedy = (results[f"{name}, {precision}"] for name in (method, first))
            rows.append({
                "": f"{method}, {precision}",
                "tokens per invocation": f"{own['tokens_per_invocation']:.2f}",
                f"to {FAIRSEQ}": times_as_fast(own["seconds"], results[FAIRSEQ]["seconds"]),
                f"to {first} in that precision": times_as_fast(own["seconds"], greedy["seconds"]),
            })  # fmt: skip
    return markdown(part.title, rows)


def times_as_fast(own: Sequence[float], other: Sequence[float]) -> str:
    """The relative speed, from the seconds of rounds: the median, least and greatest."""
    ratios = sorted(theirs / ours for ours, theirs in zip(own, other))
    return f"{statistics.median(ratios):.2f}x ({ratios[0]:.2f} to {ratios[-1]:.2f})"


if __name__ == "__main__":
    main()
