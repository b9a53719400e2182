"""sacrebleu's BLEU of detokenised text, for the benchmark and the examples."""

from pathlib import Path
from typing import Optional

from sacrebleu.metrics import BLEU

from fairseq_fastdec.data.text import opened


class Scorer:
    """sacrebleu's corpus BLEU of detokenised translations with one reference each."""

    def __init__(self, tokenizer: Optional[str] = None, language: str = "") -> None:
        """
        Args:
            tokenizer: a tokenizer of sacrebleu (default: its choice for the language).
            language: the target language, such as ``de``.

        Raises:
            ValueError: if the tokenizer is not installed.
        """
        try:
            self._bleu = BLEU(tokenize=tokenizer, trg_lang=language)
        except RuntimeError as error:
            raise ValueError(
                f"{' '.join(str(error).split())} (or choose another --bleu-tokenize)"
            ) from error
        # sacrebleu only has a signature after it has scored something.
        self._bleu.corpus_score([""], [[""]])

    def score(self, translations: dict[int, str], references: dict[int, str]) -> float:
        """The BLEU, 0 to 100, of detokenised texts by sentence number.

        Raises:
            ValueError: if there are no references, or if a reference has no translation.
        """
        if not references:
            raise ValueError("BLEU: there are no references; decode a subset that has targets")
        missing = references.keys() - translations.keys()
        if missing:
            raise ValueError(
                f"BLEU: {len(missing)} of {len(references)} references have no translation"
            )
        hypotheses = [translations[number] for number in references]
        return self._bleu.corpus_score(hypotheses, [list(references.values())]).score

    @property
    def signature(self) -> str:
        """sacrebleu's signature of the scores."""
        return str(self._bleu.get_signature())


def read_references(path: Path, n_sentences: int) -> dict[int, str]:
    """Read raw reference texts, by sentence number.

    Detokenising the targets of binarised data does not always restore the raw text.

    Args:
        path: a file with one reference per line.
        n_sentences: the number of sentences of the binarised subset.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is not UTF-8, or has another number of lines.
    """
    with opened(path) as file:
        lines = [line.rstrip("\r\n") for line in file]
    if len(lines) != n_sentences:
        raise ValueError(
            f"--reference-text {path}: has {len(lines)} lines, but the subset has {n_sentences} "
            "sentences; give the text from which it was binarised"
        )
    return dict(enumerate(lines))
