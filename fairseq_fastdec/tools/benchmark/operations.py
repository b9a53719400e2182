"""Floating-point operations: what torch and compiled code multiply while a method decodes."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from ...engine.kernels import loading


class Operations:
    """Counts the operations of the calls that are made within: ``with Operations() as counted``.

    A multiply-add is two operations, as in the papers. Products of matrices and attention count;
    embeddings, norms, activations and searches do not. Torch counts its own products, and compiled
    code its; compiled attention counts the keys that a token sees, and torch's those that are
    masked, too.

    Attributes:
        flops: the operations, once the block has ended.
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
    """The multiply-adds of compiled code so far; 0 if nothing was compiled."""
    module = loading.library()
    return 0 if module is None else module.n_multiply_adds()


def _uncounted_by_torch() -> dict[Any, Callable[..., int]]:
    """Operators with products that some versions of torch's counter do not know."""
    own: dict[str, dict[str, Callable[..., int]]] = {
        "aten": {
            "_transformer_encoder_layer_fwd": _encoder_layer,
            "_scaled_dot_product_flash_attention_for_cpu": _attention,
        },
    }
    return {
        getattr(getattr(torch.ops, library), name): count
        for library, counts in own.items()
        for name, count in counts.items()
        if hasattr(getattr(torch.ops, library), name)
    }


def _encoder_layer(source: Sequence[int], dim: int, *parameters: Any, **_: Any) -> int:
    """A whole encoder layer, which fairseq runs so where it learns nothing.

    Args:
        source: the shape ``[B, S, C]``.
        parameters: shapes of tensors, among others; the products' are matrices.
    """
    n_tokens, length = math.prod(source[:-1]), source[-2]
    weights = sum(math.prod(p) for p in parameters if isinstance(p, torch.Size) and _is_weight(p))
    return 2 * n_tokens * (weights + 2 * length * dim)


def _attention(queries: Sequence[int], keys: Sequence[int], *_: Any, **__: Any) -> int:
    """Queries ``[B, H, T, D]`` and keys ``[B, H, S, D]``."""
    return 2 * 2 * math.prod(queries) * keys[-2]


def _is_weight(shape: torch.Size) -> bool:
    return len(shape) == 2
