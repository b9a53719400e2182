"""What is known of a model's invocations. It outlives the generators that have learned it."""

import weakref
from typing import Callable, Dict, Hashable, Sequence

from torch import nn

from .invocation_costs import InvocationCosts
from .pace import AcceptanceRates, Pace
from .trials import Trial

# Before the first trial, so many invocations show what they cost without proposals.
FIRST = 16


class SourceExperience:
    """What is known of a source of proposals.

    Attributes:
        rates: at which its proposals are accepted, by their kinds.
        costs: of asking and of telling what became of the proposals, by the number of rows.
        trial: whether to ask.
        expected: tokens that an invocation with its proposals is worth above one with none, on
            average; infinite before the first.
    """

    def __init__(self, rates: AcceptanceRates) -> None:
        self.rates = rates
        self.costs = InvocationCosts()
        self.trial = Trial(1 + FIRST)
        self.expected = float("inf")


class Experience:
    """What is known of invocations.

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

    def of_source(
        self, kind: Hashable, first_rates: Callable[[], AcceptanceRates]
    ) -> SourceExperience:
        """What is known of a source; ``first_rates`` are believed before it is known."""
        if kind not in self._of_sources:
            self._of_sources[kind] = SourceExperience(first_rates())
        return self._of_sources[kind]


def experience_of(models: Sequence[nn.Module], kind: Hashable) -> Experience:
    """What is known of an ensemble. It is kept with its first model.

    Args:
        kind: what else the costs depend on.
    """
    of_model = _experiences.setdefault(models[0], {})
    return of_model.setdefault((len(models), kind), Experience())


_experiences: "weakref.WeakKeyDictionary[nn.Module, Dict[Hashable, Experience]]" = (
    weakref.WeakKeyDictionary()
)
