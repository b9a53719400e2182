"""Tensors of a model layer by layer, and the first that differs from those of a reference."""

from argparse import Namespace
from typing import NamedTuple

import numpy as np
import torch

from fairseq_fastdec.importing import building

# What is recorded, by the last part of a module's name; the order of comparison is the reference's.
MODULES = (
    "self_attn", "self_attn_layer_norm", "encoder_attn", "encoder_attn_layer_norm", "fc2",
    "final_layer_norm", "layer_norm", "output_projection",
)  # fmt: skip
INPUT = " (input)"


class Difference(NamedTuple):
    """The largest difference of a tensor; infinite if the tensor is missing or of another shape."""

    name: str
    largest: float


def built(imported):
    """fairseq's model of an imported one."""
    source, target = map(building.dictionary_of, (imported.source, imported.target))
    if imported.source == imported.target:
        target = source
    task = Namespace(source_dictionary=source, target_dictionary=target)
    return building.model_of(imported, building.options_of(imported), task)


def is_recorded(name):
    """Whether a module is recorded: parts of layers, whole layers, and the output layer."""
    *front, last = name.split(".")
    is_layer = last.isdigit() and front[-1:] == ["layers"]
    return front[:1] in (["encoder"], ["decoder"]) and (is_layer or last in MODULES)


def rows(output):
    """A module's output for one sentence, ``[T, C]``."""
    while isinstance(output, tuple):
        output = output[0]
    return output.detach().reshape(-1, output.size(-1)).numpy()


def hook(model, recorded, name_of=lambda name: name):
    """Record the outputs of modules, and the inputs of both first layers.

    Args:
        recorded: gets the tensors ``[T, C]`` by name.
        name_of: fairseq's name of a module.

    Returns:
        a function that ends it
    """

    def after(name):
        return lambda module, inputs, output: recorded.__setitem__(name, rows(output))

    def before(name):
        def record(module, inputs, options):
            given = (*inputs, *options.values())
            recorded[name] = rows(given[0])

        return record

    hooks = []
    for module_name, module in model.named_modules():
        name = name_of(module_name)
        if is_recorded(name):
            hooks.append(module.register_forward_hook(after(name)))
        if name.endswith(".layers.0") and is_recorded(name):
            hooks.append(module.register_forward_pre_hook(before(name + INPUT), with_kwargs=True))
    return lambda: [own.remove() for own in hooks]


def of_fairseq(model, source, target):
    """The tensors ``[T, C]`` of a model of fairseq for one sentence, by the names of modules.

    Args:
        source: with EOS, by fairseq's numbers.
        target: the decoder's inputs, the first of which is EOS.
    """
    recorded = {}
    end = hook(model, recorded)
    with torch.no_grad():
        tokens, previous = torch.tensor([source]), torch.tensor([target])
        model(tokens, torch.tensor([len(source)]), previous)
    end()
    return recorded


def differences(theirs, ours):
    """The largest difference of each tensor of a reference, in the reference's order.

    Args:
        theirs: the reference's tensors by name.
    """
    for name, expected in theirs.items():
        found = ours.get(name)
        if found is None or found.shape != expected.shape:
            yield Difference(name, float("inf"))
        else:
            largest = float(np.abs(found - expected).max())
            yield Difference(name, largest if largest == largest else float("inf"))


def first_difference(theirs, ours, tolerance):
    """The first tensor that differs by more than the tolerance, or ``None``."""
    return next((own for own in differences(theirs, ours) if own.largest > tolerance), None)
