"""Checks which kind of network supports a model."""

import inspect
from typing import Optional

from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder

from ..packing.stock_decoders import departures, is_nat

INSTEAD = "use --decoding fairseq for this model"
INSTEAD_OF_NAT = "decode it with --task translation_lev"


class UnsupportedModel(ValueError):
    """A model that cannot be decoded exactly; the message names the part and a remedy."""


def check_supported(model: FairseqEncoderDecoderModel) -> None:
    """Reject models that neither :mod:`.transformer` nor :mod:`.incremental` supports.

    Raises:
        UnsupportedModel: the message names the first part that is not stock.
    """
    problem = departure_from_stock(model)
    if problem is not None and not decodes_incrementally(model):
        instead = INSTEAD_OF_NAT if is_nat(getattr(model, "decoder", None)) else INSTEAD
        raise UnsupportedModel(f"{problem}; {instead}")


def departure_from_stock(model: FairseqEncoderDecoderModel) -> Optional[str]:
    """Describe the first part of a model that differs from a stock transformer, or ``None``."""
    return next(departures(model), None)


def decodes_incrementally(model: FairseqEncoderDecoderModel) -> bool:
    """Return True if fairseq's incremental decoding supports a model, one token at a time.

    Non-autoregressive decoders inherit its interface without implementing it. Prediction heads and
    several tokens a step need a stock transformer.
    """
    if not isinstance(model, FairseqEncoderDecoderModel):
        return False
    decoder = model.decoder
    return (
        isinstance(decoder, FairseqIncrementalDecoder)
        and "incremental_state" in inspect.signature(decoder.forward).parameters
        and not hasattr(decoder, "head_features")
        and getattr(decoder, "tokens_per_step", 1) == 1
    )
