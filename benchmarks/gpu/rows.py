"""The rows: what is measured, the most important first, and how long a row may take."""

import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from examples.common.random_base import SOURCE_LENGTH, TARGET_LENGTH, TYPES

# The kinds of models with random weights.
HEADS, ONE_WORD, PAIRS = "heads", "one word", "pairs"
# The bundled model, which translates real text.
BUNDLED = "bundled"


class Entrant(NamedTuple):
    """A method.

    Attributes:
        beam: of both searches.
        kind: of the model with random weights: with prediction heads, with heads and a single word
            as all outputs, or of two tokens per step.
    """

    decoding: str
    beam: int = 1
    kind: str = HEADS


METHODS = {
    "greedy": Entrant("greedy"),
    "blockwise": Entrant("blockwise"),
    "blockwise, all accepted": Entrant("blockwise", kind=ONE_WORD),
    "beam 5": Entrant("beam", 5),
    "streaming 5": Entrant("streaming", 5),
    "variable_beam 5": Entrant("variable_beam", 5),
    "jacobi": Entrant("jacobi"),
    "jacobi, all accepted": Entrant("jacobi", kind=ONE_WORD),
    "gs_jacobi": Entrant("gs_jacobi"),
    "double_token 5": Entrant("double_token", 5, PAIRS),
    "beam 50": Entrant("beam", 50),
    "streaming 50": Entrant("streaming", 50),
    "variable_beam 50": Entrant("variable_beam", 50),
}
WIDE = tuple(name for name, method in METHODS.items() if method.beam == 50)
NARROW = tuple(name for name in METHODS if name not in WIDE)
MAIN = NARROW[:5]
OF_ENSEMBLES = ("greedy", *(name for name, own in METHODS.items() if own.beam > 1))
PRECISIONS = ("fp16", "fp32", "bf16")


class Size(NamedTuple):
    """A model with random weights.

    Attributes:
        millions: of parameters of one member, for estimates.
        options: of the architecture.
    """

    n_members: int
    n_types: int
    millions: float
    options: Mapping[str, Any]


def shape(dim: int, encoder_ffn: int, decoder_ffn: int, layers: int, heads: int) -> dict[str, int]:
    """The options of a transformer."""
    return dict(
        encoder_embed_dim=dim, decoder_embed_dim=dim, encoder_layers=layers, decoder_layers=layers,
        encoder_ffn_embed_dim=encoder_ffn, decoder_ffn_embed_dim=decoder_ffn,
        encoder_attention_heads=heads, decoder_attention_heads=heads,
    )  # fmt: skip


class Scale(NamedTuple):
    """The sizes of models, texts and measurements.

    Attributes:
        sizes: models with random weights, by name.
        sentences: random ones, by batch size.
        text: sentences of the test set for the bundled model, by batch size.
        text_limits: of its outputs, by fairseq's names.
        source_length, target_length: tokens of random sentences with EOS, and of their outputs.
        rounds: the least and the greatest number.
        seconds: of a row, if these numbers allow it.
    """

    sizes: Mapping[str, Size]
    sentences: Mapping[int, int]
    text: Mapping[int, int]
    text_limits: Mapping[str, int]
    source_length: int
    target_length: int
    rounds: tuple[int, int]
    seconds: float


FULL = Scale(
    sizes={
        "base": Size(1, TYPES, 61, shape(512, 2048, 2048, 6, 8)),
        "big": Size(1, TYPES, 214, shape(1024, 4096, 4096, 6, 16)),
        # WMT 2019's.
        "ensemble": Size(5, 42024, 270, shape(1024, 8192, 4096, 6, 16)),
    },
    sentences={1: 1, 32: 32, 256: 256},
    text={1: 8, 32: 64, 256: 512},
    text_limits={"max_len_a": 2, "max_len_b": 10},
    source_length=SOURCE_LENGTH,
    target_length=TARGET_LENGTH,
    rounds=(3, 9),
    seconds=3.0,
)
BUNDLED_SIZE = Size(1, 4120, 5, {})
# Of a step of one model: the time of its kernels' launches, and of the products of a row by million
# parameters. Rows that have been measured correct it.
SECONDS_OF_LAUNCHES, SECONDS_OF_PRODUCTS = 0.01, 2e-7
TINY_SIZE = Size(1, 64, 0.01, shape(16, 16, 16, 1, 2))
# For trying the command on a CPU.
TINY = Scale(
    sizes={"base": TINY_SIZE, "big": TINY_SIZE, "ensemble": TINY_SIZE._replace(n_members=2)},
    sentences={1: 1, 2: 2},
    text={1: 1, 2: 2},
    text_limits={"max_len_a": 0, "max_len_b": 3},
    source_length=3,
    target_length=4,
    rounds=(2, 2),
    seconds=0.0,
)


class Row(NamedTuple):
    """A method beside fairseq's search with the same beam size, on one model."""

    model: str
    precision: str
    batch: int
    method: str

    @property
    def name(self) -> str:
        """The name of the row in messages and in the JSON file."""
        return f"{self.model}, {self.precision}, batch {self.batch}: {self.method}"


def plan(scale: Scale) -> list[Row]:
    """All rows, the most important ones first."""
    single, middle, *large = scale.sentences
    usual, random = (middle, single), ("base", "big")
    tiers: list[tuple[Any, ...]] = [
        # Whether outputs are right, and what real proposals gain.
        ((BUNDLED,), ("fp32",), usual, NARROW),
        # What most users run.
        (random, ("fp16",), usual, NARROW),
        (("ensemble",), ("fp16",), usual, NARROW),
        (random, ("fp32",), usual, MAIN),
        ((*random, "ensemble"), ("fp16",), tuple(large), MAIN),
        # Table 1 of Yang et al. 2020 has ensembles of five and a beam of 50.
        (("ensemble", "big"), ("fp16",), usual, WIDE),
        ((BUNDLED,), ("fp16",), (*usual, *large), NARROW),
        (random, ("bf16",), usual, MAIN),
        # All that is left.
        ((*random, BUNDLED, "ensemble"), PRECISIONS, (*usual, *large), (*NARROW, *WIDE)),
    ]
    rows = (Row(*values) for tier in tiers for values in itertools.product(*tier))
    return [row for row in dict.fromkeys(rows) if is_possible(row)]


def is_possible(row: Row) -> bool:
    """Whether a model has the method: heads, one word and pairs are those of some only."""
    if row.model == BUNDLED:
        return METHODS[row.method].kind == HEADS
    return row.model != "ensemble" or row.method in OF_ENSEMBLES and "double" not in row.method


def seconds_expected(row: Row, scale: Scale) -> float:
    """The seconds of a row on a GPU, by rule of thumb."""
    size = BUNDLED_SIZE if row.model == BUNDLED else scale.sizes[row.model]
    n_sentences = sentences_of(row, scale)
    n_rows = min(row.batch, n_sentences) * METHODS[row.method].beam
    step = SECONDS_OF_LAUNCHES + n_rows * size.millions * SECONDS_OF_PRODUCTS
    n_steps = math.ceil(n_sentences / row.batch) * scale.target_length * size.n_members
    # Both searches, with a warm-up.
    return max(2 * (1 + scale.rounds[0]) * n_steps * step, scale.seconds)


def sentences_of(row: Row, scale: Scale) -> int:
    """The number of sentences of a row."""
    return (scale.text if row.model == BUNDLED else scale.sentences)[row.batch]
