"""The engine: stock decoders for ragged rows, several tokens a step, from their own parameters.

It knows nothing of search. Generators talk to :class:`EnsembleSession` only.
"""

from .compaction import compaction, inheritance
from .ensemble import EnsembleSession
from .incremental import IncrementalSession
from .session import DecoderSession
from .shortlist import Shortlist
from .support import UnsupportedModel
from .tree import TokenTree

__all__ = [
    "DecoderSession",
    "EnsembleSession",
    "IncrementalSession",
    "Shortlist",
    "TokenTree",
    "UnsupportedModel",
    "compaction",
    "inheritance",
]
