"""The rules by which p_1 accepts proposals (Stern et al. 2018, sections 3 and 5)."""

import math
from abc import ABC, abstractmethod
from typing import Any, Dict

from fairseq.data import Dictionary
from torch import Tensor

from ...data.integer_symbols import integer_values
from ..options import DecodingOptions
from ..single.blocks import Verdicts


class Acceptance(ABC):
    """Judges every proposal on its own; the caller keeps the longest accepted prefix.

    Attributes: see :class:`~..single.blocks.AcceptanceRule`.
    """

    is_exact = False
    needs_distributions = False

    @abstractmethod
    def judge(self, verdicts: Verdicts) -> Tensor:
        """Whether each proposal is good enough: bool ``[R, T]``."""

    @abstractmethod
    def compiled(self) -> Dict[str, Any]:
        """The arguments of ``_engine.Acceptance``."""


class Exact(Acceptance):
    """The proposal is p_1's best token (section 3): the output is p_1's greedy output."""

    is_exact = True

    def judge(self, verdicts: Verdicts) -> Tensor:
        return verdicts.proposals.eq(verdicts.best)

    def compiled(self) -> Dict[str, Any]:
        return {"kind": "exact"}


class AmongBest(Acceptance):
    """The proposal is among p_1's best n tokens (section 5.1)."""

    needs_distributions = True

    def __init__(self, n: int) -> None:
        self._n = n

    def judge(self, verdicts: Verdicts) -> Tensor:
        own, distributions = verdicts.scores, verdicts.distributions
        assert distributions is not None
        n_better = (distributions > own[..., None]).sum(dim=-1)
        return (n_better < self._n) & own.ne(-math.inf)

    def compiled(self) -> Dict[str, Any]:
        return {"kind": "topk", "n_best": self._n}


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
        self._values = integer_values(dictionary)

    def judge(self, verdicts: Verdicts) -> Tensor:
        proposals, best = verdicts.proposals, verdicts.best
        self._values = self._values.to(proposals.device)
        # NaN, the value of a symbol that is no integer, is within no distance.
        near = (self._values[proposals] - self._values[best]).abs() <= self._epsilon
        return proposals.eq(best) | (near & verdicts.scores.ne(-math.inf))

    def compiled(self) -> Dict[str, Any]:
        values = self._values.tolist()
        return {"kind": "distance", "distance": self._epsilon, "values": values}


class MinimumBlock(Acceptance):
    """At least so many tokens a step (section 5.3): the first proposals are not asked about."""

    def __init__(self, rule: Acceptance, block_size: int) -> None:
        self._rule = rule
        # The first token of a block is p_1's own, which needs no acceptance.
        self._n_free = block_size - 1

        self.needs_distributions = rule.needs_distributions

    def judge(self, verdicts: Verdicts) -> Tensor:
        verdict = self._rule.judge(verdicts)
        free = slice(0, self._n_free)
        verdict[:, free] = verdicts.scores[:, free].ne(-math.inf)
        return verdict

    def compiled(self) -> Dict[str, Any]:
        return {**self._rule.compiled(), "min_block": 1 + self._n_free}


def acceptance_rule(options: DecodingOptions, dictionary: Dictionary) -> Acceptance:
    """The rule that the options ask for.

    Raises:
        ValueError: for ``--acceptance distance`` on a vocabulary of words.
    """
    rule: Acceptance
    if str(options.acceptance) == "topk":
        rule = AmongBest(min(options.acceptance_topk, len(dictionary)))
    elif str(options.acceptance) == "distance":
        rule = Distance(options.acceptance_distance, dictionary)
    else:
        rule = Exact()
    if options.min_block_size > 1:
        rule = MinimumBlock(rule, options.min_block_size)
    return rule
