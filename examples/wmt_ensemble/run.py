#!/usr/bin/env python3
"""Table 1 of the streaming paper (Yang et al. 2020) on an ensemble: BLEU and seconds by method.

    python examples/wmt_ensemble/run.py wmt19.de-en.joined-dict.ensemble -s de -t en
    python examples/wmt_ensemble/run.py --demo     # trains three tiny models first

Arguments after -- are passed to every fairseq-generate, such as: -- --fp16 --batch-size 64 Every
command is printed. Stages with existing results in --workdir are skipped, so an interrupted run can
be resumed.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from examples.common import arguments, commands
from examples.wmt_ensemble.demo import build_demo
from examples.wmt_ensemble.newstest import prepare, read_lines
from examples.wmt_ensemble.results import Run, read_run, show_table
from fairseq_fastdec.data import atomic_files

BASELINE = "fairseq --beam 5"
PRUNING = ["--prune-threshold", "1.5", "--max-candidates", "5", "--finalize", "paper"]


def beam_methods(width: int) -> dict[str, list[str]]:
    """Beam searches of the given width by fairseq and this package."""
    beam = ["--beam", str(width)]
    return {
        f"fairseq --beam {width}": ["--decoding", "fairseq", *beam],
        f"beam {width}": ["--decoding", "beam", *beam],
        f"variable_beam {width}": ["--decoding", "variable_beam", *beam, *PRUNING],
        f"streaming {width}": ["--decoding", "streaming", *beam, *PRUNING],
    }


METHODS = {
    "fairseq --beam 1": ["--decoding", "fairseq", "--beam", "1"],
    "greedy": ["--decoding", "greedy", "--beam", "1"],
    **beam_methods(5),
    **beam_methods(50),
}


def main() -> None:
    """Run all stages."""
    args = parse_args()
    with commands.resumable():
        run_recipe(args)


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = arguments.described(__doc__)
    parser.add_argument(
        "directory", type=Path, nargs="?", help="an unpacked model archive with a test set"
    )
    parser.add_argument("--demo", action="store_true", help="train a small ensemble and use it")
    parser.add_argument("-s", "--source-lang", metavar="SRC")
    parser.add_argument("-t", "--target-lang", metavar="TGT")
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD",
        help="some of: " + ", ".join(METHODS),
    )  # fmt: skip
    arguments.add_rounds(parser)
    parser.add_argument(
        "--sentences",
        type=int,
        default=0,
        metavar="N",
        help="only decode the first N sentences of the test set",
    )
    parser.add_argument("--workdir", type=Path, help="default: work/wmt_ensemble_NAME here")
    own, generate_options = split_at_dashes(sys.argv[1:])
    args = parser.parse_args(own)
    args.generate_options = generate_options
    if args.demo == (args.directory is not None):
        parser.error("name either a directory or --demo")
    if args.directory and not (args.source_lang and args.target_lang):
        parser.error("-s and -t: name the languages, such as -s de -t en")
    return args


def split_at_dashes(arguments: list[str]) -> list[list[str]]:
    """The arguments before and after the first ``--``."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    return [arguments[:cut], arguments[cut + 1 :]]


def run_recipe(args: argparse.Namespace) -> None:
    """Run all stages from the archive to the table."""
    name = "demo" if args.demo else args.directory.resolve().name
    work = args.workdir or commands.ROOT / "work" / f"wmt_ensemble_{name}"
    work.mkdir(parents=True, exist_ok=True)
    check_settings(work, args)
    if args.demo:
        args.directory, args.source_lang, args.target_lang = build_demo(work), "en", "de"
    models = sorted(args.directory.glob("model*.pt"))
    if not models:
        sys.exit(f"{args.directory}: has no model*.pt; give the directory of an unpacked archive")
    prepare(args.directory, work, args.source_lang, args.target_lang, args.sentences)
    reference = read_lines(work / "reference.txt")
    runs: dict[str, list[Run]] = {method: [] for method in args.methods}
    for number in range(1, args.rounds + 1):
        for method in args.methods:
            output = work / "decoded" / re.sub(r"\W+", "-", f"{method} {number}")
            if not commands.finished(output):
                generate(args, work, models, output, METHODS[method])
            runs[method].append(read_run(output, reference))
    title = (
        f"{name}: {len(models)} models, {len(reference)} sentences, rounds of all methods in "
        f"turn: {args.rounds}. Speed-up: over {BASELINE}."
    )
    show_table(work, runs, BASELINE, title)


def check_settings(work: Path, args: argparse.Namespace) -> None:
    """Check that the results in the directory have the same settings."""
    path = work / "settings.json"
    settings = json.dumps([str(args.directory), args.sentences, args.generate_options])
    if path.exists() and path.read_text(encoding="utf-8") != settings:
        sys.exit(
            f"--workdir {work}: contains results of other settings; choose another, or delete it"
        )
    atomic_files.write_text(path, settings)


def generate(
    args: argparse.Namespace, work: Path, models: list[Path], output: Path, method: list[str]
) -> None:
    """Run fairseq-generate with one method."""
    command = [work / "data-bin"]
    command += ["--user-dir", commands.PLUGIN]
    command += ["--source-lang", args.source_lang, "--target-lang", args.target_lang]
    command += ["--path", ":".join(str(model) for model in models), "--gen-subset", "test"]
    command += ["--tokenizer", "moses", "--bpe", "subword_nmt", "--bpe-codes", work / "bpe.codes"]
    command += ["--batch-size", "32", *method, *args.generate_options]
    commands.generate_into(output, command)


if __name__ == "__main__":
    main()
