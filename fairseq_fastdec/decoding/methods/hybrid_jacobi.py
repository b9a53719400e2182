"""HGJ, Hybrid GS-Jacobi decoding (Santilli et al. 2023, Algorithm 3)."""

import torch
from torch import Tensor

from .fixed_point import FixedPointMethod
from .outputs import OutputBatch


class HybridJacobi(FixedPointMethod):
    """Blocks of b tokens up to length h, then one token at a time to EOS.

    h is ``--parallel-len-a`` times the number of source tokens plus ``--parallel-len-b``, by
    default the longest output allowed.
    """

    # Line 10: EOS counts once its block is done, so that all of the block has to be solved.
    waits_behind_eos = False
    ends_within_block = False

    def horizon(self, batch: OutputBatch) -> Tensor:
        a, b = self.options.parallel_len_a, self.options.parallel_len_b
        longest = batch.max_len + 1
        if a == 0 and b is None:
            return torch.full_like(batch.final_lengths, longest)
        h = a * batch.sources.lengths.double() + min(b or 0, longest)
        return h.clamp(max=longest).long()

    def block_size(self, batch: OutputBatch) -> int:
        return min(self.options.jacobi_block_size, batch.max_len + 1)
