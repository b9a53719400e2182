#!/usr/bin/env python3
"""Compare the time of calls from Python with fairseq's ``inference_step``.

    python examples/engine/one_call.py [CHECKPOINT] [--sentences N]

Greedy decoding of one sentence of the test set per call; the calls take turns. ``inference_step``
takes an existing batch, ``hub.generate`` tokens; both return tokens. The others read and return
text.
"""

import argparse
import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq.models.transformer import TransformerModel

import fairseq_fastdec
from examples.common.en_de import EN_DE, MODEL
from examples.common.table import markdown
from fairseq_fastdec.processes.noise import results_only
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.command_line import positive


@results_only()
def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", nargs="?", type=Path, default=MODEL)
    parser.add_argument("--sentences", type=positive, default=200)
    parser.add_argument("--rounds", type=positive, default=9)
    args = parser.parse_args()
    lines = (EN_DE / "data" / "test.en").read_text(encoding="utf-8").splitlines()[: args.sentences]
    with tempfile.TemporaryDirectory() as directory:
        calls = calls_of(args.checkpoint, lines, Path(directory) / "model.fastdec")
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for call in calls.values():
            timed(call, len(lines))
        for _ in range(args.rounds):
            for name, call in calls.items():
                seconds[name].append(timed(call, len(lines)))
    rows = []
    for name, own in seconds.items():
        ratios = [one / first for one, first in zip(own, next(iter(seconds.values())))]
        rows.append(
            {
                "call": name,
                "ms": f"{statistics.median(own) * 1000:.2f}",
                "times inference_step": f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to "
                f"{max(ratios):.2f})",
            }
        )
    print(markdown(f"One sentence, {args.rounds} rounds of {len(lines)} (medians)", rows))


def calls_of(path: Path, lines: list[str], bundle: Path) -> dict[str, Callable[[int], Any]]:
    """Functions that translate a sentence by its number.

    Args:
        bundle: the path for a bundle.
    """
    translator = fairseq_fastdec.load(path)
    export(translator, bundle)
    of_bundle = fairseq_fastdec.load(bundle)
    names = {"tokenizer": "moses", "bpe": "subword_nmt", "bpe_codes": str(path / "bpe.codes")}
    hub = TransformerModel.from_pretrained(str(path), "checkpoint.pt", str(path), **names)
    tokens = [hub.encode(line) for line in lines]
    batches = [next(hub._build_batches([own], False)) for own in tokens]
    greedy = {"beam": 1, "decoding": "greedy"}
    generator = hub.task.build_generator(hub.models, Namespace(**greedy))
    return {
        "inference_step": lambda n: hub.task.inference_step(generator, hub.models, batches[n]),
        "translator.translate": lambda n: translator.translate(lines[n]),
        "translator.translate of a bundle": lambda n: of_bundle.translate(lines[n]),
        "hub.generate": lambda n: hub.generate(tokens[n], **greedy),
        "hub.translate": lambda n: hub.translate(lines[n], **greedy),
    }


def timed(call: Callable[[int], Any], n: int) -> float:
    """The mean seconds per call."""
    started = time.perf_counter()
    for number in range(n):
        call(number)
    return (time.perf_counter() - started) / n


if __name__ == "__main__":
    main()
