"""``--decoding auto``: greedy's output, with proposals while they save time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairseq.models import FairseqEncoderDecoderModel

from ..engine.network.heads import has_sequential_heads
from .methods.blockwise import Blockwise
from .methods.generator import SingleHypothesisMethod
from .methods.lookahead import Lookahead

if TYPE_CHECKING:
    from .options import DecodingOptions


class Auto(SingleHypothesisMethod):
    """Blockwise or lookahead decoding, with proposals only while they save time.

    The output is that of greedy decoding. Models with prediction heads are decoded by
    :class:`Blockwise`, others by :class:`Lookahead`. Measured times decide whether a step has
    proposals, see :mod:`.methods.proposal_times`.
    """

    @classmethod
    def for_models(
        cls, models: Sequence[FairseqEncoderDecoderModel], options: "DecodingOptions"
    ) -> type[SingleHypothesisMethod]:
        decoders = [model.decoder for model in models]
        kinds = set(map(has_sequential_heads, decoders))
        have_heads = all(getattr(decoder, "block_size", 0) for decoder in decoders)
        # For --decoding-block-size, Blockwise raises the error that names what is missing.
        if options.decoding_block_size or (have_heads and len(kinds) == 1):
            return Blockwise
        return Lookahead
