#!/usr/bin/env python3
"""Measure how much longer translations with alignments take.

    python examples/engine/alignments.py [--sentences N] [--rounds N] [--output FILE]

The bundled model translates its test set in one thread, with ``translate(..., details=True)``: one
sentence per call, or lists of 32. The ways take turns at every call. The times are those of the
processor, which other programs affect less. ``additional pass`` computes the attention in a forward
pass of fairseq's model over the finished translations, as for models of the full context.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

import torch
from fairseq.data import data_utils

import fairseq_fastdec
from examples.common import commands
from examples.common.en_de import EN_DE, MODEL
from examples.common.figures import write_figures
from examples.common.table import markdown
from fairseq_fastdec.decoding.alignments import attention_of
from fairseq_fastdec.processes.noise import results_only
from fairseq_fastdec.translating.command_line import positive

SEARCHES = {"greedy": {"decoding": "greedy"}, "beam 5": {"decoding": "beam", "beam": 5}}
BATCH_SIZES = (1, 32)
WITHOUT, ADDITIONAL = "without", "additional pass"


class Ways:
    """The ways to translate some sentences."""

    def __init__(self, translator: Any, lines: Sequence[str], **options: Any) -> None:
        self._translator, self._lines = translator, lines
        self._options = {"details": True, "batch_size": len(lines), **options}
        self._codec = translator.codec
        self._sources = self._tensors(map(self._codec.encode, lines))
        found = translator.translate(list(lines), **self._options)
        words = [" ".join(own.tokens) for own in found]
        self._hypotheses = [
            torch.tensor([*map(self._codec.target.index, text.split()), self._codec.target.eos()])
            for text in words
        ]

    def all(self) -> dict[str, Callable[[], Any]]:
        """By name, functions that translate the sentences."""
        return {
            WITHOUT: self._translated,
            "hard": lambda: self._translated(alignment="hard"),
            "soft": lambda: self._translated(alignment="soft"),
            ADDITIONAL: self._with_pass,
        }

    def _translated(self, **options: Any) -> Any:
        lines: Any = self._lines[0] if len(self._lines) == 1 else list(self._lines)
        return self._translator.translate(lines, **self._options, **options)

    def _with_pass(self) -> Any:
        pad, eos = self._codec.source.pad(), self._codec.source.eos()
        lengths = torch.tensor([len(source) for source in self._sources])
        batch = data_utils.collate_tokens(self._sources, pad, left_pad=True)
        given = (self._translator.models, batch, lengths, self._hypotheses)
        return self._translated(), attention_of(*given, eos, pad)

    @staticmethod
    def _tensors(sentences: Any) -> list[torch.Tensor]:
        return [torch.tensor(sentence) for sentence in sentences]


def parse_args(description: Optional[str], n_sentences: int) -> argparse.Namespace:
    """Parse the command line of a script that compares ways to translate in one thread."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sentences", type=positive, default=n_sentences)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    torch.set_num_threads(1)
    return parser.parse_args()


def show(title: str, rows: Sequence[dict[str, str]], output: Optional[Path]) -> None:
    """Print a table, and write its rows with their commit to a JSON file, if one is given."""
    print(markdown(title, rows))
    if output is not None:
        figures = {**commands.provenance(), "rows": rows}
        write_figures(output, figures)


@results_only()
def main() -> None:
    """Measure, print the table, and write the figures."""
    args = parse_args(__doc__, 640)
    lines = (EN_DE / "data" / "test.en").read_text(encoding="utf-8").splitlines()[: args.sentences]
    translator = fairseq_fastdec.load(MODEL)
    rows = []
    for name, options in SEARCHES.items():
        for size in BATCH_SIZES:
            own = lines[: -(-len(lines) // 4)] if size == 1 else lines
            parts = [own[start : start + size] for start in range(0, len(own), size)]
            ways = [Ways(translator, part, **options).all() for part in parts]
            shares = [ratios(ways, number) for number in range(args.rounds)]
            row = {"search": name, "batch size": str(size)}
            for way in list(shares[0])[1:]:
                found = [share[way] for share in shares]
                row[way] = f"{statistics.median(found):.3f} ({min(found):.3f} to {max(found):.3f})"
            rows.append(row)
    show(f"Times without alignments = 1, {args.rounds} rounds (medians)", rows, args.output)


def ratios(parts: Sequence[dict[str, Callable[[], Any]]], first: int) -> dict[str, float]:
    """The time of each way, divided by that without alignments.

    Args:
        first: the number of the way that begins with the first part.
    """
    seconds = dict.fromkeys(parts[0], 0.0)
    for number, ways in enumerate(parts):
        names = list(ways)
        start = (first + number) % len(names)
        for name in names[start:] + names[:start]:
            started = time.process_time()
            ways[name]()
            seconds[name] += time.process_time() - started
    return {name: own / seconds[WITHOUT] for name, own in seconds.items()}


if __name__ == "__main__":
    main()
