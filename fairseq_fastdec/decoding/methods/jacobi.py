"""PJ, Parallel Jacobi decoding (Santilli et al. 2023, Algorithm 1)."""

from .gs_jacobi import GSJacobi


class Jacobi(GSJacobi):
    """The whole output is one block: all m equations are solved in every iteration."""

    block_size = None
