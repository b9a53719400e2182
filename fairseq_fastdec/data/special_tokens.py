"""The tokens that begin and end a sentence in each order of decoding."""

from fairseq.data import Dictionary

from .token_order import TokenOrder

EOD = "<eod>"
# Dictionaries are padded to this multiple by fairseq-preprocess: products on GPUs depend on it.
MULTIPLE = 8


def add_end_of_decoding(dictionary: Dictionary) -> None:
    """Add ``<eod>`` behind all other symbols, and pad the dictionary as fairseq-preprocess does.

    The same dictionary always becomes the same again. One that has the symbol stays as it is.
    """
    if EOD not in dictionary:
        dictionary.add_symbol(EOD)
        dictionary.pad_to_multiple_(MULTIPLE)


def end_token(order: TokenOrder, dictionary: Dictionary) -> int:
    """The token that ends decoding: EOS, or ``<eod>`` where two tokens are decoded at once."""
    return dictionary.eos() if order.tokens_per_step == 1 else dictionary.index(EOD)


def start_tokens(order: TokenOrder, dictionary: Dictionary) -> tuple[int, ...]:
    """The decoder's first input: EOS as in fairseq, or the pair (BOS, EOS) of the paper."""
    if order.tokens_per_step == 1:
        return (dictionary.eos(),)
    return (dictionary.bos(), dictionary.eos())
