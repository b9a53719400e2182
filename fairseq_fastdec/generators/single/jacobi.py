"""The three algorithms of Santilli et al. (ACL 2023): PJ, PGJ and HGJ decoding."""

import time
from abc import abstractmethod
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from ..hypothesis import Hypotheses
from ..sources import Sources
from ..statistics import SentenceRecord, Statistics
from .batch import Batch
from .compiled_search import JacobiOptions
from .fixed_point import FixedPointGenerator
from .greedy import decode_greedily


class BlockJacobiGenerator(FixedPointGenerator):
    """Solves block after block, up to a horizon, and goes on from there token by token.

    A block is done when an iteration leaves all that it read unchanged (equation 5, over the
    tokens that are fed, as in the authors' code: the answer after the last of them is then final,
    too). No draft outlives its block.
    """

    def decode(self, batch: Batch, bos: int, prefix: Optional[Tensor]) -> None:
        self._horizon = self.horizon(batch)
        super().decode(batch, bos, prefix)

    def block_length(self, batch: Batch) -> int:
        """The number of tokens that are solved in parallel: the paper's b."""
        return min(self.options.jacobi_block_size, batch.max_len + 1)

    def search_options(self) -> Optional[JacobiOptions]:
        return JacobiOptions(
            block_size=self.options.jacobi_block_size,
            ends_inside_blocks=True,
            waits_behind_eos=self.gives_up_behind_eos(),
            drafts=self.compiled_drafts(replaces_answers=False),
        )

    @abstractmethod
    def horizon(self, batch: Batch) -> Tensor:
        """The number of tokens of each sentence that are solved in blocks: int64 ``[B]``."""

    def widths(self, batch: Batch) -> Tensor:
        to_go = self._horizon[batch.sentence] - batch.lengths
        return to_go.clamp(min=1, max=self.block_length(batch))

    def taken(self, settled: Tensor, widths: Tensor, answers: Tensor) -> Tensor:
        is_final = torch.arange(answers.size(1), device=answers.device) < settled[:, None]
        has_eos = (answers.eq(self.eos) & is_final).any(dim=1)
        return torch.where((settled == widths) | has_eos, settled, 0)


class GSJacobiGenerator(BlockJacobiGenerator):
    """PGJ, Algorithm 2: blocks of b tokens to the end.

    The end is the longest output allowed, and a settled EOS ends the sentence; or, as in the
    paper's measurements, the length of greedy decoding's output (``--oracle-length``). A pass of
    its own finds that length first. ``statistics.oracle_seconds`` holds the time that it takes, and
    no other counter includes the pass, for the paper assumes the length to be known.
    """

    def gives_up_behind_eos(self) -> bool:
        # The paper's measurements, which --oracle-length repeats, answer every position.
        return not self.options.oracle_length

    def translate(
        self, sources: Sources, ids: List[int], bos: int, prefix: Optional[Tensor]
    ) -> Tuple[Hypotheses, List[SentenceRecord]]:
        if self.options.oracle_length:
            started = time.perf_counter()
            self._oracle = self._greedy_lengths(sources, bos, prefix)
            self.statistics.oracle_seconds += time.perf_counter() - started
        return super().translate(sources, ids, bos, prefix)

    def _greedy_lengths(self, sources: Sources, bos: int, prefix: Optional[Tensor]) -> Tensor:
        """The lengths of greedy decoding's outputs, EOS included: int64 ``[B]``."""
        batch = Batch(
            self.session,
            self.rules,
            Statistics(),
            sources,
            prefix=prefix,
            best_tokens=self._best_tokens,
        )
        decode_greedily(batch, bos, prefix)
        return batch.final_lengths

    def horizons(self, sources: Sources) -> Optional[Tensor]:
        return self._oracle if self.options.oracle_length else None

    def horizon(self, batch: Batch) -> Tensor:
        return self._oracle if self.options.oracle_length else _to_the_end(batch)


class JacobiGenerator(GSJacobiGenerator):
    """PJ, Algorithm 1: the whole output is one block."""

    def search_options(self) -> Optional[JacobiOptions]:
        return super().search_options()._replace(block_size=None)

    def block_length(self, batch: Batch) -> int:
        return batch.max_len + 1


class HybridJacobiGenerator(BlockJacobiGenerator):
    """HGJ, Algorithm 3: blocks of b tokens up to length h, then token by token.

    h is ``--parallel-len-a`` times the number of source tokens plus ``--parallel-len-b``. Positions
    behind EOS are answered with their block: when it is done, and so how many iterations the
    algorithm takes, depends on them.
    """

    def search_options(self) -> Optional[JacobiOptions]:
        return super().search_options()._replace(ends_inside_blocks=False)

    def horizons(self, sources: Sources) -> Optional[Tensor]:
        a, b = self.options.parallel_len_a, self.options.parallel_len_b
        if a == 0 and b is None:
            return None
        longest = self.rules.max_len(sources.width) + 1
        # In double precision, and not beyond the longest output allowed: int64 ends somewhere.
        return (a * sources.lengths.double() + min(b or 0, longest)).clamp(max=longest).long()

    def horizon(self, batch: Batch) -> Tensor:
        horizons = self.horizons(batch.sources)
        return _to_the_end(batch) if horizons is None else horizons

    def taken(self, settled: Tensor, widths: Tensor, answers: Tensor) -> Tensor:
        # Line 10: EOS counts when its block is done.
        return torch.where(settled == widths, settled, 0)


def _to_the_end(batch: Batch) -> Tensor:
    """The longest output allowed, EOS included, for each sentence: int64 ``[B]``."""
    return torch.full_like(batch.source_lengths, batch.max_len + 1)
