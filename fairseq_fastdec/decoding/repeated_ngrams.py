"""fairseq's rule against repeated n-grams, ``--no-repeat-ngram-size``.

A token is forbidden if it would complete an n-gram that already occurs in the output. The token
before the first one and the prefix count as part of the output; tokens of the prefix are forced
even if they repeat n-grams. Scores of other tokens do not change.
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
