"""Tests of whether p_1 accepts a proposed token (Stern et al. 2018, sections 3 and 5)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from torch import Tensor

from ..option_rules import option

if TYPE_CHECKING:
    from ..options import DecodingOptions

# Takes proposals int64 [R, N] and p_1's log-probabilities [R, N, V] at their positions, and returns
# whether each proposal is accepted, bool [R, N].
AcceptanceTest = Callable[[Tensor, Tensor], Tensor]


def exact(proposals: Tensor, log_probs: Tensor) -> Tensor:
    """Section 3: the proposal is p_1's most probable token."""
    return proposals.eq(log_probs.argmax(dim=-1))


def among_best(proposals: Tensor, log_probs: Tensor, n: int) -> Tensor:
    """Section 5.1: the proposal is one of p_1's n most probable tokens."""
    of_proposals = log_probs.gather(-1, proposals[..., None])
    n_better = (log_probs > of_proposals).sum(dim=-1)
    return (n_better < n) & _is_possible(proposals, log_probs)


def within_distance(proposals: Tensor, log_probs: Tensor, epsilon: float, values: Tensor) -> Tensor:
    """Section 5.2: the proposal's number differs from that of p_1's best by at most epsilon.

    Args:
        values: float64 ``[V]``, the numbers that tokens stand for; NaN for other tokens, which have
            to match exactly.
    """
    best = log_probs.argmax(dim=-1)
    values = values.to(proposals.device)
    is_near = (values[proposals] - values[best]).abs() <= epsilon
    return proposals.eq(best) | (is_near & _is_possible(proposals, log_probs))


def at_least(proposals: Tensor, log_probs: Tensor, test: AcceptanceTest, n: int) -> Tensor:
    """Section 5.3: n tokens per block are always kept, including the first one, which is p_1's."""
    is_accepted = test(proposals, log_probs)
    is_accepted[:, : n - 1] = _is_possible(proposals, log_probs)[:, : n - 1]
    return is_accepted


# A test, and its options in compiled code.
Acceptance = tuple[AcceptanceTest, dict[str, Any]]


def _exact(options: "DecodingOptions", dictionary: Dictionary) -> Acceptance:
    return exact, {}


def _topk(options: "DecodingOptions", dictionary: Dictionary) -> Acceptance:
    n = min(options.acceptance_topk, len(dictionary))
    return partial(among_best, n=n), {"acceptance_topk": n}


def _distance(options: "DecodingOptions", dictionary: Dictionary) -> Acceptance:
    epsilon, values = options.acceptance_distance, integer_values(dictionary)
    test = partial(within_distance, epsilon=epsilon, values=values)
    return test, {"acceptance_distance": epsilon, "values": values.tolist()}


# By the values of --acceptance, which have the same names in compiled code.
ACCEPTANCES = {"exact": _exact, "topk": _topk, "distance": _distance}
ACCEPTANCE_CHOICES = ChoiceEnum(list(ACCEPTANCES))
METHODS = ("blockwise",)


@dataclass
class AcceptanceOptions:
    """``--acceptance`` and the options of its values."""

    acceptance: ACCEPTANCE_CHOICES = option(
        "exact",
        "blockwise: accept a proposal that is p_1's best token (exact: the output is "
        "p_1's greedy output), one of p_1's best N (topk), or an integer symbol within EPS of "
        "p_1's best (distance)",
        methods=METHODS,
    )
    acceptance_topk: int = option(
        2,
        "blockwise: N of --acceptance topk",
        methods=METHODS,
        at_least=1,
        needs=("acceptance", ("topk",)),
    )
    acceptance_distance: float = option(
        2.0,
        "blockwise: EPS of --acceptance distance",
        methods=METHODS,
        at_least=0,
        needs=("acceptance", ("distance",)),
    )
    min_block_size: int = option(
        1,
        "blockwise: keep at least this many tokens per step, even if p_1 does not agree",
        methods=METHODS,
        at_least=1,
    )


def acceptance_of(options: "DecodingOptions", dictionary: Dictionary) -> Acceptance:
    """The test of ``--acceptance`` and ``--min-block-size``, in torch and in compiled code.

    Raises:
        ValueError: for ``--acceptance distance`` if the vocabulary has no integers.
    """
    kind, n = str(options.acceptance), options.min_block_size
    test, arguments = ACCEPTANCES[kind](options, dictionary)
    if n > 1:
        test = partial(at_least, test=test, n=n)
    return test, {"acceptance": kind, "min_block_size": n, **arguments}


def _is_possible(proposals: Tensor, log_probs: Tensor) -> Tensor:
    """Whether fairseq's rules allow the proposals: bool ``[R, N]``."""
    return log_probs.gather(-1, proposals[..., None]).squeeze(-1).ne(-math.inf)


def integer_values(dictionary: Dictionary) -> Tensor:
    """The integer of each type: float64 ``[V]``, NaN for special types and padding.

    Raises:
        ValueError: if the dictionary has other symbols.
    """
    values = torch.full((len(dictionary),), math.nan, dtype=torch.float64)
    for index in range(dictionary.nspecial, len(dictionary)):
        symbol = dictionary[index]
        if symbol.startswith("madeupword"):  # fairseq pads dictionaries to a multiple with these
            continue
        try:
            values[index] = int(symbol)
        except ValueError:
            raise ValueError(
                f"--acceptance distance: the target vocabulary must consist of integers, but has "
                f"{symbol!r}; use --acceptance exact or topk for words"
            ) from None
    return values
