"""The experience with a model's invocations. It outlives the generators that have learned it."""

import weakref
from collections import defaultdict
from typing import Callable, DefaultDict, Dict, Hashable, Sequence

from torch import nn

from .faster_search import SearchExperience
from .invocation_costs import InvocationCosts
from .pace import AcceptanceRates, Pace
from .trials import SourceTrial

# Before the first trial, so many invocations show what they cost without proposals.
FIRST = 16


class SourceExperience:
    """The experience with a source of proposals.

    Attributes:
        rates: at which its proposals are accepted, by their kinds.
        costs: of asking so many heads and of telling what became of the proposals, by the number
            of rows.
        trial: whether to ask.
        expected: tokens that an invocation with its proposals is worth above one with none, on
            average; infinite before the first.
    """

    def __init__(self, rates: AcceptanceRates) -> None:
        self.rates = rates
        self.costs: DefaultDict[int, InvocationCosts] = defaultdict(InvocationCosts)
        self.trial = SourceTrial(1 + FIRST)
        self.expected = float("inf")

    def seconds(self, n_heads: int, n_rows: int) -> float:
        """The seconds of asking so many heads; 0 if that was never measured.

        Of other numbers of heads than those that were asked each head takes its share of the time
        that the nearest number takes.
        """
        if self.costs[n_heads].largest:
            return self.costs[n_heads].seconds(n_rows)
        known = [n for n, costs in self.costs.items() if costs.largest]
        if not known:
            return 0.0
        nearest = min(known, key=lambda n: abs(n - n_heads))
        return self.costs[nearest].seconds(n_rows) * (n_heads - 1) / max(nearest - 1, 1)


class Experience:
    """The experience with invocations.

    Attributes:
        n_invocations: how many there were.
        costs: of invocations, whatever they verify, but for making proposals.
        pace: of the last ones for which proposals were looked for.
    """

    def __init__(self) -> None:
        self.n_invocations = 0
        self.costs = InvocationCosts()
        self.pace = Pace(self.costs)
        self._of_sources: Dict[Hashable, SourceExperience] = {}
        self._of_searches: Dict[Hashable, SearchExperience] = {}

    def of_source(
        self, kind: Hashable, first_rates: Callable[[], AcceptanceRates]
    ) -> SourceExperience:
        """The experience with a source; ``first_rates`` are believed before it is known."""
        if kind not in self._of_sources:
            self._of_sources[kind] = SourceExperience(first_rates())
        return self._of_sources[kind]

    def of_searches(self, kind: Hashable, n: int) -> SearchExperience:
        """The experience with n searches."""
        return self._of_searches.setdefault(kind, SearchExperience(n))


def experience_of(models: Sequence[nn.Module], kind: Hashable) -> Experience:
    """The experience with an ensemble. It is kept with its first model.

    Args:
        kind: what else the costs depend on.
    """
    of_model = _experiences.setdefault(models[0], {})
    return of_model.setdefault((len(models), kind), Experience())


_experiences: "weakref.WeakKeyDictionary[nn.Module, Dict[Hashable, Experience]]" = (
    weakref.WeakKeyDictionary()
)
