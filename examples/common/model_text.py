"""The example's test set in the subwords of a bundled model."""

from pathlib import Path
from typing import Optional

from fairseq.data import Dictionary
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig

from .en_de import EN_DE
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
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(model / "bpe.codes")))
    for language in LANGUAGES:
        dictionary = Dictionary.load(str(model / f"dict.{language}.txt"))
        tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language, target_lang=language))
        text = (EN_DE / "data" / f"test.{language}").read_text(encoding="utf-8")
        lines = [bpe.encode(tokenizer.encode(line)) for line in text.splitlines()[:n_sentences]]
        sentences = [dictionary.encode_line(line, add_if_not_exist=False) for line in lines]
        write_side(data, LANGUAGES, language, dictionary, repeat * sentences)
