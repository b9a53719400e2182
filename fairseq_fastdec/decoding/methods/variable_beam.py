"""VAR-BATCH: beams whose width depends on the candidates' scores (Yang et al. 2020, section 3)."""

from ...engine.rules import Limits
from ...translating.generation_options import DIVERSE_BEAM_GROUPS
from ..request import Request
from .beam import FixedBeam


class VariableBeam(FixedBeam):
    """Candidates are pruned by an absolute threshold and by their number (section 4).

    A translation does not depend on its batch: its maximum length follows from its own source, and
    --min-len is waived over its own prefix.
    """

    honours = FixedBeam.honours - {DIVERSE_BEAM_GROUPS}
    default_threshold = 1.5
    default_max_candidates = 5
    default_finalize = "paper"

    def limits(self, request: Request) -> Limits:
        lengths = request.sources.lengths.tolist()
        return self.rules.limits(lengths, request.n_forced(self.rules.pad).tolist())
