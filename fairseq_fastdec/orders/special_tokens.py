"""The tokens that begin and end a sentence in each order of decoding."""

from fairseq.data import Dictionary

from .token_order import TokenOrder

EOD = "<eod>"
# fairseq-preprocess pads dictionaries to this multiple, for faster matrix products on GPUs.
MULTIPLE = 8


def add_end_of_decoding(dictionary: Dictionary) -> None:
    """Append ``<eod>``, and pad the dictionary as fairseq-preprocess does.

    The result is deterministic. A dictionary that has the symbol is not changed.
    """
    if EOD not in dictionary:
        dictionary.add_symbol(EOD)
        dictionary.pad_to_multiple_(MULTIPLE)


def end_token(order: TokenOrder, dictionary: Dictionary) -> int:
    """The token that ends decoding: EOS, or with two tokens a step ``<eod>``."""
    return dictionary.eos() if order.tokens_per_step == 1 else dictionary.index(EOD)


def start_tokens(order: TokenOrder, dictionary: Dictionary) -> tuple[int, ...]:
    """The decoder's first input: EOS as in fairseq, or with two tokens a step (BOS, EOS)."""
    if order.tokens_per_step == 1:
        return (dictionary.eos(),)
    return (dictionary.bos(), dictionary.eos())
