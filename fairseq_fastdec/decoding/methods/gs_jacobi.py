"""PGJ, Parallel GS-Jacobi decoding (Santilli et al. 2023, Algorithm 2)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np
from fairseq.models import FairseqEncoderDecoderModel

from ...engine.searches import SearchOptions
from ..compiled import CompiledSearch
from ..option_rules import option
from ..request import Request
from ..statistics import Statistics
from .fixed_point import FixedPointMethod
from .greedy import decode_greedily


@dataclass
class GSJacobiOptions:
    """The options for b and m of the paper."""

    jacobi_block_size: int = option(
        3,
        "gs_jacobi, hybrid_jacobi: number of tokens solved in parallel (b in the paper)",
        methods=("gs_jacobi", "hybrid_jacobi"),
        at_least=1,
    )
    oracle_length: bool = option(
        False,
        "jacobi, gs_jacobi: solve for exactly the number of tokens of greedy decoding, as in the "
        "paper's measurements. For measurements only: greedy decoding runs first to find that "
        "length, and its time is reported separately (default: solve for the longest output "
        "allowed)",
        methods=("jacobi", "gs_jacobi"),
    )


class GSJacobi(FixedPointMethod):
    """Blocks of b tokens, one after the other, up to the m-th token.

    The paper assumes that m, the length of greedy decoding's output, is known. ``--oracle-length``
    finds it with a pass of greedy decoding, which is counted only in ``statistics.oracle_seconds``.
    Otherwise m is the longest output allowed, and a final EOS ends the output.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        super().set_up(models)
        # The paper's measurements solve every equation of a block.
        self.waits_behind_eos = not self.options.oracle_length

    def choose_search(
        self, models: Sequence[FairseqEncoderDecoderModel]
    ) -> Optional[CompiledSearch]:
        search = super().choose_search(models)
        self._greedy_search = self.compiled_search(SearchOptions("blocks", {}))
        return search

    def prepare_request(self, request: Request) -> None:
        # Line 2: m <- len(y)
        if not self.options.oracle_length:
            return
        if self.decodes_compiled():
            limits = self.limits(request)
            # Every method needs packed weights, so packing them does not count.
            self._greedy_search.prepared(request.sources.width, int(limits.max_lens.max()))
            started = time.perf_counter()
            results = self._greedy_search.results(request, limits, Statistics())
            lengths = {own.id: own.hypotheses[0]["tokens"].numel() for own in results}
            request.horizons = np.array([lengths[number] for number in range(request.n)])
        else:
            started = time.perf_counter()
            batch = self.new_batch(request)
            decode_greedily(batch, batch.open())
            request.horizons = batch.output_lengths().cpu().numpy()
        self.statistics.oracle_seconds += time.perf_counter() - started
