"""The options of Marian's models, ``special:model.yml``, and which of them can be represented.

Options that change a model are those of ``src/models/transformer.h`` and
``src/models/encoder_decoder.cpp`` in Marian. An option of the transformer that is not listed here
is refused unless it is off.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .imported import UnreadableModel
from .marian_files import OPTIONS, Tensors
from .plain_yaml import parsed

# The first versions whose gelu is exact, and whose norms before attention apply to keys and values.
EXACT_GELU, NORMED_KEYS = (1, 12, 3), (1, 11, 0)
MOST_LAYERS = 256

OFF = ("", "false", "0")
# What an option may be in a model that can be represented. An absent or empty one is the default.
SUPPORTED = {
    "type": ("transformer",),
    "input-types": ("sequence", "alignment", "weight"),  # training reads the others
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-ffn-activation": ("relu", "swish", "gelu"),
    "transformer-ffn-depth": ("2",),
    "transformer-decoder-ffn-depth": ("0", "2"),
    "transformer-attention-mask": ("default",),
    "factors-combine": ("sum",),
    "factors-dim-emb": OFF,
    "layer-normalization": OFF,
    "lemma-dependency": OFF,
    "lemma-dim-emb": OFF,
    "input-join-fields": OFF,
    "input-reorder": OFF,
    "right-left": OFF,
    "separator-symbol": OFF,
    "ulr": OFF,
}
# Options of the transformer that have their own check, or that do not change translations.
KNOWN = (
    "heads", "no-projection", "dim-ffn", "decoder-dim-ffn", "preprocess", "postprocess",
    "postprocess-emb", "postprocess-top", "tied-layers", "guided-alignment-layer", "dim-aan",
    "aan-depth", "aan-activation", "aan-nogate", "train-position-embeddings", "depth-scaling",
    "dropout", "dropout-attention", "dropout-ffn", "alibi-shift", "alibi-trainable",
    "rnn-projection",
)  # fmt: skip
OPERATIONS = {"h": "highway connections", "r": "RMS norm"}


class MarianOptions:
    """The model's own options, ``special:model.yml``."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        """
        Args:
            path: the model's file, for messages.
        """
        self.path, self.values = path, values

    def refused(self, name: str, reason: str = "is not supported") -> UnreadableModel:
        """The error for a value."""
        return UnreadableModel(f"{self.path}: {name}: {self.values.get(name)!r:.100} {reason}")

    def text(self, name: str, default: str = "") -> str:
        """A value of one word."""
        value = self.values.get(name, default)
        if not isinstance(value, str):
            raise self.refused(name, "is not one word")
        return value

    def number(self, name: str, default: int) -> int:
        """A positive number."""
        text = self.text(name, str(default))
        if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text):
            raise self.refused(name, "is not a positive number")
        return int(text)

    def is_on(self, name: str) -> bool:
        """Whether a switch is on."""
        return self.text(name) not in OFF

    def words(self, name: str) -> list[str]:
        """A list; a single value is a list of one."""
        value = self.values.get(name, [])
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in items):
            raise self.refused(name, "is not a list of words")
        return [item for item in items if item]

    def operations(self, name: str, default: str = "") -> str:
        """A list of operations, such as ``dan``, without dropout.

        Raises:
            UnreadableModel: for operations that fairseq's layers do not have.
        """
        steps = self.text(name, default).replace("d", "")
        for step in steps:
            if step not in "an":
                kind = OPERATIONS.get(step, f"the operation {step!r}")
                raise self.refused(name, f"has {kind}, which is not supported")
        return steps

    def version(self) -> tuple[int, ...]:
        """The version of Marian that trained the model; 0 if it is not known."""
        found = re.match(r"v?([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})", self.text("version"))
        return tuple(map(int, found.groups())) if found else (0,)


def options_of(path: Path, tensors: Tensors) -> MarianOptions:
    """The options in the model's file, which can be represented.

    Raises:
        UnreadableModel: if it has none, or if fairseq's model cannot represent one.
    """
    written = tensors.get(OPTIONS)
    if not isinstance(written, np.ndarray) or written.dtype != np.int8:
        raise UnreadableModel(f"{path}: has no {OPTIONS}, the options of the model")
    values = parsed(written.tobytes().rstrip(b"\0"), f"{path}: {OPTIONS}")
    if not isinstance(values, dict):
        raise UnreadableModel(f"{path}: {OPTIONS} is not a list of options")
    options = MarianOptions(path, values)
    for name in values:
        if not _is_supported(options, name):
            raise options.refused(name)
    if options.text("type") != "transformer":
        raise options.refused("type")
    return options


def _is_supported(options: MarianOptions, name: str) -> bool:
    """Whether the values of an option are known not to change more than is converted."""
    short = name.removeprefix("transformer-")
    if name in SUPPORTED:
        known = SUPPORTED[name]
    elif short != name and short not in KNOWN:
        known = OFF
    else:
        return True
    return all(word in known for word in options.words(name))


def layer_numbers(options: MarianOptions) -> tuple[list[int], list[int]]:
    """Marian's numbers of the encoder's and of the decoder's layers, which may be tied."""
    encoder, decoder = options.number("enc-depth", 1), options.number("dec-depth", 1)
    if max(encoder, decoder) > MOST_LAYERS:
        raise UnreadableModel(f"{options.path}: has more than {MOST_LAYERS} layers")
    tied = options.words("transformer-tied-layers")
    if not tied:
        return list(range(1, encoder + 1)), list(range(1, decoder + 1))
    if len(tied) != decoder or not all(re.fullmatch("[0-9]{1,3}", number) for number in tied):
        raise options.refused("transformer-tied-layers", f"is not a list of {decoder} numbers")
    return list(range(1, encoder + 1)), list(map(int, tied))


def is_ssru(options: MarianOptions) -> bool:
    """Whether the decoder has recurrent units in place of self-attention.

    Raises:
        UnreadableModel: for other recurrent units, and those with a projection.
    """
    if options.text("transformer-decoder-autoreg", "self-attention") != "rnn":
        return False
    if options.text("dec-cell", "gru") != "ssru":
        raise options.refused("dec-cell")
    if options.is_on("transformer-rnn-projection"):
        raise options.refused("transformer-rnn-projection")
    return True
