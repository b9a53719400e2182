"""Models that :class:`~.transformer.TransformerNetwork` can step, and those that fairseq must."""

import inspect
from typing import Optional

from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import nn

from ..stock_decoders import departures


def departure_from_stock(model: nn.Module) -> Optional[str]:
    """The first part of a model that differs from stock transformers', in words; or ``None``."""
    return next(departures(model), None)


def decodes_incrementally(model: nn.Module) -> bool:
    """Whether fairseq's incremental decoding can step a model, one token at a time.

    Non-autoregressive decoders inherit its interface and do not keep it. Prediction heads and
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
