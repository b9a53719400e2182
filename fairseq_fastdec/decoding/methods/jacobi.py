"""PJ, Parallel Jacobi decoding (Santilli et al. 2023, Algorithm 1)."""

from .gs_jacobi import GSJacobi
from .outputs import OutputBatch


class Jacobi(GSJacobi):
    """The whole output is one block: all m equations are solved in every iteration."""

    def block_size(self, batch: OutputBatch) -> int:
        return batch.max_len + 1
