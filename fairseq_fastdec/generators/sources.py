"""Sources are checked before anything is computed from them."""

from typing import Sequence

from torch import Tensor


def check_sources(tokens: Tensor, pad: int, ids: Sequence[int]) -> None:
    """Refuse sources without a token: attention over nothing gives NaN, and any translation.

    fairseq's own generator ends in an assertion there, or in an error about shapes. Its data never
    hold such a source: an empty line is EOS.

    Args:
        tokens: int64 ``[B, S]``, padded on either side.
        ids: the sentences' numbers.

    Raises:
        ValueError: it names the sentences.
    """
    has_token = tokens.ne(pad).any(dim=1)
    if not bool(has_token.all()):
        empty = ", ".join(str(ids[row]) for row in (~has_token).nonzero().flatten().tolist())
        raise ValueError(
            f"src_tokens: no token, or padding alone, in sentences {empty}; leave them out, or end "
            "every source with EOS"
        )
