"""Random sentences go through a coder while its weights are prepared in 8-bit integers.

So every layer sees inputs such as it will get, and says whether it can be trusted with them
(:class:`~..products.trial.Int8Trial`). Layer by layer: no more than one has its weights twice.
"""

import logging
from dataclasses import fields, is_dataclass
from typing import Any, Optional

import torch
from torch import Tensor
from torch.nn import functional as F

from ..kernels.packed import PackedInt8
from ..products.precision import Precision
from ..products.trial import Int8Trial, described

logger = logging.getLogger(__name__)

SENTENCES, TOKENS = 4, 6
# The first types of a dictionary are seldom words.
FIRST_TYPE = 4


class Rehearsal:
    """The sentences, on their way through the layers of one encoder or decoder.

    Attributes:
        precision: prepares layers that can be tried.
        states: fp32 ``[B, T, C]``, where the sentences are now.
    """

    def __init__(self, precision: Precision, name: str) -> None:
        """
        Args:
            precision: in 8-bit integers.
            name: of the encoder or decoder, in the log.
        """
        self.precision = precision._replace(product=Int8Trial)
        self.states = torch.empty(0)
        self._name = name
        self._kept: list[str] = []

    @classmethod
    def of(cls, precision: Precision, name: str) -> Optional["Rehearsal"]:
        """``None`` in other precisions, which change no layer's outputs by much."""
        return cls(precision, name) if precision.product is PackedInt8 else None

    def settle(self, made: Any, name: str) -> Any:
        """End the trials of some layers: what was tried becomes what computes it.

        Args:
            made: a layer, or a dataclass that has some among its fields.
            name: in the log.
        """
        if isinstance(made, Int8Trial):
            if not made.is_trusted:
                self._kept.append(f"{self._name}.{name} ({made.error:.0%})")
            return made.layer
        if is_dataclass(made):
            for field in fields(made):
                own = self.settle(getattr(made, field.name), f"{name}.{field.name}".lstrip("."))
                setattr(made, field.name, own)
        return made

    def tell(self) -> None:
        """Log which layers were not trusted."""
        if self._kept:
            logger.info("%s", described(self._kept))


def random_tokens(n_types: int, n_positions: Optional[int]) -> Tensor:
    """Sentences of random words: int64 ``[B, T]``, the same in every run.

    Args:
        n_positions: how many tokens a sentence can have; ``None`` for any number.
    """
    n_tokens = TOKENS if n_positions is None else min(TOKENS, n_positions)
    first = FIRST_TYPE if n_types > FIRST_TYPE else 0
    # Not torch's own random numbers, which are the user's.
    generator = torch.Generator().manual_seed(1)
    return torch.randint(first, n_types, (SENTENCES, n_tokens), generator=generator)


def attend(queries: Tensor, keys: Tensor, values: Tensor, is_causal: bool = False) -> Tensor:
    """Attention of queries ``[B, H, T, D]``, which come scaled, to keys and values: ``[B, T, C]``.

    Args:
        keys, values: ``[B, H, L, D]``.
        is_causal: whether a query sees the keys up to its own place alone.
    """
    found = F.scaled_dot_product_attention(queries, keys, values, is_causal=is_causal, scale=1.0)
    return found.transpose(1, 2).flatten(2)
