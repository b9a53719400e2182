"""Tokens from files are checked where they enter: they have to be in the dictionaries.

Any other token names memory beyond the embedding. torch says so on some devices only, long
afterwards, and without naming the file that the token came from. And every source needs a token.
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
    "(fairseq-preprocess --srcdict, --tgtdict), or name the data's own with the model's"
)


def check_ids(what: str, ids: Tensor, dictionary: Dictionary, remedy: str) -> None:
    """Refuse ids outside of a dictionary; one reading and, on a GPU, one transfer.

    Args:
        ids: integers of any shape.

    Raises:
        ValueError: names ``what`` they are, the first such id, and the remedy.
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
    """Refuse a batch with tokens that are not in the ``source`` or ``target`` dictionary.

    Args:
        sources: those that are no tokens are not looked at, but for their lengths.
        numbers: the sentences' numbers, by which errors name them.
        prefix: forced first tokens ``[B, P]``, or ``None``.
        bos: the token before the first.

    Raises:
        ValueError: for such tokens, for sources without a token, and for a prefix of another shape.
    """
    if source is not None and are_tokens(sources.content):
        check_ids("src_tokens", sources.content, source, BINARISED)
    _check_not_empty(sources, numbers)
    if not 0 <= bos < len(target):
        raise ValueError(
            f"bos_token: the token {bos} is not in the dictionary of {len(target)} types; give one "
            "that is, or none for EOS"
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
    """Refuse models that have fewer types than the dictionaries, as far as they tell.

    Args:
        source: ``None`` where sources are no tokens.

    Raises:
        ValueError: names the side, and both numbers.
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
    """Refuse sources without a token: attention over nothing gives NaN, and any translation.

    fairseq's own generator ends in an assertion there, or in an error about shapes. Its data never
    hold such a source: an empty line is EOS.
    """
    is_empty = sources.lengths.eq(0)
    if is_empty.any():
        empty = ", ".join(str(numbers[row]) for row in is_empty.nonzero().flatten().tolist())
        raise ValueError(
            f"src_tokens: no token, or padding alone, in sentences {empty}; leave them out, or end "
            "every source with EOS"
        )


def _numbers_of_types(coder: nn.Module) -> Sequence[int]:
    embedding = getattr(coder, "embed_tokens", None)
    output = getattr(coder, "output_projection", None)
    numbers = [embedding.num_embeddings] if isinstance(embedding, nn.Embedding) else []
    return numbers + ([output.out_features] if isinstance(output, nn.Linear) else [])
