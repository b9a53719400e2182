"""The rules by which p_1 accepts proposals (Stern et al. 2018, sections 3 and 5)."""

import math
from abc import ABC, abstractmethod

import torch
from fairseq.data import Dictionary
from torch import Tensor

from ..options import DecodingOptions


class Acceptance(ABC):
    """Judges every proposal on its own; the caller keeps the longest accepted prefix."""

    @abstractmethod
    def judge(self, log_probs: Tensor, best: Tensor, proposals: Tensor) -> Tensor:
        """
        Args:
            log_probs: float32 ``[R, T, V]``, p_1's for the positions of the proposals; ``-inf``
                where fairseq's rules forbid a token.
            best: int64 ``[R, T]``, p_1's best tokens.
            proposals: int64 ``[R, T]``.

        Returns:
            bool ``[R, T]``
        """


class Exact(Acceptance):
    """The proposal is p_1's best token (section 3): the output is p_1's greedy output."""

    def judge(self, log_probs: Tensor, best: Tensor, proposals: Tensor) -> Tensor:
        return proposals.eq(best)


class TopK(Acceptance):
    """The proposal is among p_1's best n tokens (section 5.1)."""

    def __init__(self, n: int) -> None:
        self._n = n

    def judge(self, log_probs: Tensor, best: Tensor, proposals: Tensor) -> Tensor:
        own = _scores_of(log_probs, proposals)
        n_better = (log_probs > own[..., None]).sum(dim=-1)
        return (n_better < self._n) & own.ne(-math.inf)


class Distance(Acceptance):
    """The proposal is an integer symbol within epsilon of p_1's best (section 5.2).

    Symbols that are no integers (EOS among them) have no distance: they must match.
    """

    def __init__(self, epsilon: float, dictionary: Dictionary) -> None:
        """
        Raises:
            ValueError: if the vocabulary does not consist of integers.
        """
        self._epsilon = epsilon
        self._values = _integer_values(dictionary)

    def judge(self, log_probs: Tensor, best: Tensor, proposals: Tensor) -> Tensor:
        self._values = self._values.to(proposals.device)
        # NaN, the value of a symbol that is no integer, is within no distance.
        near = (self._values[proposals] - self._values[best]).abs() <= self._epsilon
        allowed = _scores_of(log_probs, proposals).ne(-math.inf)
        return proposals.eq(best) | (near & allowed)


class MinimumBlock(Acceptance):
    """At least so many tokens a step (section 5.3): the first proposals are not asked about."""

    def __init__(self, rule: Acceptance, block_size: int) -> None:
        self._rule = rule
        # The first token of a block is p_1's own, which needs no acceptance.
        self._n_free = block_size - 1

    def judge(self, log_probs: Tensor, best: Tensor, proposals: Tensor) -> Tensor:
        verdict = self._rule.judge(log_probs, best, proposals)
        free = slice(0, self._n_free)
        verdict[:, free] = _scores_of(log_probs, proposals)[:, free].ne(-math.inf)
        return verdict


def acceptance_rule(options: DecodingOptions, dictionary: Dictionary) -> Acceptance:
    """The rule that the options ask for.

    Raises:
        ValueError: for ``--acceptance distance`` on a vocabulary of words.
    """
    rule: Acceptance
    if str(options.acceptance) == "topk":
        rule = TopK(min(options.acceptance_topk, len(dictionary)))
    elif str(options.acceptance) == "distance":
        rule = Distance(options.acceptance_distance, dictionary)
    else:
        rule = Exact()
    if options.min_block_size > 1:
        rule = MinimumBlock(rule, options.min_block_size)
    return rule


def _scores_of(log_probs: Tensor, tokens: Tensor) -> Tensor:
    return log_probs.gather(-1, tokens[..., None]).squeeze(-1)


def _integer_values(dictionary: Dictionary) -> Tensor:
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
