"""PGJ, Parallel GS-Jacobi decoding (Santilli et al. 2023, Algorithm 2)."""

import time
from typing import List, Optional, Sequence, Tuple

import torch
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor

from ...generators.hypothesis import Hypotheses
from ...generators.sources import Sources
from ...generators.statistics import SentenceRecord
from .fixed_point import FixedPointMethod
from .greedy import decode_greedily
from .outputs import OutputBatch


class GSJacobi(FixedPointMethod):
    """Blocks of b tokens, one after the other, up to the m-th token.

    The paper takes m, the length of greedy decoding's output, to be known. ``--oracle-length``
    finds it by a pass of greedy decoding, whose time ``statistics.oracle_seconds`` holds and no
    other counter. Otherwise m is the longest output allowed, and a final EOS ends the output.
    """

    def set_up(self, models: Sequence[FairseqEncoderDecoderModel]) -> None:
        super().set_up(models)
        # The paper's measurements solve every equation of a block.
        self.waits_behind_eos = not self.options.oracle_length

    def translate(
        self, sources: Sources, ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        if self.options.oracle_length:
            started = time.perf_counter()
            batch = self.new_batch(sources, prefix)
            decode_greedily(batch, batch.open(bos, prefix))
            self._greedy_lengths = batch.final_lengths
            self.statistics.oracle_seconds += time.perf_counter() - started
        return super().translate(sources, ids, bos, prefix)

    def horizon(self, batch: OutputBatch) -> Tensor:
        # Line 2: m <- len(y)
        if self.options.oracle_length:
            return self._greedy_lengths
        return torch.full_like(batch.final_lengths, batch.max_len + 1)

    def block_size(self, batch: OutputBatch) -> int:
        return min(self.options.jacobi_block_size, batch.max_len + 1)
