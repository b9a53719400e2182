"""``--decoding auto``: greedy's output, with proposals while they save time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairseq.models import FairseqEncoderDecoderModel

from ..packing.heads import heads_agree
from .methods.blockwise import Blockwise
from .methods.generator import SingleHypothesisMethod
from .methods.lookahead import Lookahead

if TYPE_CHECKING:
    from .options import DecodingOptions


class Auto(SingleHypothesisMethod):
    """Blockwise or lookahead decoding, with proposals only while they save time.

    The output is that of greedy decoding. Ensembles with prediction heads are decoded by
    :class:`Blockwise`, others by :class:`Lookahead`. In compiled code, measured times decide
    whether a step has proposals (``cpp/proposal_times.h``). In torch, steps have the proposals of
    heads, and no others.
    """

    @classmethod
    def for_models(
        cls, models: Sequence[FairseqEncoderDecoderModel], options: "DecodingOptions"
    ) -> type[SingleHypothesisMethod]:
        have_heads = any(getattr(model.decoder, "block_size", 0) for model in models)
        # For --decoding-block-size, Blockwise raises the error that names what is missing.
        if options.decoding_block_size or (have_heads and heads_agree(models)):
            return Blockwise
        return Lookahead
