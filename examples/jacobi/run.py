#!/usr/bin/env python3
"""Compare the parallel decoding methods on an existing checkpoint.

    python examples/jacobi/run.py                        # trains a small baseline first
    python examples/jacobi/run.py --opus-sized           # the bundled model, in the size of Opus-MT
    python examples/jacobi/run.py --opus-sized --sweep   # other block sizes b and lengths h
    python examples/jacobi/run.py --opus-sized --torch   # without compiled code
    python examples/jacobi/run.py data-bin/en-de --path checkpoint_best.pt \\
        --scoring sacrebleu --tokenizer moses --bpe subword_nmt --bpe-codes codes

Unknown options are passed to fairseq-generate. Each command is printed. The table has the columns
of Tables 1 and 6 of Santilli et al. (ACL 2023). With --opus-sized, it is written to ../RESULTS.md.
"""

import argparse
import re
import statistics
import sys
from pathlib import Path

import torch

from examples.common import commands, en_de
from examples.common.model_text import write_test_set
from examples.common.stock import save_without_heads
from examples.common.table import (
    Run,
    checksum,
    grouped,
    log_lines,
    markdown,
    origins,
    read_run,
    shortened,
    signed,
    write_section,
)
from examples.common.wider import write_wider
from fairseq_fastdec.data import atomic_files
from fairseq_fastdec.translating.command_line import positive

METHODS = {
    "fairseq --beam 1": ["--decoding", "fairseq", "--beam", "1"],
    "fairseq --beam 5": ["--decoding", "fairseq", "--beam", "5"],
    "greedy": ["--decoding", "greedy"],
    "jacobi (PJ, oracle length)": ["--decoding", "jacobi", "--oracle-length"],
    "gs_jacobi (PGJ, b = 5, oracle length)": [
        "--decoding", "gs_jacobi", "--jacobi-block-size", "5", "--oracle-length",
    ],
    "gs_jacobi (PGJ, b = 3, oracle length)": ["--decoding", "gs_jacobi", "--oracle-length"],
    "gs_jacobi (PGJ, b = 3)": ["--decoding", "gs_jacobi"],
    "hybrid_jacobi (HGJ, b = 3)": ["--decoding", "hybrid_jacobi"],
    "lookahead --guess pad": ["--decoding", "lookahead", "--guess", "pad"],
    "lookahead --ngram-pool sentence": ["--decoding", "lookahead", "--ngram-pool", "sentence"],
    "lookahead": ["--decoding", "lookahead"],
}  # fmt: skip
REFERENCE = "fairseq --beam 1"
# The paper's rows, Opus en-de: times in Tables 1 and 6 (two machines), and iterations.
PAPER = {
    "fairseq --beam 5": ("0.71x", "0.71x", "1.00x"),
    "greedy": ("1.00x", "1.00x", "1.00x"),
    "jacobi (PJ, oracle length)": ("0.73x", "0.72x", "1.03x"),
    "gs_jacobi (PGJ, b = 5, oracle length)": ("1.28x", "", ""),
    "gs_jacobi (PGJ, b = 3, oracle length)": ("1.34x", "1.16x", "1.04x"),
    "hybrid_jacobi (HGJ, b = 3)": ("1.34x", "1.16x", "1.04x"),
}
PAPERS_COLUMNS = ("paper: time (Table 1)", "paper: time (Table 6)", "paper: iterations")
PAGE = commands.ROOT / "examples" / "RESULTS.md"
# Block sizes of PGJ, and the lengths up to which HGJ decodes blocks, in source lengths.
SWEEP = {
    **{name: METHODS[name] for name in (REFERENCE, "greedy")},
    **{
        f"gs_jacobi (PGJ, b = {b}, oracle length)": [
            "--decoding", "gs_jacobi", "--jacobi-block-size", str(b), "--oracle-length",
        ]
        for b in range(1, 11)
    },
    **{
        f"hybrid_jacobi (HGJ, b = 3, h = {h})": [
            "--decoding", "hybrid_jacobi", "--parallel-len-a", h, "--parallel-len-b", "0",
        ]
        for h in ("0.5", "1", "1.5")
    },
}  # fmt: skip
IN_TORCH = [sys.executable, commands.ROOT / "examples" / "common" / "in_torch.py"]
# The same iterations, except those that finish a block after a settled EOS.
UP_TO_EOS = {"hybrid_jacobi (HGJ, b = 3)": "gs_jacobi (PGJ, b = 3)"}


def main() -> None:
    """Train or write a checkpoint if none is given, decode, and print the table."""
    args, options = parse_args()
    args.workdir.mkdir(parents=True, exist_ok=True)
    if args.opus_sized:
        args.data, args.path, options = write_opus_sized(args.workdir, options)
    elif args.path is None:
        args.data, args.path, options = train_baseline(options)
    runs, dated = [], []
    methods, name = (SWEEP, "sweep") if args.sweep else (METHODS, "table")
    name += "-torch" if args.torch else ""
    for number in range(1, args.rounds + 1):
        for place, (method, method_options) in enumerate(methods.items()):
            output = args.workdir / name / f"{place}-{number}"
            if not commands.finished(output):
                generate(args, options + method_options, output)
            runs.append(read_timed(output, args.path, method))
            dated.append(commands.origin(output))
    text = table(runs, args.batch_size)
    print("\n" + text)
    atomic_files.write_text(args.workdir / f"{name}.md", text + "\n")
    if args.opus_sized:
        where = f"{origins(dated)} · threads: {torch.get_num_threads()} · rounds: {args.rounds}"
        write_section(PAGE, f"jacobi {name}", f"{where}\n\n{text}\n")


def parse_args():
    """Parse the options of this script, and return them with those for fairseq-generate."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("data", nargs="?", help="binarised data, as for fairseq-generate")
    parser.add_argument("--path", help="checkpoint, or several joined by colons (default: train)")
    parser.add_argument(
        "--opus-sized",
        action="store_true",
        help="the bundled model of ../en_de in the size of an Opus-MT model, and 50 sentences",
    )
    parser.add_argument(
        "--sweep", action="store_true", help="compare block sizes of 1 to 10, and finite lengths h"
    )
    parser.add_argument("--torch", action="store_true", help="decode without compiled code")
    parser.add_argument("--batch-size", type=positive, default=1)
    parser.add_argument(
        "--rounds",
        type=positive,
        default=3,
        help="number of rounds, in which the methods take turns",
    )
    parser.add_argument(
        "--workdir",
        type=Path,
        default=commands.ROOT / "work" / "jacobi",
        help="directory of the results",
    )
    args, options = parser.parse_known_args()
    if (args.data is None) != (args.path is None):
        parser.error("give both data and --path, or neither")
    if args.opus_sized and args.path is not None:
        parser.error("--opus-sized: writes its own model; remove --path and the data")
    return args, options


def train_baseline(options: list[str]):
    """Train the quick baseline of examples/en_de; return data, checkpoint and options."""
    settings = en_de.RECIPES["quick"]
    work = commands.ROOT / "work" / "en_de_quick"
    work.mkdir(parents=True, exist_ok=True)
    en_de.prepare(work, settings)
    en_de.train_baseline(work, settings)
    checkpoint = str(work / "baseline" / "checkpoint_last.pt")
    return str(work / "data"), checkpoint, [*text_options(work / "data" / "bpe.codes"), *options]


def write_opus_sized(work: Path, options: list[str]):
    """Write a model with 512 dimensions and 6 decoder layers that translates as the bundled one."""
    checkpoint = work / "checkpoint.pt"
    write_test_set(work / "data", en_de.MODEL, n_sentences=50)
    save_without_heads(en_de.MODEL / "checkpoint.pt", checkpoint)
    write_wider(checkpoint, checkpoint, factor=2, n_decoder_layers=6)
    languages = ["--target-lang", "de", *text_options(en_de.MODEL / "bpe.codes")]
    return str(work / "data"), str(checkpoint), [*languages, *options]


def text_options(codes: Path) -> list[str]:
    """The options of fairseq-generate that make text of English subwords' translations."""
    return ["--scoring", "sacrebleu", *en_de.text_options(codes), "--source-lang", "en"]


def generate(args: argparse.Namespace, options: list[str], output: Path) -> None:
    """Run fairseq-generate with one method."""
    commands.generate_into(
        output,
        [
            args.data, "--path", args.path,
            "--user-dir", commands.PLUGIN, "--cpu",
            "--batch-size", args.batch_size,
            *options, *commands.statistics_options(options, output),
        ],
        IN_TORCH if args.torch else None,
    )  # fmt: skip


def read_timed(output: Path, path: str, method: str) -> Run:
    """A run without the time to find lengths for ``--oracle-length``, as in the paper."""
    run = read_run(output, path, method)
    for line in log_lines(output):
        found = re.search(r" decoding: .* ([\d.]+) seconds before it for --oracle-length", line)
        if found:
            run.seconds -= float(found.group(1))
            break
    return run


def table(runs: list[Run], batch_size: int) -> str:
    """The table of all rounds, as Markdown."""
    groups = {group[0].method: group for group in grouped(runs)}
    rows = [row_of(group, groups) for group in groups.values()]
    title = (
        f"{len(runs[0].hypotheses)} sentences, batch size {batch_size}; medians of alternating "
        "rounds. Iterations: output tokens for each decoder call a sentence takes part in;\n"
        "up to EOS: without those that finish its block. Oracle length: greedy decoding's, found "
        "beforehand; neither time nor iterations of that count."
    )
    return markdown(signed(title, "fairseq's detokenised targets") + caution(runs), rows)


def caution(runs: list[Run]) -> str:
    """A warning if subwords were not joined before scoring."""
    if any(run.translations != run.hypotheses for run in runs):
        return ""
    return " (of tokens as they are: --tokenizer and --bpe make text of them)"


def iterations(group: list[Run], groups: dict[str, list[Run]]) -> str:
    """Tokens per iteration; if a method continues after EOS, also without that."""
    told = f"{group[0].tokens / group[0].invocations:.2f}x"
    shorter = groups.get(UP_TO_EOS.get(group[0].method, ""))
    if shorter:
        told += f" ({shorter[0].tokens / shorter[0].invocations:.2f}x up to EOS)"
    return told


def row_of(group: list[Run], groups: dict[str, list[Run]]) -> dict[str, str]:
    """One line of the table."""
    own, reference = group[0], groups[REFERENCE][0]
    same = sum(text == reference.hypotheses[i] for i, text in own.hypotheses.items())
    return {
        "method": own.method,
        **dict(zip(PAPERS_COLUMNS, PAPER.get(own.method, ("", "", "")))),
        "BLEU": f"{own.bleu:.2f}",
        "iterations": iterations(group, groups),
        "seconds": f"{statistics.median(run.seconds for run in group):.1f}",
        "time, to fairseq --beam 1": f"{ratio(group, groups[REFERENCE]):.2f}x",
        "time, to greedy": f"{ratio(group, groups['greedy']):.2f}x",
        "identical sentences": f"{same} of {len(own.hypotheses)}",
        "outputs": shortened(checksum(own.translations)),
    }


def ratio(group: list[Run], reference: list[Run]) -> float:
    """The speed relative to the reference in the same round."""
    return statistics.median(b.seconds / a.seconds for a, b in zip(group, reference))


if __name__ == "__main__":
    main()
