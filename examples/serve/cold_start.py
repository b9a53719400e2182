#!/usr/bin/env python3
"""Measure one sentence from a cold start: the seconds and the memory of a process of Python.

    python examples/serve/cold_start.py BUNDLE [--checkpoint PATH] [--ctranslate2 DIRECTORY]

Processes take turns. The process of CTranslate2 reads text in the same way as the bundle's, with
sacremoses and subword-nmt; the codes are next to the checkpoint.
"""

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

from examples.common.table import markdown
from fairseq_fastdec.translating.command_line import positive

SENTENCE = "Click the Save button."
OURS = """
import fairseq_fastdec
print(fairseq_fastdec.load({path!r}).translate({sentence!r}))
"""
# In kB.
MEMORY = "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
CTRANSLATE2 = """
import ctranslate2, sacremoses
from subword_nmt.apply_bpe import BPE
model = ctranslate2.Translator({path!r}, compute_type="int8")
tokens = sacremoses.MosesTokenizer("en").tokenize({sentence!r}, aggressive_dash_splits=True)
words = BPE(open({codes!r})).process_line(" ".join(tokens)).split()
(found,) = model.translate_batch([words], beam_size=1)
text = (" ".join(found.hypotheses[0]) + " ").replace("@@ ", "")
print(sacremoses.MosesDetokenizer("de").detokenize(text.split()))
"""


def main() -> None:
    """Run the processes in turns, and print the table."""
    args = parse_args()
    code = {"bundle": OURS.format(path=args.bundle, sentence=args.sentence)}
    if args.checkpoint:
        code["checkpoint"] = OURS.format(path=args.checkpoint, sentence=args.sentence)
    if args.ctranslate2:
        codes = str(Path(args.checkpoint or ".") / "bpe.codes")
        given = {"path": args.ctranslate2, "sentence": args.sentence, "codes": codes}
        code["CTranslate2"] = CTRANSLATE2.format(**given)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in code}
    for _ in range(args.rounds):
        for name, own in code.items():
            found[name].append(run(own))
    rows = []
    for name, pairs in found.items():
        seconds, memory = zip(*pairs)
        median, least, most = statistics.median(seconds), min(seconds), max(seconds)
        rows.append(
            {
                "process": name,
                "seconds": f"{median:.2f} ({least:.2f} to {most:.2f})",
                "memory, MiB": f"{statistics.median(memory):.0f}",
            }
        )
    print(markdown(f"One sentence from cold, {args.rounds} rounds (medians)", rows))


def run(code: str) -> tuple[float, float]:
    """The run time of a process in seconds, and its peak memory in MiB."""
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code + MEMORY], capture_output=True, check=True)
    seconds = time.perf_counter() - started
    return seconds, int(done.stdout.split()[-2]) / 1024


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", metavar="BUNDLE")
    parser.add_argument("--checkpoint", metavar="PATH")
    parser.add_argument(
        "--ctranslate2", metavar="DIRECTORY", help="directory of the converted model"
    )
    parser.add_argument("--sentence", default=SENTENCE)
    parser.add_argument("--rounds", type=positive, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
