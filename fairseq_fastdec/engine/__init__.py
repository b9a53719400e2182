"""The engine: prepares and packs the weights of fairseq's models, and hands them to compiled code.

``cpp/`` holds the compiled searches. :class:`~.models.EngineModels` is what they decode with.
"""

from .models import EngineModels, ProposalWays, obstacle
from .network.own_weights import ReleasedWeights
from .network.release import release_once_prepared
from .shortlist import Shortlist

__all__ = [
    "EngineModels",
    "ProposalWays",
    "ReleasedWeights",
    "Shortlist",
    "obstacle",
    "release_once_prepared",
]
