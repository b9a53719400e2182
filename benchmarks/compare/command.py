"""The command line of ``python -m benchmarks.compare``."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import torch
from sacrebleu.metrics import BLEU
from tqdm import tqdm

from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.data.text import check_is_not_read
from fairseq_fastdec.decoding.option_groups import described
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.processes.errors import INTERRUPTED, end_with, errors_in_one_line
from fairseq_fastdec.processes.noise import results_only
from fairseq_fastdec.translating.command_line import check_files, path_of, positive

from . import report
from .contest import Contest, MethodError
from .methods import (
    BEST,
    CTRANSLATE2,
    DEFAULT_METHODS,
    FAIRSEQ,
    MOST_PROCESSES,
    PROGRAM,
    Method,
    Settings,
    check_methods,
    configure,
    number_of_workers,
)
from .results import summarize
from .scoring import Scorer

DESCRIPTION = """\
Compare decoding methods: speed, BLEU, memory.

    python -m benchmarks.compare data-bin/en-de --path checkpoint_best.pt \\
        --tokenizer moses --bpe subword_nmt --bpe-codes data-bin/en-de/bpe.codes

Each method loads once, in separate processes. The methods then take turns in decoding the same
batches of sentences, for several rounds. A method may use --threads threads: in one worker that
decodes a batch with all of them, or in several workers that decode different batches in parallel.
Both are measured, and the faster one is reported. All options that are not listed below are options
of fairseq-generate for all methods: --path a.pt:b.pt, --gen-subset, --max-len-b, --user-dir, ...
"""
OPTIONS = "options of this package's decoding methods, for one method or all:\n\n"


@results_only()
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command. Input errors are reported in one line."""
    args, rest = parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        with errors_in_one_line(PROGRAM, MethodError):
            run(args, rest)
    except KeyboardInterrupt:
        end_with(f"{PROGRAM}: interrupted; nothing was written", INTERRUPTED)


def parse_args(arguments: Sequence[str]) -> tuple[argparse.Namespace, Sequence[str]]:
    """Parse the options of the command; return them and those for fairseq."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=OPTIONS + described(DecodingOptions()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("data", help="binarised data, as for fairseq-generate")
    parser.add_argument(
        "--method", action="append", dest="methods", metavar="SPEC",
        help="a method to compare, as 'NAME: OPTIONS' with options of fairseq-generate, including "
        "--path and --task; 'NAME: --engine ctranslate2 --compute-type int8 --beam 5' "
        "uses CTranslate2 (with any type that the processor supports: float32, int8, int16, "
        "bfloat16, ...); repeatable (default: "
        + "; ".join(f"'{spec}'" for spec in DEFAULT_METHODS) + ")",
    )  # fmt: skip
    parser.add_argument(
        "--reference", metavar="NAME",
        help="the method that times are relative to (default: the first)",
    )  # fmt: skip
    parser.add_argument(
        "--batch-size", type=positive, nargs="+", default=[1], dest="batch_sizes", metavar="N",
        help="sentences per batch; several sizes are measured one after the other (default: 1, "
        "which also measures latencies)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=positive, default=3, metavar="N", help="rounds of each method (default: 3)"
    )
    parser.add_argument(
        "--sentences", type=positive, metavar="N", help="only the first N of --gen-subset"
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), default="fp32")
    parser.add_argument(
        "--threads", type=positive, default=torch.get_num_threads(), metavar="N",
        help="threads of a method, over all workers (default: that of torch, here %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--processes", type=number_of_workers, default=BEST, metavar="N",
        help="decode N batches in parallel, in N processes that share the weights and divide the "
        f"threads; also possible in a method's OPTIONS (default: {BEST}: measure 1 and the "
        f"largest number up to {MOST_PROCESSES} that divides the threads, and report the faster; "
        "1 needs the least memory)",
    )  # fmt: skip
    parser.add_argument(
        "--inter-threads", type=number_of_workers, default=BEST, metavar="N",
        help="the same for CTranslate2, whose inter threads share one process and one model "
        f"(default: {BEST}: measure 1 and --threads, and report the faster)",
    )  # fmt: skip
    parser.add_argument(
        "--flops", action="store_true",
        help="also count the floating-point operations of each method, in an additional round that "
        "is not timed: those of matrix products and attention in the encoder and the decoder; a "
        "multiply-add counts as two (only on a CPU, and not for CTranslate2)",
    )  # fmt: skip
    parser.add_argument(
        "--reference-text", type=path_of, metavar="FILE",
        help="compute BLEU against the lines of this file, the text from which --gen-subset was "
        "binarised (default: the detokenised targets of the data, which may differ from it)",
    )  # fmt: skip
    parser.add_argument(
        "--bleu-tokenize", choices=BLEU.TOKENIZERS,
        help="sacrebleu's tokenizer (default: its choice for the target language)",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=path_of, default=Path("benchmark"), metavar="DIR",
        help="the directory for benchmark.md, benchmark.json and benchmark.png, which are "
        "overwritten (default: benchmark)",
    )  # fmt: skip
    return parser.parse_known_args(arguments)


def run(args: argparse.Namespace, rest: Sequence[str]) -> None:
    """Measure, print and save the results.

    Raises:
        ValueError: for options that cannot be combined.
        MethodError: if the reference method cannot run.
        OSError: if the results cannot be written.
    """
    check_files(args)
    for name in ("benchmark.md", "benchmark.json", "benchmark.png"):
        check_is_not_read("--output", args.output / name, [args.reference_text])
    settings = Settings(
        (args.data, *rest), args.device, args.dtype, args.threads, args.sentences, args.flops,
        args.reference_text,
    )  # fmt: skip
    workers = {FAIRSEQ: args.processes, CTRANSLATE2: args.inter_threads}
    methods = tuple(Method.parse(spec, workers) for spec in args.methods or DEFAULT_METHODS)
    check_methods(settings, methods)
    reference = args.reference or methods[0].name
    if reference not in [method.name for method in methods]:
        raise ValueError(f"--reference {reference!r}: not the name of a method")
    cfg = configure(settings)
    scorer = Scorer(args.bleu_tokenize, getattr(cfg.task, "target_lang", ""))
    args.output.mkdir(parents=True, exist_ok=True)

    with tqdm(unit="step", disable=cfg.common.no_progress_bar) as bar:
        contest = Contest(methods, reference, settings, bar)
        contest.run(args.batch_sizes, args.rounds)
    results, signature = summarize(contest, reference, scorer), scorer.signature

    table = report.markdown(results, reference, signature, settings, contest.left_out)
    print("\n" + table)
    document = report.as_json(results, methods, reference, signature, settings, contest.left_out)
    write(args.output / "benchmark.md", table)
    write(args.output / "benchmark.json", document)
    try:
        figure = importlib.import_module("benchmarks.compare.figure")
    except ImportError as error:
        print(error)
    else:
        figure.save(results, reference, args.output / "benchmark.png")
        print(args.output / "benchmark.png")


def write(path: Path, content: str) -> None:
    """Write a file, and print its path."""
    atomic_files.write_text(path, content)
    print(path)
