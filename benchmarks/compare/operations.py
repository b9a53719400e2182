"""Counts the floating-point operations of torch and compiled code."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from fairseq_fastdec.engine.kernels import loading


class Operations:
    """A context that counts operations: ``with Operations() as counted``.

    A multiply-add counts as two operations, as in the papers. Matrix products and attention are
    counted; embeddings, norms, activations and searches are not. Attention in compiled code counts
    the keys that a token sees, and that of torch also masked keys.

    Attributes:
        flops: the number of operations, set at the end of the block.
    """

    flops: int = 0

    def __init__(self) -> None:
        self._torch = FlopCounterMode(display=False, custom_mapping=_uncounted_by_torch())
        self._before = 0

    def __enter__(self) -> "Operations":
        self._before = _multiply_adds()
        self._torch.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._torch.__exit__(*error)
        compiled = _multiply_adds() - self._before
        self.flops = self._torch.get_total_flops() + 2 * compiled


def _multiply_adds() -> int:
    """The number of multiply-adds of compiled code so far; 0 without compiled code."""
    module = loading.library()
    return 0 if module is None else module.n_multiply_adds()


def _uncounted_by_torch() -> dict[Any, Callable[..., int]]:
    """Operators that the counters of some torch versions do not support."""
    operators: dict[str, Callable[..., int]] = {
        "_transformer_encoder_layer_fwd": _encoder_layer,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
    }
    library = torch.ops.aten
    return {
        getattr(library, name): count for name, count in operators.items() if hasattr(library, name)
    }


def _encoder_layer(source: Sequence[int], dim: int, *parameters: Any, **_: Any) -> int:
    """Count the operations of torch's fused encoder layer, which fairseq uses for inference.

    Args:
        source: the shape of the input, ``[B, S, C]``.
        parameters: the other arguments; the shapes of weight matrices have two dimensions.
    """
    n_tokens, length = math.prod(source[:-1]), source[-2]
    shapes = [shape for shape in parameters if isinstance(shape, torch.Size)]
    weights = sum(math.prod(shape) for shape in shapes if len(shape) == 2)
    return 2 * n_tokens * (weights + 2 * length * dim)


def _attention(queries: Sequence[int], keys: Sequence[int], *_: Any, **__: Any) -> int:
    """Count the operations of attention: queries ``[B, H, T, D]``, keys ``[B, H, S, D]``."""
    return 2 * 2 * math.prod(queries) * keys[-2]
