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

from benchmarks.gpu.measuring import own_generator
from benchmarks.gpu.models import Prepared, of_pairs, random_batches
from benchmarks.gpu.rows import Entrant
from benchmarks.profile_engine.command import random_dictionary, random_model, translation
from examples.common.table import untitled, write_section
from fairseq_fastdec.decoding import constraints
from fairseq_fastdec.decoding.methods import outputs
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
# By the row's name.
METHODS: dict[str, tuple[Entrant, Kind]] = {
    "greedy": (Entrant("greedy"), STOCK),
    "blockwise, 4 parallel heads": (Entrant("blockwise"), PARALLEL),
    "blockwise, 4 sequential heads": (Entrant("blockwise"), SEQUENTIAL),
    "jacobi": (Entrant("jacobi"), STOCK),
    "gs_jacobi": (Entrant("gs_jacobi"), STOCK),
    "lookahead": (Entrant("lookahead"), STOCK),
    "beam, 5": (Entrant("beam", 5), STOCK),
    "variable_beam, 5": (Entrant("variable_beam", 5), STOCK),
    "streaming, 5": (Entrant("streaming", 5), STOCK),
    "double_token, 5": (Entrant("double_token", 5), PAIRS),
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
        write_section(args.page, "launches", text + "\n")


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
    method, kind = METHODS.get(name, (None, STOCK))
    torch.manual_seed(1)
    arch, task_of, options = kind
    dictionary = random_dictionary(N_TYPES)
    model = random_model(arch, task_of(dictionary), **SIZES, **options)
    (batch,) = random_batches(dictionary, N_SENTENCES, LENGTH, N_SENTENCES)
    limits = {"max_len_b": MAX_LEN}
    # What begins a step.
    step: tuple[type, str]
    if method is None:
        generator: Any = SequenceGenerator([model], dictionary, beam_size=FAIRSEQ[name], **limits)
        step = EnsembleModel, "forward_decoder"
    else:
        with mock.patch.object(loading, "library", lambda: None):  # torch decodes
            generator, _ = own_generator(Prepared([model], dictionary, [batch], limits), method)
        step = Ensemble, "step"
    counter = Counter()
    with contextlib.ExitStack() as stack:
        # The methods read as on a GPU, where that waits.
        for module in (constraints, outputs):
            stack.enter_context(mock.patch.object(module, "reading_waits", lambda device: True))
        stack.enter_context(counter.counting(*step))
        generator.generate([model], batch)
    return counter.steps[1 + N_WARM_UP : -1]
