"""VAR-BATCH: beams whose width depends on the candidates' scores (Yang et al. 2020, section 3)."""

import numpy as np

from ..sources import Sources
from .beam import FixedBeam


class VariableBeam(FixedBeam):
    """Candidates are pruned by an absolute threshold and by their number (section 4).

    A translation does not depend on its batch: its maximum length follows from its own source, and
    --min-len is waived over its own prefix.
    """

    default_threshold = 1.5
    default_max_candidates = 5
    default_finalize = "paper"

    def max_lens(self, sources: Sources) -> list[int]:
        return [self.rules.max_len(length) for length in sources.lengths.tolist()]

    def n_waived(self, width: int, n_forced: np.ndarray) -> np.ndarray:
        return n_forced
