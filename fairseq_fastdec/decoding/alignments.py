"""Alignments of subwords by attention, as with fairseq's ``--print-alignment hard``."""

from collections.abc import Sequence
from typing import Any

import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.sequence_generator import EnsembleModelWithAlignment
from torch import Tensor

from ..translating.results import Alignment

NO_ATTENTION = "alignment True: the model does not return attention to its source; remove it"


@torch.no_grad()
def hard_alignments(
    models: Sequence[Any],
    sources: Tensor,
    lengths: Tensor,
    hypotheses: Sequence[Tensor],
    pad: int,
    eos: int,
) -> list[Alignment]:
    """Align H hypotheses with their sources in one forward pass of fairseq's models.

    Args:
        models: the ensemble, in evaluation mode, with its weights.
        sources: int64 ``[H, S]`` on the device of the models.
        lengths: the lengths of the sources, int64 ``[H]``.
        hypotheses: the tokens of each, int64 ``[m]`` with EOS.

    Returns:
        for each hypothesis, pairs of a source and a target subword, numbered from 0, without EOS
        and padding. The source subword has the largest attention in the last layer, averaged over
        heads and the ensemble. For ``transformer_align`` it is the attention of the layer and heads
        that were trained to align; fairseq's generator uses the last layer instead, unless the
        model was trained with ``--full-context-alignment``.

    Raises:
        ValueError: for a model without attention to its sources.
    """
    inputs, targets = (
        data_utils.collate_tokens(list(hypotheses), pad, eos, move_eos_to_beginning=is_input)
        for is_input in (True, False)
    )
    try:
        attention = EnsembleModelWithAlignment(list(models)).forward_align(
            sources, lengths, inputs.to(sources.device)
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError(NO_ATTENTION) from error
    if attention is None:
        raise ValueError(NO_ATTENTION)
    rows = zip(attention.float().cpu(), sources.cpu(), targets.cpu())
    return [utils.extract_hard_alignment(*row, pad, eos) for row in rows]
