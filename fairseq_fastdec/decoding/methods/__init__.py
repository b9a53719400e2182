"""The decoding methods to read: one file for each, as its paper describes it, in torch alone.

They run on any device and for any model of fairseq, and they are the reference that the tests hold
the compiled search against. ``METHODS_TO_READ`` is their table.
"""

from typing import Any, Dict, Optional, Sequence, Type

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel

from ...generators.options import DecodingOptions
from .beam import FixedBeam
from .blockwise import Blockwise
from .double_token import DoubleToken
from .generator import MethodToRead
from .greedy import Greedy
from .gs_jacobi import GSJacobi
from .hybrid_jacobi import HybridJacobi
from .jacobi import Jacobi
from .lookahead import Lookahead
from .streaming import Streaming
from .variable_beam import VariableBeam

__all__ = ["METHODS_TO_READ", "MethodToRead", "build"]

METHODS_TO_READ: Dict[str, Type[MethodToRead]] = {
    "greedy": Greedy,
    "blockwise": Blockwise,
    "jacobi": Jacobi,
    "gs_jacobi": GSJacobi,
    "hybrid_jacobi": HybridJacobi,
    "lookahead": Lookahead,
    "beam": FixedBeam,
    "variable_beam": VariableBeam,
    "streaming": Streaming,
    "double_token": DoubleToken,
}


def build(
    models: Sequence[FairseqEncoderDecoderModel],
    dictionary: Dictionary,
    args: Any,
    options: DecodingOptions,
    symbols_to_strip_from_output: Sequence[int] = (),
    source_dictionary: Optional[Dictionary] = None,
    eos: Optional[int] = None,
) -> MethodToRead:
    """Build the method that ``--decoding`` names.

    Arguments are those of :class:`~fairseq_fastdec.generators.base.DecodingGenerator`.

    Raises:
        ValueError: for a method that is not in the table, and for a model or an option that the
            method cannot honour.
    """
    name = str(options.decoding)
    if name not in METHODS_TO_READ:
        raise ValueError(f"--decoding {name}: unknown; choose one of {', '.join(METHODS_TO_READ)}")
    method = METHODS_TO_READ[name]
    given = (models, dictionary, args, options, symbols_to_strip_from_output)
    return method(*given, source_dictionary, eos)
