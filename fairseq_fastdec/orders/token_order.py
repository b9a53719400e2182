"""Converts target sentences to the order of decoding, and back.

Imamura and Sumita 2020, section 3.2. With two tokens a step the sentence ``y_1 ... y_m`` becomes
pairs; slot 2t holds the left token of pair t, and slot 2t + 1 the right one:

- ``bidirectional``: ``y_1 y_m  y_2 y_{m-1} ...``, the left half in order, the right half reversed;
- ``l2r``: ``y_1 y_2  y_3 y_4 ...``
- ``r2l``: ``y_m y_{m-1}  y_{m-2} y_{m-3} ...``

followed by one end token (odd m) or two (even m). With one token a step, the sequences are the
same, followed by one end token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ORDERS = ("bidirectional", "l2r", "r2l")
TOKENS_PER_STEP = (1, 2)
# For messages: how to train a model of two tokens a step from a model of one.
TRAINING_OF_TWO = (
    "train a model of two tokens a step from it (fairseq-train --task "
    "translation_double_token --arch double_token_transformer --finetune-from-model CHECKPOINT)"
)


@dataclass(frozen=True)
class TokenOrder:
    """The order in which the tokens of a sentence are decoded, and how many at a time."""

    name: str
    tokens_per_step: int

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ValueError: for an unknown order or number; the message names the flag.
        """
        if self.name not in ORDERS:
            raise ValueError(f"--token-order {self.name}: choose one of {', '.join(ORDERS)}")
        if self.tokens_per_step not in TOKENS_PER_STEP:
            raise ValueError(f"--tokens-per-step {self.tokens_per_step}: choose 1 or 2")

    def __str__(self) -> str:
        return f"--token-order {self.name} --tokens-per-step {self.tokens_per_step}"

    def check_prefix(self) -> None:
        """Check that the first tokens of a sentence can be forced.

        Raises:
            ValueError: if they are not decoded first.
        """
        if self.name != "l2r":
            raise ValueError(
                f"--prefix-size: with --token-order {self.name} the first tokens of a sentence are "
                "not decoded first; remove it, or use a model with --token-order l2r"
            )

    def folded_length(self, length: Any) -> Any:
        """The number of slots of a sentence, including end tokens.

        Args:
            length: the number of tokens without EOS, or an array or tensor of such numbers.
        """
        return (length // self.tokens_per_step + 1) * self.tokens_per_step


LEFT_TO_RIGHT = TokenOrder("l2r", 1)


def trained_order(task_state: dict[str, Any]) -> TokenOrder:
    """The order of a checkpoint's targets, from its ``task_state``; by default left to right."""
    return TokenOrder(
        task_state.get("token_order", LEFT_TO_RIGHT.name),
        task_state.get("tokens_per_step", LEFT_TO_RIGHT.tokens_per_step),
    )


def fold(tokens: Tensor, order: TokenOrder, end: int, pad: int) -> Tensor:
    """Convert natural sentences without EOS to the order of decoding, with end tokens.

    Args:
        tokens: int64 ``[B, T]``, padded on the right.

    Returns:
        int64 ``[B, folded_length(T)]``, padded on the right.
    """
    lengths = tokens.ne(pad).sum(dim=1, keepdim=True)
    slots = torch.arange(order.folded_length(tokens.size(1)), device=tokens.device)
    source = _natural_positions(slots, lengths, order.name)
    padded = torch.nn.functional.pad(tokens, (0, 1), value=pad)
    folded = padded.gather(1, source.clamp(0, tokens.size(1)))
    folded = folded.masked_fill(slots >= lengths, end)
    return folded.masked_fill(slots >= order.folded_length(lengths), pad)


def shifted(folded: Tensor, start: tuple[int, ...], pad: int) -> Tensor:
    """The decoder's input for predicting ``folded`` ``[B, N]``: the tokens shifted by one step.

    Args:
        start: the tokens of the step before the first.
    """
    first = folded.new_tensor(start).expand(folded.size(0), len(start))
    return torch.cat([first, folded[:, : -len(start)]], dim=1).masked_fill(folded.eq(pad), pad)


def _natural_positions(slots: Tensor, lengths: Tensor, name: str) -> Tensor:
    """The natural position of each slot's token, valid within the sentence: ``[B, N]``."""
    if name == "l2r":
        return slots.expand(lengths.size(0), -1)
    if name == "r2l":
        return lengths - 1 - slots
    return torch.where(slots % 2 == 0, slots // 2, lengths - 1 - slots // 2)


def common_order(orders: Sequence[TokenOrder]) -> TokenOrder:
    """The order of all models of an ensemble.

    Raises:
        ValueError: if their orders differ.
    """
    for order in orders[1:]:
        if order != orders[0]:
            raise ValueError(
                f"--path: models of {orders[0]} and of {order} cannot decode together; give models "
                "of the same order"
            )
    return orders[0]
