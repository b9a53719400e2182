"""Imported models as fairseq's: dictionaries, options and modules."""

import itertools
from argparse import Namespace
from collections.abc import Container, Iterator
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from .imported import Imported, UnreadableModel

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
# An output bias that no search overcomes, and that stays finite in all precisions with a bias.
IMPOSSIBLE = -1e9


def made_up_words(taken: Container[str]) -> Iterator[str]:
    """Symbols for types without one, ``madeupword0000`` and so on, but for those that are taken."""
    words = map("madeupword{:04d}".format, itertools.count())
    return (word for word in words if word not in taken)


def dictionary_of(symbols: list[str]) -> Dictionary:
    """fairseq's dictionary with these symbols.

    Raises:
        UnreadableModel: if they do not begin with the special symbols, or if one is repeated.
    """
    if tuple(symbols[: len(SPECIAL)]) != SPECIAL:
        raise UnreadableModel(f"the vocabulary does not begin with {', '.join(SPECIAL)}")
    dictionary = Dictionary()
    for symbol in symbols[len(SPECIAL) :]:
        if symbol in dictionary.indices:
            raise UnreadableModel(f"the vocabulary has {symbol!r} twice")
        dictionary.add_symbol(symbol)
    return dictionary


def options_of(imported: Imported) -> Namespace:
    """All options of the model."""
    args = Namespace(arch=imported.arch, **imported.options)
    ARCH_CONFIG_REGISTRY[imported.arch](args)
    return args


def model_of(imported: Imported, args: Namespace, task: Any) -> Any:
    """Build the model with its parameters, in evaluation mode.

    Args:
        args: from :func:`options_of`.
        task: has ``source_dictionary`` and ``target_dictionary``.

    Raises:
        UnreadableModel: if parameters are missing or have other shapes.
    """
    model = ARCH_MODEL_REGISTRY[imported.arch].build_model(args, task)
    # fairseq's number of the layout of parameters.
    versions = {f"{side}.version": torch.Tensor([3]) for side in ("encoder", "decoder")}
    try:
        model.load_state_dict({**versions, **imported.state}, strict=True, model_cfg=None)
    except RuntimeError as error:
        raise UnreadableModel(" ".join(str(error).split())) from error
    return model.eval()
