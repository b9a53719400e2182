#!/usr/bin/env python3
"""Table 1 of the streaming paper (Yang et al. 2020) on an ensemble: BLEU and seconds by method.

    python examples/wmt_ensemble/run.py wmt19.de-en.joined-dict.ensemble -s de -t en
    python examples/wmt_ensemble/run.py --demo     # trains three tiny models first
    python examples/wmt_ensemble/run.py --small    # trains five small models first, in hours
    python examples/wmt_ensemble/run.py --small --appendix    # Tables 3 to 5, with the same models

The paper prunes with delta 1.5. With --small, there are also rows with the smallest delta with
which pruning loses no BLEU on the validation set, and the table is written to RESULTS.md.

Arguments after -- are passed to every fairseq-generate, such as: -- --fp16 --batch-size 64 Every
command is printed. Stages with existing results in --workdir are skipped, so an interrupted run can
be resumed.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from examples.common import arguments, commands, en_de
from examples.common.table import origins, write_section
from examples.wmt_ensemble import appendix
from examples.wmt_ensemble.ensembles import SMALL, TINY, Member, build
from examples.wmt_ensemble.methods import DELTAS, METHODS, WIDTHS, fixed_of, pruned
from examples.wmt_ensemble.newstest import prepare, read_lines
from examples.wmt_ensemble.results import Run, read_run, table
from fairseq_fastdec.data import atomic_files

PAGE = commands.ROOT / "examples" / "RESULTS.md"
# The sentences of the validation set that --appendix decodes.
N_APPENDIX = 500


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
    parser.add_argument("--demo", action="store_true", help="train three tiny models and use them")
    parser.add_argument("--small", action="store_true", help="train five small models and use them")
    parser.add_argument(
        "--appendix",
        action="store_true",
        help="with --small, decode the validation set for Tables 3 to 5, instead of Table 1",
    )
    en_de.add_autocast_option(parser)
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
    if args.demo + args.small + (args.directory is not None) != 1:
        parser.error("name either a directory, --demo or --small")
    if args.appendix and (not args.small or args.sentences or args.methods != list(METHODS)):
        parser.error("--appendix: needs --small, without --sentences and --methods")
    if args.directory and not (args.source_lang and args.target_lang):
        parser.error("-s and -t: name the languages, such as -s de -t en")
    return args


def split_at_dashes(arguments: list[str]) -> list[list[str]]:
    """The arguments before and after the first ``--``."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    return [arguments[:cut], arguments[cut + 1 :]]


def run_recipe(args: argparse.Namespace) -> None:
    """Run all stages from the archive to the table."""
    name = "demo" if args.demo else "small" if args.small else args.directory.resolve().name
    work = args.workdir or commands.ROOT / "work" / f"wmt_ensemble_{name}"
    folder = work / "appendix" if args.appendix else work
    folder.mkdir(parents=True, exist_ok=True)
    check_settings(folder, args)
    if args.directory is None:
        args.directory, args.source_lang, args.target_lang = build(work, members(args)), "en", "de"
    models = sorted(args.directory.glob("model*.pt"))
    if not models:
        sys.exit(f"{args.directory}: has no model*.pt; give the directory of an unpacked archive")
    if args.appendix:
        write_appendix(args, folder, models)
    else:
        write_table_1(args, work, models, name)


def write_appendix(args: argparse.Namespace, work: Path, models: list[Path]) -> None:
    """Decode sentences of the validation set, and print and write Tables 3 to 5."""
    reference = prepare_valid(args, work, N_APPENDIX)
    runs = in_rounds(args, work, models, appendix.METHODS, reference)
    text = appendix.section(runs, reference)
    print("\n" + text)
    write_section(PAGE, appendix.SECTION, text)


def write_table_1(args: argparse.Namespace, work: Path, models: list[Path], name: str) -> None:
    """Decode the test set, and print and write Table 1."""
    prepare(args.directory, work, args.source_lang, args.target_lang, args.sentences)
    reference = read_lines(work / "reference.txt")
    methods = {method: METHODS[method] for method in args.methods}
    if args.small:
        for width in WIDTHS:
            if f"variable_beam {width}" in methods:
                methods |= pruned(width, chosen_delta(args, work, models, width))
    runs = in_rounds(args, work, models, methods, reference)
    compared = {method: fixed_of(options) for method, options in methods.items()}
    title = (
        f"{name}: {len(models)} models, {len(reference)} sentences, rounds of all methods in "
        f"turn: {args.rounds}. Times are relative to fairseq with the same beam (greedy: "
        f"{max(WIDTHS)}), medians of the rounds. *: BLEU differs significantly from it (p < 0.05)."
    )
    text = table(runs, compared, reference, title)
    print("\n" + text)
    atomic_files.write_text(work / "table.md", text + "\n")
    if args.small:
        dated = origins(run.origin for rounds in runs.values() for run in rounds)
        write_section(PAGE, "streaming table 1", f"{text}\n\n{dated}\n")


def members(args: argparse.Namespace) -> list[Member]:
    """The models to train, with ``--cpu-autocast`` if it was given."""
    chosen = TINY if args.demo else SMALL
    return [member._replace(recipe=en_de.asked_for(member.recipe, args)) for member in chosen]


def chosen_delta(args: argparse.Namespace, work: Path, models: list[Path], width: int) -> float:
    """The smallest delta with which pruning loses no BLEU on the validation set, else the last."""
    valid = work / "valid"
    reference = prepare_valid(args, valid)
    method = f"beam {width}"
    needed = decoded(args, valid, models, method, METHODS[method], reference).bleu
    for delta in DELTAS:
        label, options = next(iter(pruned(width, delta).items()))
        if decoded(args, valid, models, label, options, reference).bleu >= needed:
            return delta
    return DELTAS[-1]


def prepare_valid(args: argparse.Namespace, folder: Path, sentences: int = 0) -> list[str]:
    """Prepare the first sentences of the validation set, or all, and return their references."""
    folder.mkdir(exist_ok=True)
    prepare(args.directory, folder, "en", "de", sentences, en_de.EN_DE / "data" / "valid")
    return read_lines(folder / "reference.txt")


def in_rounds(
    args: argparse.Namespace,
    work: Path,
    models: list[Path],
    methods: dict[str, list[str]],
    reference: list[str],
) -> dict[str, list[Run]]:
    """The results of all methods, which take turns in each round."""
    runs: dict[str, list[Run]] = {method: [] for method in methods}
    for number in range(1, args.rounds + 1):
        for method, options in methods.items():
            label = f"{method} {number}"
            runs[method].append(decoded(args, work, models, label, options, reference))
    return runs


def decoded(
    args: argparse.Namespace,
    work: Path,
    models: list[Path],
    label: str,
    options: list[str],
    reference: list[str],
) -> Run:
    """The results of fairseq-generate with one method."""
    output = work / "decoded" / re.sub(r"\W+", "-", label)
    if not commands.finished(output):
        generate(args, work, models, output, options)
    return read_run(output, reference)


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
    command += en_de.text_options(work / "bpe.codes")
    command += ["--batch-size", "32", *method, *args.generate_options]
    commands.generate_into(output, command)


if __name__ == "__main__":
    main()
