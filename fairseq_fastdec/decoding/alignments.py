"""Attention and alignments of hypotheses, as of fairseq's generators."""

from collections.abc import Sequence
from typing import Any, Optional

import torch
from fairseq import utils
from fairseq.data import data_utils
from torch import Tensor

from .hypothesis import Hypotheses
from .request import Request, Sources, are_tokens

NO_ATTENTION = (
    "--print-alignment, alignment: the model does not return attention to its source; remove it"
)
NO_TOKENS = (
    "--print-alignment, alignment: the model's sources are not tokens of a dictionary; remove it"
)


def kind_of(args: Any) -> Optional[str]:
    """``hard`` or ``soft``, the alignments that fairseq's generation options ask for, or ``None``.

    Args:
        args: fairseq's ``GenerationConfig``, or a namespace with some of its fields.
    """
    asked, replaced = (getattr(args, name, None) for name in ("print_alignment", "replace_unk"))
    if not asked and replaced is None:
        return None
    return "soft" if asked == "soft" else "hard"


@torch.no_grad()
def attention_of(
    models: Sequence[Any],
    sources: Tensor,
    lengths: Tensor,
    hypotheses: Sequence[Tensor],
    bos: int,
    pad: int,
    of_generator: bool = False,
) -> list[Tensor]:
    """The attention of H hypotheses to their sources, in one forward pass of fairseq's models.

    Args:
        models: the ensemble, in evaluation mode, with its weights.
        sources: int64 ``[H, S]`` on the device of the models, padded.
        lengths: the lengths of the sources, int64 ``[H]``.
        hypotheses: the tokens of each, int64 ``[m]`` with EOS.
        bos: the token before the first.
        of_generator: whether it is the attention that fairseq's generators use: without models of
            ``--full-context-alignment``, that of the last layer.

    Returns:
        for each hypothesis, float32 ``[n, m]`` on the CPU, where n are the tokens of its source
        without padding: the mean over heads and the ensemble. Models of ``transformer_align`` use
        the layer and heads that were trained to align.

    Raises:
        ValueError: for a model without attention to its sources.
    """
    inputs = [torch.cat([tokens.new_tensor([bos]), tokens[:-1]]) for tokens in hypotheses]
    fed = data_utils.collate_tokens(inputs, pad).to(sources.device)
    is_whole = not of_generator or any(
        getattr(model, "full_context_alignment", False) for model in models
    )
    found = []
    for model in models:
        try:
            output = (
                model(sources, lengths, fed)
                if is_whole
                else model.decoder(fed, model.encoder(sources, lengths))
            )
            found.append(output[1]["attn"][0].float())
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(NO_ATTENTION) from error
    rows = zip(torch.stack(found).mean(dim=0).cpu(), sources.ne(pad).cpu(), hypotheses)
    return [own[: len(tokens), places].T for own, places, tokens in rows]


def complete(
    models: Sequence[Any],
    request: Request,
    pad: int,
    hypotheses: Hypotheses,
    of_generator: bool = False,
) -> None:
    """Set the attention of the hypotheses of a batch that have none; see :func:`attention_of`.

    Raises:
        ValueError: for a model without attention, and for sources that are not tokens.
    """
    missing = [
        (row, own)
        for row, of_sentence in enumerate(hypotheses)
        for own in of_sentence
        if not own["attention"].numel()
    ]
    if not missing:
        return
    sources = request.sources
    if not are_tokens(sources.content):
        raise ValueError(NO_TOKENS)
    rows = [row for row, _ in missing]
    given = (sources.content[rows], sources.lengths[rows], [own["tokens"] for _, own in missing])
    found = attention_of(models, *given, request.bos, pad, of_generator)
    for (_, own), attention in zip(missing, found):
        own["attention"] = attention


def align(sources: Sources, pad: int, eos: int, hypotheses: Hypotheses, kind: str) -> None:
    """Set the alignments of the hypotheses of a batch as fairseq prints them.

    Args:
        sources: tokens.
        kind: ``hard`` or ``soft``.
    """
    extract = utils.extract_soft_alignment if kind == "soft" else utils.extract_hard_alignment
    for row, of_sentence in zip(sources.content.cpu(), hypotheses):
        source = row[row.ne(pad)]
        for own in of_sentence:
            tokens = own["tokens"].cpu()
            own["alignment"] = extract(own["attention"].T.clone(), source, tokens, pad, eos)
