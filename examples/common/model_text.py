"""The example's test set and training text in the subwords of a bundled model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from fairseq.data import Dictionary
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig

from . import en_de
from .random_models import write_side

LANGUAGES = ("en", "de")


def write_test_set(
    data: Path, model: Path, repeat: int = 1, n_sentences: Optional[int] = None
) -> None:
    """Binarise the test set like fairseq-preprocess, into a directory that is created.

    Args:
        model: a directory with dictionaries and ``bpe.codes``.
        repeat: how often the set is repeated.
        n_sentences: only the first ones.
    """
    data.mkdir(exist_ok=True)
    for language in LANGUAGES:
        text = (en_de.EN_DE / "data" / f"test.{language}").read_text(encoding="utf-8")
        write_lines(data, model, language, text.splitlines()[:n_sentences], repeat)


def write_training_text(data: Path, model: Path) -> None:
    """Binarise LibreOffice's help as the training set; see :func:`write_test_set`."""
    for language in LANGUAGES:
        write_lines(data, model, language, en_de.training_lines(language), split="train")


def write_lines(
    data: Path,
    model: Path,
    language: str,
    lines: Sequence[str],
    repeat: int = 1,
    split: str = "test",
) -> None:
    """Binarise one side of a set; see :func:`write_test_set`."""
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(model / "bpe.codes")))
    dictionary = Dictionary.load(str(model / f"dict.{language}.txt"))
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language, target_lang=language))
    words = (bpe.encode(tokenizer.encode(line)) for line in lines)
    sentences = [dictionary.encode_line(own, add_if_not_exist=False) for own in words]
    write_side(data, LANGUAGES, language, dictionary, repeat * sentences, split)
