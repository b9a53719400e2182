"""The engine: stock decoders for ragged rows, several tokens a step, from their own parameters.

It knows nothing of search. Generators talk to :class:`EnsembleSession` only.
"""

from .network.counting import alike, count_tokens, extremes, filled, first_numbers, nothing
from .network.encoder import select_sentences
from .network.own_weights import ReleasedWeights
from .network.release import release_once_prepared
from .network.support import UnsupportedModel
from .session.compaction import compaction, inheritance
from .session.decoder_session import DecoderSession
from .session.ensemble import EnsembleSession
from .session.features import Features, at
from .session.incremental import IncrementalSession
from .session.output_layer import ProposalWays
from .session.scores import Scores
from .session.shortlist import Shortlist
from .session.tree import TokenTree

__all__ = [
    "DecoderSession",
    "EnsembleSession",
    "Features",
    "IncrementalSession",
    "ProposalWays",
    "ReleasedWeights",
    "Scores",
    "Shortlist",
    "TokenTree",
    "UnsupportedModel",
    "alike",
    "at",
    "compaction",
    "count_tokens",
    "extremes",
    "filled",
    "first_numbers",
    "inheritance",
    "nothing",
    "release_once_prepared",
    "select_sentences",
]
