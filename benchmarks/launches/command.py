"""The command: counts for each method, as a table."""

import argparse
import contextlib
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any
from unittest import mock

import torch
from fairseq.data import Dictionary
from fairseq.sequence_generator import EnsembleModel, SequenceGenerator

from benchmarks.gpu.models import of_pairs
from benchmarks.profile_engine.command import random_model, translation
from examples.common.random_models import random_sentences
from examples.common.table import between_marks, untitled
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.decoding import build_generator, constraints
from fairseq_fastdec.decoding.methods import outputs
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.network import Ensemble

from .counting import Counter, Counts

PROGRAM = "python -m benchmarks.launches"
# The layers of transformer base. Counts do not depend on other sizes.
SIZES = {
    "encoder_layers": 6, "decoder_layers": 6, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 16,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip
N_TYPES, N_SENTENCES, LENGTH, MAX_LEN = 64, 32, 12, 16
# The first steps differ.
N_WARM_UP = 3
# An architecture, its task, and options.
Kind = tuple[str, Callable[[Dictionary], Any], dict[str, Any]]
STOCK: Kind = ("transformer", translation, {})
PARALLEL: Kind = ("blockwise_transformer", translation, {"block_size": 4})
SEQUENTIAL: Kind = (
    "blockwise_transformer",
    translation,
    {"block_size": 4, "block_heads": "sequential", "identity_first_head": True},
)
PAIRS: Kind = ("double_token_transformer", of_pairs, {})
# By the row's name: --decoding, --beam, and the model.
METHODS: dict[str, tuple[str, int, Kind]] = {
    "greedy": ("greedy", 1, STOCK),
    "blockwise, 4 parallel heads": ("blockwise", 1, PARALLEL),
    "blockwise, 4 sequential heads": ("blockwise", 1, SEQUENTIAL),
    "jacobi": ("jacobi", 1, STOCK),
    "gs_jacobi": ("gs_jacobi", 1, STOCK),
    "lookahead": ("lookahead", 1, STOCK),
    "beam, 5": ("beam", 5, STOCK),
    "variable_beam, 5": ("variable_beam", 5, STOCK),
    "streaming, 5": ("streaming", 5, STOCK),
    "double_token, 5": ("double_token", 5, PAIRS),
}
FAIRSEQ = {"fairseq, beam 1": 1, "fairseq, beam 5": 5}


def main() -> None:
    """Print the table, and write it to a page."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Count the operators, reads and allocations of a step, as on a GPU.",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table to its section")
    args = parser.parse_args()
    text = table({name: counts_of(name) for name in (*FAIRSEQ, *METHODS)})
    print(text)
    if args.page is not None:
        page = args.page.read_text(encoding="utf-8")
        atomic_files.write_text(args.page, between_marks(page, "launches", text + "\n"))


def table(counts: dict[str, list[Counts]]) -> str:
    """The means of the steps of each method."""
    return untitled([
        {
            "method": name,
            "operators": f"{mean(step.operators for step in steps):.0f}",
            "reads": f"{mean(step.reads for step in steps):.1f}",
            "new tensors": f"{mean(step.tensors for step in steps):.0f}",
        }
        for name, steps in counts.items()
    ])  # fmt: skip


def counts_of(name: str) -> list[Counts]:
    """The counts of each step of a row, without the first and the last ones."""
    run, owner, method = (fairseqs_run if name in FAIRSEQ else own_run)(name)
    counter = Counter()
    # The methods read as on a GPU, where that waits, and need no compiled code.
    with contextlib.ExitStack() as stack:
        for module in (constraints, outputs):
            stack.enter_context(mock.patch.object(module, "reading_waits", lambda device: True))
        stack.enter_context(counter.counting(owner, method))
        run()
    return counter.steps[1 + N_WARM_UP : -1]


def fairseqs_run(name: str) -> tuple[Callable[[], Any], Any, str]:
    """A function that decodes with fairseq's search, and the method that begins a step."""
    model, dictionary = network_of(STOCK)
    beam = FAIRSEQ[name]
    generator = SequenceGenerator([model], dictionary, beam_size=beam, max_len_b=MAX_LEN)
    run = lambda: generator.generate([model], batch_of(dictionary))  # noqa: E731
    return run, EnsembleModel, "forward_decoder"


def own_run(name: str) -> tuple[Callable[[], Any], Any, str]:
    """A function that decodes with a method in torch, and the method that begins a step."""
    decoding, beam, kind = METHODS[name]
    model, dictionary = network_of(kind)
    given = argparse.Namespace(beam=beam, max_len_b=MAX_LEN)
    options = DecodingOptions(decoding=decoding)
    options.check()
    with mock.patch.object(loading, "library", lambda: None):
        generator = build_generator([model], dictionary, given, options)
    run = lambda: generator.generate([model], batch_of(dictionary))  # noqa: E731
    return run, Ensemble, "step"


def network_of(kind: Kind) -> tuple[Any, Dictionary]:
    """A model with random weights, and its dictionary."""
    torch.manual_seed(1)
    arch, task_of, options = kind
    return random_model(arch, N_TYPES, task_of, **SIZES, **options)


def batch_of(dictionary: Dictionary) -> dict[str, Any]:
    """A batch of random sentences."""
    torch.manual_seed(2)
    tokens = random_sentences(dictionary, N_SENTENCES, LENGTH).long()
    lengths = torch.full((N_SENTENCES,), LENGTH)
    return {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
