"""Converts text to tokens and back with the data of a bundle, as fairseq does."""

import importlib
import io
import threading
from collections.abc import Sequence
from typing import Any, Union

from ..data.text import ENCODING
from .long_words import speed_up_long_words
from .moses import skip_idle_work
from .results import Problem
from .vocabulary import MOST_WORDS, detokenized, joined, not_tokenized, numbered, segmented


class Moses:
    """fairseq's ``--tokenizer moses``.

    Attributes:
        tok: sacremoses' tokeniser.
    """

    def __init__(self, source_lang: str, target_lang: str, dash_splits: bool, escape: bool) -> None:
        sacremoses = _installed("sacremoses")
        self.tok = sacremoses.MosesTokenizer(source_lang)
        self._detokenizer = sacremoses.MosesDetokenizer(target_lang)
        self._dash_splits, self._escape = dash_splits, escape
        skip_idle_work(self)

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
    """fairseq's ``--bpe subword_nmt``."""

    def __init__(self, codes: bytes, separator: str) -> None:
        apply_bpe = _installed("subword_nmt.apply_bpe")
        file = io.StringIO(codes.decode(ENCODING))
        self._bpe = apply_bpe.BPE(file, -1, separator, None, [])
        speed_up_long_words(self._bpe)
        self._mark = separator + " "

    def encode(self, text: str) -> str:
        """Subwords, joined by spaces."""
        if len(self._bpe.cache) > MOST_WORDS:
            self._bpe.cache.clear()
        return self._bpe.process_line(text)

    def decode(self, text: str) -> str:
        """Words of subwords."""
        return (text + " ").replace(self._mark, "").rstrip()


class SentencePiece:
    """fairseq's ``--bpe sentencepiece``."""

    def __init__(self, model: bytes) -> None:
        self._pieces = _installed("sentencepiece").SentencePieceProcessor(model_proto=model)

    def encode(self, text: str) -> str:
        """Pieces, joined by spaces."""
        return " ".join(self._pieces.Encode(text, out_type=str))

    def decode(self, text: str) -> str:
        """Text of pieces."""
        return text.replace(" ", "").replace("\u2581", " ").strip()


KINDS = {kind.__name__: kind for kind in (Moses, SubwordNMT, SentencePiece)}


class Words:
    """A dictionary, without fairseq."""

    def __init__(self, symbols: bytes, bos: int, eos: int, unk: int) -> None:
        self._symbols = symbols.decode("utf-8").split("\n")
        self._indices = {symbol: number for number, symbol in enumerate(self._symbols)}
        self._ends, self._eos, self._unk = (eos, bos), eos, unk

    def numbers(self, text: str) -> list[int]:
        """The numbers of the words of a text, with EOS at the end."""
        return numbered(self._indices, self._unk, self._eos, text)

    def words(self, numbers: list[int]) -> str:
        """The words of numbers, joined by spaces."""
        return joined(self._symbols, self._symbols[self._unk], self._ends, numbers)


class BundleCodec:
    """Converts text to source tokens, and target tokens to text. Methods are thread-safe."""

    def __init__(
        self, source: dict[str, Any], target: dict[str, Any], coders: list[tuple[str, dict]]
    ) -> None:
        """
        Args:
            source, target: the arguments of :class:`Words`.
            coders: the tokeniser and the BPE, in the order of encoding: names from :data:`KINDS`
                with the arguments.

        Raises:
            ModuleNotFoundError: if a package that a coder needs is not installed.
        """
        self.source, self.target = Words(**source), Words(**target)
        self._coders = [KINDS[kind](**arguments) for kind, arguments in coders]
        # Tokenisers may not be thread-safe.
        self._lock = threading.Lock()

    def encode(self, text: str) -> Union[list[int], Problem]:
        """The tokens of a sentence, with EOS."""
        return self._encoded(text, self.source)

    def draft(self, texts: Sequence[str]) -> list[int]:
        """The tokens of translations, each with EOS; translations that raise are skipped."""
        return [token for text in texts for token in self.tokens(self.target, text)]

    def tokens(self, words: Words, text: str) -> list[int]:
        """The tokens of a text, with EOS; none if the tokeniser raises an error."""
        found = self._encoded(text, words)
        return found if isinstance(found, list) else []

    def _encoded(self, text: str, words: Words) -> Union[list[int], Problem]:
        try:
            with self._lock:
                text = segmented(text, self._coders)
        except Exception as error:  # third-party packages may raise anything
            return not_tokenized(error)
        return words.numbers(text)

    def decode(self, numbers: list[int]) -> str:
        """The text of tokens."""
        return self.text_of(self.target.words(numbers))

    def text_of(self, text: str) -> str:
        """The text of words or subwords that are separated by spaces."""
        with self._lock:
            return detokenized(text, reversed(self._coders))


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0].replace("_", "-")
        raise ModuleNotFoundError(
            f"the bundle's tokeniser needs the package {package}: pip install {package}"
        ) from error
