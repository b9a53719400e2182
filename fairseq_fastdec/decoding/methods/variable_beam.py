"""VAR-BATCH: beams that are as wide as their candidates are good (Yang et al. 2020, section 3)."""

from ..sources import Sources
from .beam import FixedBeam


class VariableBeam(FixedBeam):
    """Candidates are pruned by an absolute threshold and by their number (section 4).

    A translation does not depend on its batch: its own source length limits its length, and its own
    prefix waives --min-len.
    """

    default_threshold = 1.5
    default_max_candidates = 5
    default_finalize = "paper"

    def max_lens(self, sources: Sources) -> list[int]:
        return [self.rules.max_len(length) for length in sources.lengths.tolist()]

    def n_waived(self, width: int, n_forced: int) -> int:
        return n_forced
