"""Checks which kind of network supports a model."""

import inspect
from collections.abc import Sequence
from typing import Optional

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import nn

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


def check_language_model(model: nn.Module) -> None:
    """Reject language models that :mod:`.transformer` does not support.

    Raises:
        UnsupportedModel: the message names the first part that is not stock.
    """
    problem = next(departures(model, is_lm=True), None)
    if problem is not None:
        raise UnsupportedModel(f"--lm-path: {problem}; use --decoding fairseq for it")


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


def check_dictionaries(
    models: Sequence[FairseqEncoderDecoderModel],
    source: Optional[Dictionary],
    target: Dictionary,
) -> None:
    """Raise an error for models with fewer types than the dictionaries, if that can be determined.

    Args:
        source: ``None`` if sources are not tokens.

    Raises:
        ValueError: for such a model; it names the side and both numbers.
    """
    for model in models:
        for side, coder, dictionary in (
            ("source", model.encoder, source),
            ("target", model.decoder, target),
        ):
            for n_types in _numbers_of_types(coder):
                if dictionary is not None and n_types < len(dictionary):
                    raise ValueError(
                        f"--path: the model has {n_types} {side} types, and the {side} dictionary "
                        f"{len(dictionary)}; decode it with the dictionaries that it was trained "
                        "with"
                    )


def _numbers_of_types(coder: nn.Module) -> Sequence[int]:
    embedding = getattr(coder, "embed_tokens", None)
    output = getattr(coder, "output_projection", None)
    numbers = [embedding.num_embeddings] if isinstance(embedding, nn.Embedding) else []
    return numbers + ([output.out_features] if isinstance(output, nn.Linear) else [])
