"""The decoding methods, and the functions that build their generators for fairseq.

Each method is one file in :mod:`.methods`; :data:`~.registry.METHODS` lists them.
:func:`register_decoding` adds one from another package.
"""

from typing import TYPE_CHECKING

from ..processes import lazy
from ..translating.registry import METHODS, generator_class, register_decoding

if TYPE_CHECKING:
    from .building import asked_for, build_generator, check_asked_for
    from .generator import DecodingGenerator
    from .options import DecodingOptions

__all__ = [
    "METHODS",
    "DecodingGenerator",
    "DecodingOptions",
    "asked_for",
    "build_generator",
    "check_asked_for",
    "generator_class",
    "register_decoding",
]

__getattr__ = lazy.names(
    __name__,
    {
        "DecodingGenerator": ".generator",
        "DecodingOptions": ".options",
        "asked_for": ".building",
        "build_generator": ".building",
        "check_asked_for": ".building",
    },
)
