"""Binarise raw parallel text for fairseq: Moses tokenisation, joint BPE, fairseq-preprocess.

    python -m fairseq_fastdec prepare-data --source-lang en --target-lang de \\
        --train corpus/train --valid corpus/valid --test corpus/test --destdir data-bin/en-de

reads corpus/train.en, corpus/train.de and so on, plain or compressed (.xz, .gz). Text is processed
exactly as by ``--tokenizer moses --bpe subword_nmt --bpe-codes DESTDIR/bpe.codes`` in
fairseq-interactive, with the same code.

With --model MODEL, text is split into the subwords of this model, and binarised with its
dictionaries. MODEL is a checkpoint or its directory, such as one of the command import.
"""

import argparse
import gzip
import json
import lzma
import multiprocessing
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Optional

from fairseq import options
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from subword_nmt.learn_bpe import learn_bpe
from tqdm import tqdm

from ..data import atomic_files
from ..data.model_files import LANGUAGES, beside_codes
from ..data.text import without_mark
from ..processes.errors import errors_in_one_line
from ..processes.noise import imports_unheard, results_only
from ..processes.streams import holding_interrupts
from ..translating.command_line import described, path_of, positive, program

with imports_unheard():
    from fairseq_cli import preprocess

OPENERS: dict[str, Callable[..., Any]] = {"": open, ".xz": lzma.open, ".gz": gzip.open}
CHUNK = 500
BPE_OPERATIONS, MIN_FREQUENCY = 8000, 2

# The encoder in a worker process.
_encoder: Any


@results_only()
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command; errors in the data are reported in one line."""
    args = parse_args(arguments)
    with errors_in_one_line(program("prepare-data")):
        prepare(args)


def parse_args(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    """Parse the command line."""
    parser = described(argparse.ArgumentParser(), "prepare-data", __doc__)
    parser.add_argument("-s", "--source-lang", required=True, metavar="SRC")
    parser.add_argument("-t", "--target-lang", required=True, metavar="TGT")
    for split, wanted in (("train", True), ("valid", True), ("test", False)):
        parser.add_argument(
            f"--{split}",
            nargs="+",
            required=wanted,
            default=[],
            metavar="PREFIX",
            help=f"{split} text: PREFIX.SRC and PREFIX.TGT, optionally with .xz or .gz; several "
            "are concatenated",
        )
    parser.add_argument("--destdir", type=path_of, required=True, metavar="DIR")
    parser.add_argument(
        "--model",
        type=path_of,
        metavar="MODEL",
        help="use the tokenizer, the BPE and the dictionaries of this model (default: learn them)",
    )
    parser.add_argument(
        "--bpe-operations",
        type=positive,
        default=BPE_OPERATIONS,
        metavar="N",
        help="number of BPE merges (default: %(default)s)",
    )
    parser.add_argument(
        "--min-frequency",
        type=positive,
        default=MIN_FREQUENCY,
        metavar="N",
        help="do not merge pairs of symbols that occur less often (default: %(default)s)",
    )
    parser.add_argument(
        "--separate-dictionaries",
        action="store_true",
        help="create one dictionary for each language (default: a joint one)",
    )
    parser.add_argument(
        "--max-len",
        type=positive,
        default=175,
        metavar="N",
        help="leave out training pairs with more BPE tokens on either side (default: 175)",
    )
    parser.add_argument(
        "--max-ratio",
        type=float,
        default=3.0,
        metavar="R",
        help="leave out training pairs of more than 10 tokens if one side is R times longer than "
        "the other (default: 3)",
    )
    parser.add_argument(
        "--workers", type=positive, default=2, metavar="N", help="processes (default: 2)"
    )
    return parser.parse_args(arguments)


def prepare(args: argparse.Namespace) -> None:
    """Run all stages, from raw text to DESTDIR, which is removed if one fails."""
    languages = (args.source_lang, args.target_lang)
    if languages[0] == languages[1]:
        raise ValueError(f"--source-lang and --target-lang are both {languages[0]}: name two")
    check_has_use(args)
    splits = {"train": args.train, "valid": args.valid, "test": args.test}
    raw = {
        split: read_split(f"--{split}", prefixes, languages)
        for split, prefixes in splits.items()
        if prefixes
    }
    atomic_files.check_is_new("--destdir", args.destdir)
    args.destdir.mkdir(parents=True, exist_ok=True)
    try:
        build(args, languages, raw)
    except BaseException:
        shutil.rmtree(args.destdir, ignore_errors=True)
        raise


def check_has_use(args: argparse.Namespace) -> None:
    """
    Raises:
        ValueError: for an option of learning a BPE or dictionaries, which a model has.
    """
    for flag, is_given in (
        ("--bpe-operations", args.bpe_operations != BPE_OPERATIONS),
        ("--min-frequency", args.min_frequency != MIN_FREQUENCY),
        ("--separate-dictionaries", args.separate_dictionaries),
    ):
        if args.model is not None and is_given:
            raise ValueError(f"{flag}: has no effect with --model; remove one of them")


def build(
    args: argparse.Namespace, languages: tuple[str, str], raw: dict[str, dict[str, list[str]]]
) -> None:
    """Fill the empty DESTDIR."""
    text_dir = args.destdir / "text"
    text_dir.mkdir()
    split_by = split_by_new_codes if args.model is None else split_by_model
    subwords = split_by(args, languages, raw)
    for split in raw:
        pairs = list(zip(*(subwords[split, language] for language in languages)))
        if split == "train":
            pairs = clean(pairs, args.max_len, args.max_ratio)
        write_split(text_dir / split, languages, pairs)
    binarize(args, text_dir, list(raw))


def split_by_model(
    args: argparse.Namespace, languages: tuple[str, str], raw: dict[str, dict[str, list[str]]]
) -> dict[tuple[str, str], list[str]]:
    """The text in the subwords of a model, whose dictionaries, BPE and languages are copied."""
    from ..checkpoints.loading import load

    translator = load(args.model, source_lang=languages[0], target_lang=languages[1])
    codec, (source, target) = translator.codec, languages
    for language, dictionary in ((source, codec.source), (target, codec.target)):
        dictionary.save(str(args.destdir / "text" / f"dict.{language}.txt"))
    for file in [] if codec.codes is None else [codec.codes, *beside_codes(codec.codes)]:
        shutil.copy(file, args.destdir)
    if translator.languages is not None:
        languages_text = json.dumps(asdict(translator.languages))
        atomic_files.write_text(args.destdir / LANGUAGES, languages_text + "\n")
    coders = {source: codec.coders, target: codec.target_coders}
    return {
        (split, language): [
            codec.segmented(line.strip(), coders[language])
            for line in tqdm(lines, f"subwords {split}.{language}", unit=" lines", mininterval=1)
        ]
        for split, sides in raw.items()
        for language, lines in sides.items()
    }


def split_by_new_codes(
    args: argparse.Namespace, languages: tuple[str, str], raw: dict[str, dict[str, list[str]]]
) -> dict[tuple[str, str], list[str]]:
    """The text in the subwords of a BPE that is learned from the training text."""
    tokenized = {
        (split, language): tokenize(lines, language, args.workers, f"tokenizing {split}.{language}")
        for split, sides in raw.items()
        for language, lines in sides.items()
    }
    codes = args.destdir / "bpe.codes"
    train_sides = [tokenized["train", language] for language in languages]
    learn_codes(train_sides, codes, args.bpe_operations, args.min_frequency)
    return {
        (split, language): split_subwords(
            lines, codes, args.workers, f"subwords {split}.{language}"
        )
        for (split, language), lines in tokenized.items()
    }


def read_split(
    flag: str, prefixes: Sequence[str], languages: tuple[str, str]
) -> dict[str, list[str]]:
    """The lines of both languages, which must have the same number of lines.

    Raises:
        ValueError: for a missing or unreadable file, different numbers of lines, or no lines.
    """
    sides: dict[str, list[str]] = {language: [] for language in languages}
    for prefix in prefixes:
        counts = []
        for language in languages:
            lines = read_lines(find_file(f"{prefix}.{language}"))
            sides[language].extend(lines)
            counts.append(len(lines))
        if counts[0] != counts[1]:
            raise ValueError(
                f"{prefix}: {counts[0]} lines of {languages[0]} but {counts[1]} of {languages[1]}; "
                "line i of one side must translate line i of the other"
            )
    if not sides[languages[0]]:
        raise ValueError(
            f"{flag} {' '.join(prefixes)}: has no lines; give files that are not empty"
        )
    return sides


def find_file(name: str) -> Path:
    """Find the file of this name, plain or compressed.

    Raises:
        ValueError: if it does not exist.
    """
    for suffix in OPENERS:
        path = Path(name + suffix)
        if path.exists() and not path.is_dir():
            return path
    raise ValueError(f"no file {name} (plain, or ending in {' or '.join(filter(None, OPENERS))})")


def read_lines(path: Path) -> list[str]:
    """Read all lines, separated only by newlines.

    Raises:
        ValueError: for a line that is not UTF-8, naming file and line, or a damaged archive.
    """
    opener = OPENERS.get(path.suffix, open)
    lines = []
    try:
        with opener(path, "rb") as file:
            for line in without_mark(file):
                lines.append(line.decode("utf-8").rstrip("\r\n"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, line {len(lines) + 1}: not UTF-8 ({error.reason})") from error
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from error
    return lines


def tokenize(lines: list[str], language: str, workers: int, label: str) -> list[str]:
    """Moses tokens separated by spaces, as by fairseq's ``--tokenizer moses``."""
    tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language))
    return encode(lines, tokenizer, workers, label)


def learn_codes(
    sides: Sequence[list[str]], path: Path, n_operations: int, min_frequency: int
) -> None:
    """Learn joint BPE merges from the tokenised training text of all languages.

    Raises:
        ValueError: if there is nothing to merge, since subword-nmt cannot apply empty codes.
    """
    lines = [line + "\n" for side in sides for line in side]
    with open(path, "w+", encoding="utf-8") as file:
        if any(len(word) > 1 for line in lines for word in line.split()):
            learn_bpe(lines, file, n_operations, min_frequency)
        file.seek(0)
        n_merges = sum(not line.startswith("#version") for line in file)
    if n_merges == 0:
        raise ValueError(
            f"--min-frequency {min_frequency}: no pair of letters occurs that often in the "
            "training text; use more text"
        )


def split_subwords(lines: list[str], codes: Path, workers: int, label: str) -> list[str]:
    """Subwords separated by spaces, as by fairseq's ``--bpe subword_nmt``."""
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(codes)))
    return encode(lines, bpe, workers, label)


def encode(lines: list[str], encoder: Any, workers: int, label: str) -> list[str]:
    """Apply one of fairseq's encoders to each line, in several processes."""
    with holding_interrupts():
        pool = multiprocessing.Pool(workers, _start_worker, (encoder,))
    with pool:
        results = pool.imap(_encode_line, lines, chunksize=CHUNK)
        encoded = list(tqdm(results, label, total=len(lines), unit=" lines", mininterval=1))
        # Workers that inherit a handler for SIGTERM may ignore terminate().
        pool.close()
        pool.join()
    return encoded


def _start_worker(encoder: Any) -> None:
    global _encoder
    _encoder = encoder


def _encode_line(line: str) -> str:
    return _encoder.encode(line)


def clean(pairs: list[tuple[str, ...]], max_len: int, max_ratio: float) -> list[tuple[str, ...]]:
    """Leave out training pairs that are empty, too long or badly aligned."""
    kept = [pair for pair in pairs if _is_good([len(s.split()) for s in pair], max_len, max_ratio)]
    print(f"training pairs: {len(kept)} kept, {len(pairs) - len(kept)} left out", flush=True)
    if not kept:
        raise ValueError(f"--max-len {max_len} --max-ratio {max_ratio}: no training pair is left")
    return kept


def _is_good(lengths: list[int], max_len: int, max_ratio: float) -> bool:
    shorter, longer = sorted(lengths)
    # High ratios are normal for short sentences: "OK" has long translations.
    return shorter > 0 and longer <= max_len and (longer <= 10 or longer <= max_ratio * shorter)


def write_split(prefix: Path, languages: tuple[str, str], pairs: list[tuple[str, ...]]) -> None:
    """Write one file for each language."""
    for language, side in zip(languages, zip(*pairs)):
        atomic_files.write_lines(Path(f"{prefix}.{language}"), side)


def binarize(args: argparse.Namespace, text_dir: Path, splits: list[str]) -> None:
    """Run fairseq-preprocess."""
    arguments = ["-s", args.source_lang, "-t", args.target_lang]
    for split in splits:
        arguments += [f"--{split}pref", str(text_dir / split)]
    arguments += ["--destdir", str(args.destdir), "--workers", str(args.workers)]
    if args.model is not None:
        for flag, language in (("--srcdict", args.source_lang), ("--tgtdict", args.target_lang)):
            arguments += [flag, str(text_dir / f"dict.{language}.txt")]
    elif not args.separate_dictionaries:
        arguments.append("--joined-dictionary")
    print("+ fairseq-preprocess " + shlex.join(arguments), flush=True)
    preprocess.main(options.get_preprocessing_parser().parse_args(arguments))
