"""HGJ, Hybrid GS-Jacobi decoding (Santilli et al. 2023, Algorithm 3)."""

from dataclasses import dataclass
from typing import Optional

from torch import Tensor

from ...engine.searches import SearchOptions
from ..option_rules import option
from ..request import Request
from .fixed_point import FixedPointMethod


@dataclass
class HybridJacobiOptions:
    """The options for h of the paper."""

    parallel_len_a: float = option(
        0.0,
        "hybrid_jacobi: solve in parallel up to ax + b tokens, where x is the source length, then "
        "continue token by token (default: up to the longest output allowed)",
        methods=("hybrid_jacobi",),
        at_least=0,
        at_most=(1e9, "no source or output is that long"),
    )
    parallel_len_b: Optional[int] = option(
        None, "hybrid_jacobi: see --parallel-len-a", methods=("hybrid_jacobi",), at_least=0
    )


class HybridJacobi(FixedPointMethod):
    """Blocks of b tokens up to length h, then one token at a time to EOS.

    h is ``--parallel-len-a`` times the number of source tokens plus ``--parallel-len-b``, by
    default the longest output allowed.
    """

    # Line 10: EOS counts only when its block is done, so the whole block has to be solved.
    waits_behind_eos = False
    ends_within_block = False

    def horizons(self, request: Request) -> Tensor:
        longest = super().horizons(request)
        a, b = self.options.parallel_len_a, self.options.parallel_len_b
        if a == 0 and b is None:
            return longest
        # In double precision, and at most the longest output, to avoid overflow of int64.
        added = longest.double().clamp(max=b or 0)
        return (a * request.sources.lengths.double() + added).minimum(longest.double()).long()

    def search_options(self) -> SearchOptions:
        a, b = self.options.parallel_len_a, self.options.parallel_len_b
        kind, options = super().search_options()
        own = {"parallel_len_a": a, "parallel_len_b": -1 if b is None else b}
        return SearchOptions(kind, {**options, **own})
