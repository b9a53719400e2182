"""Decoders for torch, whose linear layers a CPU multiplies faster by few tokens."""

import copy
from typing import Any

import torch
from torch import nn

from ..fairseq_patches.mapped_checkpoints import read_weight


def by_columns(module: Any) -> Any:
    """A view of a decoder for inference, which a CPU computes faster for few tokens.

    Linear layers with at least as many outputs as inputs have a copy of their weight, of the same
    shape ``[out, in]``, in which the weights of an input follow each other in memory: torch
    multiplies a few tokens by it faster. All other parameters are those of the module. The copies
    are for fp32 and fp64, on a CPU.
    """
    view = copy.copy(module)
    view.training = False
    view._modules = {name: child and by_columns(child) for name, child in module._modules.items()}
    if type(module) is nn.Linear and _gains(module.weight):
        read_weight(module.weight)
        weight = nn.Parameter(module.weight.detach().t().contiguous().t(), requires_grad=False)
        view._parameters = {**module._parameters, "weight": weight}
    return view


def _gains(weight: torch.Tensor) -> bool:
    # Released weights have one dimension.
    is_wide = weight.dim() == 2 and weight.size(0) >= weight.size(1)
    return (
        is_wide and weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    )
