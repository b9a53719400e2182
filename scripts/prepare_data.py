#!/usr/bin/env python3
"""Raw parallel text to binarised fairseq data: Moses tokenisation, joint BPE, fairseq-preprocess.

    python scripts/prepare_data.py --source-lang en --target-lang de \\
        --train corpus/train --valid corpus/valid --test corpus/test --destdir data-bin/en-de

reads corpus/train.en, corpus/train.de and so on, plain or compressed (.xz, .gz). What it does to
the text is exactly what ``--tokenizer moses --bpe subword_nmt --bpe-codes DESTDIR/bpe.codes`` does
again in fairseq-interactive: it calls the same code.
"""

import argparse
import gzip
import lzma
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.data.encoders.subword_nmt_bpe import SubwordNMTBPE, SubwordNMTBPEConfig
from subword_nmt.learn_bpe import learn_bpe
from tqdm import tqdm

OPENERS = {"": open, ".xz": lzma.open, ".gz": gzip.open}
CHUNK = 500


class DataError(Exception):
    """Something about the user's files; the message is all they need to see."""


def main() -> None:
    """Run all stages and report errors of the data in one line."""
    args = parse_args()
    try:
        prepare(args)
    except DataError as error:
        sys.exit(f"prepare_data.py: {error}")


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-s", "--source-lang", required=True, metavar="SRC")
    parser.add_argument("-t", "--target-lang", required=True, metavar="TGT")
    for split, wanted in (("train", True), ("valid", True), ("test", False)):
        parser.add_argument(
            f"--{split}", nargs="+", required=wanted, default=[], metavar="PREFIX",
            help=f"{split} text: PREFIX.SRC and PREFIX.TGT, or with .xz or .gz behind; several "
            "are joined",
        )
    parser.add_argument("--destdir", type=Path, required=True, metavar="DIR")
    parser.add_argument(
        "--bpe-operations", type=int, default=8000, metavar="N", help="merges (default: 8000)"
    )
    parser.add_argument(
        "--separate-dictionaries", action="store_true",
        help="one dictionary for each language (default: a joined one)",
    )
    parser.add_argument(
        "--max-len", type=int, default=175, metavar="N",
        help="leave out training pairs with more BPE tokens on a side (default: 175)",
    )
    parser.add_argument(
        "--max-ratio", type=float, default=3.0, metavar="R",
        help="leave out training pairs of more than 10 tokens with a side R times longer than the "
        "other (default: 3)",
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes (default: 2)")
    return parser.parse_args()


def prepare(args: argparse.Namespace) -> None:
    """All stages, from raw text to DESTDIR."""
    languages = (args.source_lang, args.target_lang)
    splits = {"train": args.train, "valid": args.valid, "test": args.test}
    raw = {split: read_split(prefixes, languages) for split, prefixes in splits.items() if prefixes}
    if not raw["train"][languages[0]]:
        raise DataError(f"--train {' '.join(args.train)}: no sentence pairs")
    text_dir = make_destination(args.destdir)

    tokenized = {
        (split, language): tokenize(lines, language, args.workers, f"tokenizing {split}.{language}")
        for split, sides in raw.items()
        for language, lines in sides.items()
    }
    codes = args.destdir / "bpe.codes"
    learn_codes([tokenized["train", language] for language in languages], codes, args.bpe_operations)
    for split in raw:
        pairs = zip(*(split_subwords(tokenized[split, language], codes) for language in languages))
        kept = clean(list(pairs), args.max_len, args.max_ratio) if split == "train" else list(pairs)
        write_split(text_dir / split, languages, kept)
    binarize(args, text_dir, list(raw))


def read_split(prefixes: Sequence[str], languages: Tuple[str, str]) -> Dict[str, List[str]]:
    """The lines of both languages, which must be as many.

    Raises:
        DataError: for a missing file, other line counts on the two sides, or invalid UTF-8.
    """
    sides: Dict[str, List[str]] = {language: [] for language in languages}
    for prefix in prefixes:
        counts = []
        for language in languages:
            lines = read_lines(find_file(f"{prefix}.{language}"))
            sides[language].extend(lines)
            counts.append(len(lines))
        if counts[0] != counts[1]:
            raise DataError(
                f"{prefix}: {counts[0]} lines of {languages[0]} but {counts[1]} of {languages[1]}; "
                "line i of one side must translate line i of the other"
            )
    return sides


def find_file(name: str) -> Path:
    """The file of this name, plain or compressed.

    Raises:
        DataError: if there is none.
    """
    for suffix in OPENERS:
        if Path(name + suffix).is_file():
            return Path(name + suffix)
    raise DataError(f"no file {name} (nor with {' or '.join(filter(None, OPENERS))} behind)")


def read_lines(path: Path) -> List[str]:
    """All lines, separated by newlines and nothing else.

    Raises:
        DataError: for a line that is not UTF-8; names file and line.
    """
    opener = OPENERS.get(path.suffix, open)
    lines = []
    with opener(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                lines.append(line.decode("utf-8").rstrip("\r\n"))
            except UnicodeDecodeError as error:
                raise DataError(f"{path}, line {number}: not UTF-8 ({error.reason})") from error
    return lines


def make_destination(destdir: Path) -> Path:
    """Create DESTDIR and its folder of tokenised text.

    Raises:
        DataError: if it already holds data, which fairseq would mix with the new.
    """
    if destdir.is_dir() and any(destdir.iterdir()):
        raise DataError(f"--destdir {destdir}: is not empty; name a new directory or empty it")
    text_dir = destdir / "text"
    text_dir.mkdir(parents=True)
    return text_dir


def tokenize(lines: List[str], language: str, workers: int, label: str) -> List[str]:
    """Moses tokens separated by spaces, as fairseq's ``--tokenizer moses`` makes them."""
    with multiprocessing.Pool(workers, _start_tokenizer, (language,)) as pool:
        results = pool.imap(_tokenize_line, lines, chunksize=CHUNK)
        return list(tqdm(results, label, total=len(lines), unit=" lines", mininterval=1))


def _start_tokenizer(language: str) -> None:
    global _tokenizer
    _tokenizer = MosesTokenizer(MosesTokenizerConfig(source_lang=language))


def _tokenize_line(line: str) -> str:
    return _tokenizer.encode(line)


def learn_codes(sides: Sequence[List[str]], path: Path, n_operations: int) -> None:
    """Learn joint BPE merges from the tokenised training text of all languages."""
    lines = (line + "\n" for side in sides for line in side)
    with open(path, "w", encoding="utf-8") as file:
        learn_bpe(lines, file, n_operations)


def split_subwords(lines: List[str], codes: Path) -> List[str]:
    """Subwords separated by spaces, as fairseq's ``--bpe subword_nmt`` makes them."""
    bpe = SubwordNMTBPE(SubwordNMTBPEConfig(bpe_codes=str(codes)))
    return [bpe.encode(line) for line in lines]


def clean(pairs: List[Tuple[str, ...]], max_len: int, max_ratio: float) -> List[Tuple[str, ...]]:
    """Leave out training pairs that teach nothing: empty, overlong or badly aligned."""
    kept = [pair for pair in pairs if _is_good(*(len(s.split()) for s in pair), max_len, max_ratio)]
    print(f"training pairs: {len(kept)} kept, {len(pairs) - len(kept)} left out", flush=True)
    if not kept:
        raise DataError(f"--max-len {max_len} --max-ratio {max_ratio}: no training pair is left")
    return kept


def _is_good(n_source: int, n_target: int, max_len: int, max_ratio: float) -> bool:
    shorter, longer = sorted((n_source, n_target))
    # Among a few tokens a high ratio is normal: "OK" has long translations.
    return 0 < shorter and longer <= max_len and (longer <= 10 or longer <= max_ratio * shorter)


def write_split(prefix: Path, languages: Tuple[str, str], pairs: List[Tuple[str, ...]]) -> None:
    """Write one file for each language."""
    for language, side in zip(languages, zip(*pairs) if pairs else ((), ())):
        with open(f"{prefix}.{language}", "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in side)


def binarize(args: argparse.Namespace, text_dir: Path, splits: List[str]) -> None:
    """fairseq-preprocess.

    Raises:
        DataError: if it fails.
    """
    command = [sys.executable, "-m", "fairseq_cli.preprocess"]
    command += ["-s", args.source_lang, "-t", args.target_lang]
    for split in splits:
        command += [f"--{split}pref", str(text_dir / split)]
    command += ["--destdir", str(args.destdir), "--workers", str(args.workers)]
    if not args.separate_dictionaries:
        command.append("--joined-dictionary")
    print("+", " ".join(command), flush=True)
    if subprocess.run(command).returncode != 0:
        raise DataError("fairseq-preprocess failed; its message is above")


if __name__ == "__main__":
    main()
