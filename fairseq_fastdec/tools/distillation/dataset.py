"""Writes a data directory with the teacher's translations as targets."""

import shlex
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from fairseq import options

from ...corpora.filters import Filters
from ...data.model_files import BESIDE_CODES, CODES, LANGUAGES
from ...processes.noise import imports_unheard
from ...translating.command_line import in_words
from ..corpus import Corpus

with imports_unheard():
    from fairseq_cli import preprocess

KEPT, UNTRANSLATED = "kept", "not translated"


def build(
    destination: Path,
    original: Path,
    corpus: Corpus,
    translations: Iterable[tuple[int, str]],
    filters: Filters,
    workers: int,
) -> Counter:
    """Write text and binarised data, replacing the destination.

    The translations become the split ``train``; the text is in ``text/``. Other splits, the
    dictionaries and BPE codes are those of the original directory.

    Args:
        original: binarised data.
        translations: sentence numbers of the corpus in order, and their tokens separated by spaces.
        workers: processes.

    Returns:
        the number of pairs left out, by reason; :data:`KEPT` counts the others

    Raises:
        ValueError: if no pair is kept.
    """
    part = destination.with_name(destination.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "text").mkdir(parents=True)
    languages = (corpus.task.cfg.source_lang, corpus.task.cfg.target_lang)
    counts = write_pairs(part / "text" / "train", languages, corpus, translations, filters)
    if not counts[KEPT]:
        left_out = in_words(counts, KEPT)
        raise ValueError(f"no pair is left ({left_out}); filter less, or train the teacher longer")
    binarize(part, original, languages, workers)
    copy_rest(original, part)
    shutil.rmtree(destination, ignore_errors=True)
    part.rename(destination)
    return counts


def write_pairs(
    prefix: Path,
    languages: tuple[str, str],
    corpus: Corpus,
    translations: Iterable[tuple[int, str]],
    filters: Filters,
) -> Counter:
    """Write the pairs that are kept, in corpus order; return counts as :func:`build` does."""
    counts: Counter = Counter()
    source_path, target_path = (Path(f"{prefix}.{language}") for language in languages)
    with (
        open(source_path, "w", encoding="utf-8", newline="\n") as sources,
        open(target_path, "w", encoding="utf-8", newline="\n") as targets,
    ):
        for number, translation in translations:
            source = corpus.source(number)
            reason = filters.reason(source, translation)
            counts[reason or KEPT] += 1
            if reason is None:
                sources.write(source + "\n")
                targets.write(translation + "\n")
    counts[UNTRANSLATED] = len(corpus) - counts.total()
    return counts


def binarize(destination: Path, original: Path, languages: tuple[str, str], workers: int) -> None:
    """Run fairseq-preprocess on the text with the dictionaries of the original data."""
    source, target = languages
    arguments: list[str] = ["-s", source, "-t", target]
    arguments += ["--srcdict", str(original / f"dict.{source}.txt")]
    arguments += ["--tgtdict", str(original / f"dict.{target}.txt")]
    arguments += ["--trainpref", str(destination / "text" / "train")]
    arguments += ["--destdir", str(destination), "--workers", str(workers)]
    print("+ fairseq-preprocess " + shlex.join(arguments), flush=True)
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))


def copy_rest(original: Path, destination: Path) -> None:
    """Copy validation and test data, and the files of the BPE and the languages."""
    for pattern in ("valid*", "test*", *CODES, *BESIDE_CODES, LANGUAGES):
        for file in original.glob(pattern):
            if file.is_file():
                shutil.copy2(file, destination)
