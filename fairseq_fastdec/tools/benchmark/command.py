"""The command line of ``scripts/benchmark.py``."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import torch
from sacrebleu.metrics import BLEU
from tqdm import tqdm

from ...decoding.option_groups import described
from ...decoding.options import DecodingOptions
from ...errors import errors_in_one_line
from ...noise import results_only
from .. import atomic_files
from ..command_line import positive, program
from . import report
from .contest import Contest, MethodError
from .methods import (
    BEST,
    CTRANSLATE2,
    DEFAULT_METHODS,
    FAIRSEQ,
    MOST_PROCESSES,
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

    python scripts/benchmark.py data-bin/en-de --path checkpoint_best.pt \\
        --tokenizer moses --bpe subword_nmt --bpe-codes data-bin/en-de/bpe.codes

Each method has processes of its own, which load once. Then they decode the same sentences in the
same batches by turns, one method at a time, for several rounds. A method may use --threads threads:
in one worker that decodes a batch with all of them, or in several workers side by side. It is
measured both ways, and its faster one counts. Everything that is no option below goes to
all methods as fairseq-generate's: --path a.pt:b.pt, --gen-subset, --max-len-b, --user-dir, ...
"""
OPTIONS = "options of our decoding methods, for one method or for all:\n\n"


@results_only()
def main(arguments: Optional[Sequence[str]] = None) -> None:
    """Run the command and report errors of its input in one line."""
    args, rest = parse_args(sys.argv[1:] if arguments is None else arguments)
    try:
        with errors_in_one_line(program("benchmark"), MethodError):
            run(args, rest)
    except KeyboardInterrupt:
        sys.exit(f"\n{program('benchmark')}: interrupted; nothing was written")


def parse_args(arguments: Sequence[str]) -> tuple[argparse.Namespace, Sequence[str]]:
    """Our own options, and those for fairseq."""
    parser = argparse.ArgumentParser(
        prog=program("benchmark"),
        description=DESCRIPTION,
        epilog=OPTIONS + described(DecodingOptions()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("data", help="binarised data, as for fairseq-generate")
    parser.add_argument(
        "--method", action="append", dest="methods", metavar="SPEC",
        help="a method to compare, as 'NAME: OPTIONS' with options of fairseq-generate, which may "
        "name another --path or --task; 'NAME: --engine ctranslate2 --compute-type int8 --beam 5' "
        "is CTranslate2's (float32, int8, int16, bfloat16, ... as the processor has them). Repeat "
        "it for more (default: " + "; ".join(f"'{spec}'" for spec in DEFAULT_METHODS) + ")",
    )  # fmt: skip
    parser.add_argument(
        "--reference", metavar="NAME",
        help="the method that times are compared with (default: the first)",
    )  # fmt: skip
    parser.add_argument(
        "--batch-size", type=positive, nargs="+", default=[1], dest="batch_sizes", metavar="N",
        help="sentences decoded at once; several are measured one after the other (default: 1, "
        "which also gives latencies)",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=positive, default=3, metavar="N", help="for each method (default: 3)"
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
        help="of the method that decodes, all of its workers together (default: what torch takes, "
        "here %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--processes", type=number_of_workers, default=BEST, metavar="N",
        help="decode so many batches side by side, in as many processes, which share the weights "
        "and have a part of the threads each; in a method's OPTIONS, for that one (default: "
        f"{BEST}: measure 1 and the greatest number up to {MOST_PROCESSES} that divides the "
        "threads, and keep the faster; 1 takes least memory)",
    )  # fmt: skip
    parser.add_argument(
        "--inter-threads", type=number_of_workers, default=BEST, metavar="N",
        help="the same for methods of CTranslate2, whose inter threads share one process and one "
        f"model (default: {BEST}: measure 1 and as many as there are threads, and keep the faster)",
    )  # fmt: skip
    parser.add_argument(
        "--flops", action="store_true",
        help="count the floating-point operations of each method, too, in one more round that is "
        "not timed: those of products of matrices and of attention, in the encoder and the "
        "decoder; a multiply-add is two (on a CPU; not CTranslate2's)",
    )  # fmt: skip
    parser.add_argument(
        "--reference-text", type=Path, metavar="FILE",
        help="score BLEU against the lines of this file, the text that --gen-subset was binarised "
        "from (default: the data's targets, detokenised, which may differ from that text)",
    )  # fmt: skip
    parser.add_argument(
        "--bleu-tokenize", choices=BLEU.TOKENIZERS,
        help="sacrebleu's tokenizer (default: its choice for the target language)",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, default=Path("benchmark"), metavar="DIR",
        help="where benchmark.md, benchmark.json and benchmark.png go; those of the same name are "
        "replaced (default: benchmark)",
    )  # fmt: skip
    return parser.parse_known_args(arguments)


def run(args: argparse.Namespace, rest: Sequence[str]) -> None:
    """Measure, print and save.

    Raises:
        ValueError: for options that do not go together.
        MethodError: if the method to compare with cannot run.
        OSError: if the results cannot be written.
    """
    settings = Settings(
        (args.data, *rest), args.device, args.dtype, args.threads, args.sentences, args.flops,
        args.reference_text,
    )  # fmt: skip
    workers = {FAIRSEQ: args.processes, CTRANSLATE2: args.inter_threads}
    methods = tuple(Method.parse(spec, workers) for spec in args.methods or DEFAULT_METHODS)
    check_methods(settings, methods)
    reference = args.reference or methods[0].name
    if reference not in [method.name for method in methods]:
        raise ValueError(f"--reference {reference!r}: is not the name of a method")
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
        figure = importlib.import_module("fairseq_fastdec.tools.benchmark.figure")
    except ImportError as error:
        print(error)
    else:
        figure.save(results, reference, args.output / "benchmark.png")
        print(args.output / "benchmark.png")


def write(path: Path, content: str) -> None:
    """Write a file and name it."""
    atomic_files.write_text(path, content)
    print(path)
