"""The engine: packs the weights of fairseq's models, and decodes with compiled code.

``cpp/`` has the compiled searches. :class:`~.models.EngineModels` prepares the models for them.
Importing the package imports neither torch nor fairseq.
"""

from typing import TYPE_CHECKING

from .. import lazy

if TYPE_CHECKING:
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

__getattr__ = lazy.names(
    __name__,
    {
        "EngineModels": ".models",
        "ProposalWays": ".models",
        "obstacle": ".models",
        "ReleasedWeights": ".network.own_weights",
        "release_once_prepared": ".network.release",
        "Shortlist": ".shortlist",
    },
)
