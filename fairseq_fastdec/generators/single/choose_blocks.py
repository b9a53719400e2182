"""Blocks on the host, or blocks as tensors."""

from typing import Optional

from .batch import Batch
from .blocks import AcceptanceRule, Blocks
from .compiled_blocks import CompiledBlocks
from .tensor_blocks import TensorBlocks


def blocks_of(batch: Batch, most_new: int, rule: Optional[AcceptanceRule] = None) -> Blocks:
    """The blocks of a batch's rows, by compiled code where it can compute all that is asked for.

    Args:
        most_new: the most tokens of a block.
        rule: by which proposals are accepted (default: exactly).
    """
    if rule is None or not rule.needs_distributions:
        compiled = CompiledBlocks.of(batch, most_new)
        if compiled is not None:
            return compiled
    return TensorBlocks(batch)
