"""Text to the tokens of a model and back, as fairseq does: dictionaries, tokenisers and BPEs.

A dictionary is fairseq's ``Dictionary``, or the :class:`Words` of a bundle, which has the same
attributes.
"""

import io
import re
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Optional, Union

from ..data.text import ENCODING
from .long_words import speed_up_long_words
from .moses import lazy_patterns, skip_idle_work
from .results import Problem

# The BPEs of subword-nmt and GPT-2 cache every word; this limits the cache on large corpora.
MOST_WORDS = 50_000
# SentencePiece splits characters that it does not know into bytes, such as <0xE2>.
BYTE_PIECE = "<0x"
BYTE_PIECES = re.compile(r"<0x[0-9A-F]{2}>(?: <0x[0-9A-F]{2}>)*")


def numbers_of(dictionary: Any, words: Iterable[str]) -> list[int]:
    """The numbers of words, with EOS at the end."""
    indices, unk = dictionary.indices, dictionary.unk_index
    return [*(indices.get(word, unk) for word in words), dictionary.eos_index]


def words_of(
    dictionary: Any,
    numbers: Sequence[int],
    ignored: Optional[Collection[int]] = None,
    unknown: Optional[str] = None,
) -> list[str]:
    """The words of numbers.

    Args:
        ignored: the numbers to leave out (default: BOS and EOS).
        unknown: the word for UNK (default: the dictionary's).
    """
    if ignored is None:
        ignored = (dictionary.eos_index, dictionary.bos_index)
    symbols, unk = dictionary.symbols, dictionary.unk_index
    n_symbols, unk_word = len(symbols), dictionary.unk_word
    unknown = unk_word if unknown is None else unknown
    return [
        unknown if number == unk else symbols[number] if number < n_symbols else unk_word
        for number in numbers
        if number not in ignored
    ]


def segmented(text: str, coders: Iterable[Any]) -> str:
    """Tokenise text and split it into subwords.

    Args:
        coders: the tokeniser and the BPE, objects with ``encode(str) -> str`` or ``None``.
    """
    for coder in coders:
        if coder is not None:
            text = coder.encode(text)
    return text


def detokenized(text: str, coders: Iterable[Any]) -> str:
    """Undo :func:`segmented` with the BPE and the tokeniser, in this order."""
    for coder in coders:
        if coder is not None:
            text = coder.decode(text)
    return text


class Words:
    """The dictionary of a bundle, with the attributes of fairseq's that the functions use."""

    def __init__(self, symbols: bytes, bos: int, eos: int, unk: int) -> None:
        self.symbols = symbols.decode("utf-8").split("\n")
        self.indices = {symbol: number for number, symbol in enumerate(self.symbols)}
        self.bos_index, self.eos_index, self.unk_index = bos, eos, unk
        self.unk_word = self.symbols[unk]


class TextCodec:
    """Converts text to source tokens, and target tokens to text. Methods are thread-safe.

    Attributes:
        source, target: the dictionaries.
        coders: the tokeniser and the BPE, in the order of encoding: objects with ``encode(str) ->
            str`` and ``decode(str) -> str``, or ``None``.
        target_coders: those that encode the target language, which a model may have.
    """

    def __init__(
        self,
        source: Any,
        target: Any,
        coders: Sequence[Any],
        target_coders: Optional[Sequence[Any]] = None,
    ) -> None:
        self.source, self.target, self.coders = source, target, coders
        self.target_coders = coders if target_coders is None else target_coders
        for coder in (*coders, *(target_coders or ())):
            skip_idle_work(coder)
            speed_up_long_words(coder)
        # Tokenisers may not be thread-safe.
        self._lock = threading.Lock()

    def encode(self, text: str) -> Union[list[int], Problem]:
        """The tokens of a sentence, with EOS."""
        return self._tried(self.source_numbers, text)

    def encode_target(self, text: str) -> Union[list[int], Problem]:
        """The tokens of a translation, with EOS."""
        return self._encoded(self.target, text)

    def tokens(self, dictionary: Any, text: str) -> list[int]:
        """The tokens of a text, with EOS; none if the tokeniser raises an error."""
        found = self._encoded(dictionary, text)
        return found if isinstance(found, list) else []

    def draft(self, texts: Sequence[str]) -> list[int]:
        """The tokens of translations, each with EOS; translations that raise are skipped."""
        return [token for text in texts for token in self.tokens(self.target, text)]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of target tokens."""
        return self.text(self.words(self.target, numbers))

    def text(self, words: str) -> str:
        """The text of words or subwords that are separated by spaces."""
        if BYTE_PIECE in words:
            words = BYTE_PIECES.sub(_bytes_as_text, words)
        with self._lock:
            return detokenized(words, reversed(self.coders))

    def words(self, dictionary: Any, numbers: Sequence[int]) -> str:
        """The words of tokens, joined by spaces."""
        return " ".join(words_of(dictionary, numbers))

    def source_numbers(self, text: str) -> list[int]:
        """The tokens of a sentence; the tokeniser and the BPE may raise anything."""
        return numbers_of(self.source, self.segmented(text).split())

    def segmented(self, text: str, coders: Optional[Sequence[Any]] = None) -> str:
        """See :func:`segmented`; the words that the BPE has cached are limited."""
        coders = self.coders if coders is None else coders
        for coder in coders:
            cache = getattr(getattr(coder, "bpe", None), "cache", None)
            if isinstance(cache, dict) and len(cache) > MOST_WORDS:
                cache.clear()
        return segmented(text, coders)

    def _encoded(self, dictionary: Any, text: str) -> Union[list[int], Problem]:
        coders = self.target_coders if dictionary is self.target else self.coders

        def encode(text: str) -> list[int]:
            return numbers_of(dictionary, self.segmented(text, coders).split())

        return self._tried(encode, text)

    def _tried(self, encode: Callable[[str], list[int]], text: str) -> Union[list[int], Problem]:
        try:
            with self._lock:
                return encode(text)
        except Exception as error:  # third-party packages may raise anything
            details = f"the tokeniser or BPE raises {type(error).__name__}: {error}"
            return Problem("not tokenised", details)


class Moses:
    """fairseq's ``--tokenizer moses``.

    Attributes:
        tok: sacremoses' tokeniser.
    """

    def __init__(self, source_lang: str, target_lang: str, dash_splits: bool, escape: bool) -> None:
        with lazy_patterns():
            import sacremoses

        self.tok = sacremoses.MosesTokenizer(source_lang)
        self._detokenizer = sacremoses.MosesDetokenizer(target_lang)
        self._dash_splits, self._escape = dash_splits, escape

    def encode(self, text: str) -> str:
        """Tokens, joined by spaces."""
        return self.tok.tokenize(
            text,
            aggressive_dash_splits=self._dash_splits,
            return_str=True,
            escape=self._escape,
        )

    def decode(self, text: str) -> str:
        """Text of tokens."""
        return self._detokenizer.detokenize(text.split())


class SubwordNMT:
    """fairseq's ``--bpe subword_nmt``.

    Attributes:
        bpe: subword-nmt's BPE.
    """

    def __init__(self, codes: bytes, separator: str) -> None:
        from subword_nmt import apply_bpe

        self.bpe = apply_bpe.BPE(io.StringIO(codes.decode(ENCODING)), -1, separator, None, [])
        self._mark = separator + " "

    def encode(self, text: str) -> str:
        """Subwords, joined by spaces."""
        return self.bpe.process_line(text)

    def decode(self, text: str) -> str:
        """Words of subwords."""
        return (text + " ").replace(self._mark, "").rstrip()


class SentencePiece:
    """fairseq's ``--bpe sentencepiece``."""

    def __init__(self, model: bytes) -> None:
        from sentencepiece import SentencePieceProcessor

        self._pieces = SentencePieceProcessor(model_proto=model)

    def encode(self, text: str) -> str:
        """Pieces, joined by spaces."""
        return " ".join(self._pieces.Encode(text, out_type=str))

    def decode(self, text: str) -> str:
        """Text of pieces."""
        return text.replace(" ", "").replace("\u2581", " ").strip()


def _bytes_as_text(pieces: re.Match[str]) -> str:
    """The text of pieces of bytes; those that are not UTF-8 become U+FFFD."""
    numbers = (int(piece[len(BYTE_PIECE) : -1], 16) for piece in pieces[0].split())
    return bytes(numbers).decode("utf-8", errors="replace")


KINDS = {kind.__name__: kind for kind in (Moses, SubwordNMT, SentencePiece)}


def codec_of(
    source: dict[str, Any],
    target: dict[str, Any],
    coders: list[tuple[str, dict]],
    target_coders: Optional[list[tuple[str, dict]]] = None,
) -> TextCodec:
    """The codec of a bundle.

    Args:
        source, target: the arguments of :class:`Words`.
        coders: names from :data:`KINDS` with the arguments, in the order of encoding.
        target_coders: see :class:`TextCodec`.
    """
    made = [
        None if given is None else [KINDS[kind](**arguments) for kind, arguments in given]
        for given in (coders, target_coders)
    ]
    return TextCodec(Words(**source), Words(**target), made[0] or [], made[1])
