"""Checks on input: tokens must be in the dictionaries, and sources must not be empty.

Any other token would index memory beyond the embedding. torch reports this only on some devices,
much later, and without naming the input that contains the token.
"""

from collections.abc import Sequence
from typing import Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor, nn

from .sources import Sources, are_tokens

BINARISED = (
    "the data were binarised with another dictionary: binarise them with those of the model "
    "(fairseq-preprocess --srcdict, --tgtdict)"
)


def check_ids(what: str, ids: Tensor, dictionary: Dictionary, remedy: str) -> None:
    """Raise an error for ids outside of a dictionary; on a GPU, with a single transfer.

    Args:
        ids: integers of any shape.

    Raises:
        ValueError: for such an id; it names ``what``, the id and the remedy.
    """
    if not ids.numel():
        return
    least, most = torch.stack(ids.aminmax()).tolist()
    if least < 0 or most >= len(dictionary):
        wrong = least if least < 0 else most
        raise ValueError(
            f"{what}: the token {wrong} is not in the dictionary of {len(dictionary)} types; "
            f"{remedy}"
        )


def check_request(
    sources: Sources,
    numbers: Sequence[int],
    prefix: Optional[Tensor],
    bos: int,
    source: Optional[Dictionary],
    target: Dictionary,
) -> None:
    """Raise an error for tokens that are not in the ``source`` or ``target`` dictionary.

    Args:
        sources: if they are not tokens, only their lengths are checked.
        numbers: the sentence numbers for error messages.
        prefix: forced first tokens ``[B, P]``, or ``None``.
        bos: the token before the first.

    Raises:
        ValueError: for such tokens, for empty sources, and for a prefix of the wrong shape.
    """
    if source is not None and are_tokens(sources.content):
        check_ids("src_tokens", sources.content, source, BINARISED)
    _check_not_empty(sources, numbers)
    if not 0 <= bos < len(target):
        raise ValueError(
            f"bos_token: the token {bos} is not in the dictionary of {len(target)} types; give one "
            "that is, or omit it for EOS"
        )
    if prefix is None:
        return
    n_sentences = sources.n
    if prefix.dim() != 2 or prefix.size(0) != n_sentences or not are_tokens(prefix):
        raise ValueError(
            f"prefix_tokens: {prefix.dtype} {list(prefix.shape)} for {n_sentences} sentences; give "
            f"whole numbers [{n_sentences}, P], padded on the right"
        )
    check_ids("prefix_tokens (--prefix-size)", prefix, target, BINARISED)


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


def _check_not_empty(sources: Sources, numbers: Sequence[int]) -> None:
    """Raise an error for empty sources, whose attention would be NaN.

    fairseq's own generator fails with an assertion or an error about shapes. Its data never contain
    such a source: an empty line is EOS.
    """
    is_empty = sources.lengths.eq(0)
    if is_empty.any():
        empty = ", ".join(str(numbers[row]) for row in is_empty.nonzero().flatten().tolist())
        raise ValueError(
            f"src_tokens: only padding in sentences {empty}; leave them out, or end every source "
            "with EOS"
        )


def _numbers_of_types(coder: nn.Module) -> Sequence[int]:
    embedding = getattr(coder, "embed_tokens", None)
    output = getattr(coder, "output_projection", None)
    numbers = [embedding.num_embeddings] if isinstance(embedding, nn.Embedding) else []
    return numbers + ([output.out_features] if isinstance(output, nn.Linear) else [])
