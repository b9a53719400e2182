"""HGJ, Hybrid GS-Jacobi decoding (Santilli et al. 2023, Algorithm 3)."""

from typing import Optional

from torch import Tensor

from ..sources import Sources
from .fixed_point import FixedPointMethod


class HybridJacobi(FixedPointMethod):
    """Blocks of b tokens up to length h, then one token at a time to EOS.

    h is ``--parallel-len-a`` times the number of source tokens plus ``--parallel-len-b``, by
    default the longest output allowed.
    """

    # Line 10: EOS counts once its block is done, so that all of the block has to be solved.
    waits_behind_eos = False
    ends_within_block = False

    def horizons(self, sources: Sources, bos: int, prefix: Optional[Tensor]) -> Optional[Tensor]:
        a, b = self.options.parallel_len_a, self.options.parallel_len_b
        if a == 0 and b is None:
            return None
        longest = self.rules.max_len(sources.width) + 1
        # In double precision, and not beyond the longest output allowed: int64 ends somewhere.
        h = a * sources.lengths.double() + min(b or 0, longest)
        return h.clamp(max=longest).long()
