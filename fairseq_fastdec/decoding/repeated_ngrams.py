"""fairseq's rule against repeated n-grams, ``--no-repeat-ngram-size``.

A token is forbidden if it would complete an n-gram that the output holds already. The token before
the first one counts as a part of the output, and so does a prefix, whose own tokens are forced
whatever they repeat. Scores of other tokens stay as they are.
"""

from collections.abc import Sequence


def forbidden_after(context: Sequence[int], size: int) -> list[int]:
    """The tokens that followed earlier occurrences of the last ``size - 1`` tokens.

    Args:
        context: the token before the first, and the output so far.
    """
    n = size - 1
    last = context[len(context) - n :]
    return [context[at + n] for at in range(len(context) - n) if list(context[at : at + n]) == last]
