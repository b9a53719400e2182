"""Restores the natural order of tokens in hypotheses."""

from collections.abc import Sequence

from fairseq.data import Dictionary

from ..orders.token_order import TokenOrder
from .hypothesis import NONE, Hypotheses, Hypothesis


def natural(
    tokens: Sequence[int], scores: Sequence[float], order: TokenOrder, end: int, eos: int
) -> tuple[list[int], list[float]]:
    """A sentence in natural order, ending in EOS, and the scores of its tokens.

    A token paired with an end token belongs to the sentence. The score of EOS is the sum over all
    end tokens.

    Args:
        tokens, scores: in decoding order, with the end tokens.
        end: the token that ends decoding.
    """
    slots = [slot for slot, token in enumerate(tokens) if token != end]
    if order.name == "bidirectional":
        # Left tokens run from the beginning, right tokens from the end.
        right = [slot for slot in slots if slot % 2]
        slots = [slot for slot in slots if slot % 2 == 0] + right[::-1]
    elif order.name == "r2l":
        slots = slots[::-1]
    of_ends = sum(own for own, token in zip(scores, tokens) if token == end)
    return [tokens[slot] for slot in slots] + [eos], [scores[slot] for slot in slots] + [of_ends]


def in_natural_order(
    hypotheses: Hypotheses, order: TokenOrder, end: int, dictionary: Dictionary
) -> Hypotheses:
    """Reorder the hypotheses of any fairseq generator from decoding order to natural order.

    Attention and alignment, which would be in decoding order, are left empty.
    """

    def reordered(one: Hypothesis) -> Hypothesis:
        tokens, scores = one["tokens"], one["positional_scores"]
        own = natural(tokens.tolist(), scores.tolist(), order, end, dictionary.eos())
        parts = {
            "tokens": tokens.new_tensor(own[0]),
            "positional_scores": scores.new_tensor(own[1]),
        }
        return {**one, **parts, "attention": NONE, "alignment": NONE}

    return [[reordered(one) for one in own] for own in hypotheses]
