"""When p_1 accepts a proposed token (Stern et al. 2018, sections 3 and 5)."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from fairseq.data import Dictionary
from torch import Tensor

from ...data.integer_symbols import integer_values
from ..options import DecodingOptions

# From proposals int64 [R, N] and p_1's log-probabilities [R, N, V] in their places to whether each
# proposal is accepted, bool [R, N].
AcceptanceTest = Callable[[Tensor, Tensor], Tensor]


def exact(proposals: Tensor, log_probs: Tensor) -> Tensor:
    """Section 3: the proposal is p_1's most probable token."""
    return proposals.eq(log_probs.argmax(dim=-1))


def among_best(proposals: Tensor, log_probs: Tensor, n: int) -> Tensor:
    """Section 5.1: the proposal is one of p_1's n most probable tokens."""
    own = log_probs.gather(-1, proposals[..., None])
    n_better = (log_probs > own).sum(dim=-1)
    return (n_better < n) & _is_possible(proposals, log_probs)


def within_distance(proposals: Tensor, log_probs: Tensor, epsilon: float, values: Tensor) -> Tensor:
    """Section 5.2: the proposal's number differs from that of p_1's best by at most epsilon.

    Args:
        values: float64 ``[V]``, the tokens' numbers; NaN for others, which have to match exactly.
    """
    best = log_probs.argmax(dim=-1)
    values = values.to(proposals.device)
    is_near = (values[proposals] - values[best]).abs() <= epsilon
    return proposals.eq(best) | (is_near & _is_possible(proposals, log_probs))


def at_least(proposals: Tensor, log_probs: Tensor, test: AcceptanceTest, n: int) -> Tensor:
    """Section 5.3: n tokens a block are kept in any case, p_1's own first token among them."""
    is_accepted = test(proposals, log_probs)
    is_accepted[:, : n - 1] = _is_possible(proposals, log_probs)[:, : n - 1]
    return is_accepted


def acceptance_test(options: DecodingOptions, dictionary: Dictionary) -> AcceptanceTest:
    """The test of ``--acceptance`` and ``--min-block-size``.

    Raises:
        ValueError: for ``--acceptance distance`` if the vocabulary is not of whole numbers.
    """
    test: AcceptanceTest = exact
    if str(options.acceptance) == "topk":
        test = partial(among_best, n=options.acceptance_topk)
    elif str(options.acceptance) == "distance":
        values = integer_values(dictionary)
        test = partial(within_distance, epsilon=options.acceptance_distance, values=values)
    if options.min_block_size == 1:
        return test
    return partial(at_least, test=test, n=options.min_block_size)


def compiled_acceptance(options: DecodingOptions, dictionary: Dictionary) -> dict[str, Any]:
    """The test of :func:`acceptance_test` in compiled code: arguments of ``_engine.Acceptance``."""
    kind, min_block = str(options.acceptance), options.min_block_size
    acceptance: dict[str, Any] = {"kind": kind, "min_block": min_block}
    if kind == "topk":
        acceptance["n_best"] = min(options.acceptance_topk, len(dictionary))
    elif kind == "distance":
        values = integer_values(dictionary).tolist()
        acceptance.update(distance=options.acceptance_distance, values=values)
    return acceptance


def _is_possible(proposals: Tensor, log_probs: Tensor) -> Tensor:
    """Whether fairseq's rules allow the proposals: bool ``[R, N]``."""
    return log_probs.gather(-1, proposals[..., None]).squeeze(-1).ne(-math.inf)
