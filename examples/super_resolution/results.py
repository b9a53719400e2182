"""Reads the patches of each method from fairseq-generate's output, with quality and time."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from examples.common.table import (
    checksum,
    markdown,
    mean_block_size,
    numbered,
    read_lines,
    shortened,
    tokens_and_seconds,
)
from examples.engine.base import times_as_fast

from .patches import enlarged, from_lines, gathered, psnr

SCALE = {"nearest neighbour": Image.Resampling.NEAREST, "bicubic": Image.Resampling.BICUBIC}
GREEDY = "greedy"
# The paper's Table 2: mean accepted block sizes by k, in the order of its columns.
COLUMNS = ("regular", "approximate", "fine tuning", "both")
THE_PAPER = {
    1: ("1.00", "", "", ""),
    2: ("1.07", "1.24", "1.59", "1.96"),
    4: ("1.08", "1.36", "2.11", "3.75"),
    6: ("1.09", "1.38", "2.23", "5.25"),
    8: ("1.09", "1.49", "2.17", "6.36"),
    10: ("1.10", "1.40", "2.04", "6.79"),
}


@dataclass
class Decoded:
    """The test patches decoded by one method.

    Attributes:
        setting: ``greedy``, one of ``COLUMNS``, or an additional one.
        patches: uint8 ``[N, 16, 16]``; low, their sources: ``[N, 8, 8]``; truth: as ``patches``.
        seconds: the time of each round.
    """

    setting: str
    block_size: int
    patches: np.ndarray
    low: np.ndarray
    truth: np.ndarray
    mean_block_size: float
    invocations: int
    seconds: list[float]
    sha256: str  # of the patches, as numbers


def read(outputs: Sequence[Path], setting: str, block_size: int) -> Decoded:
    """Read the rounds of one method."""
    results = (outputs[0] / "generate-test.txt").read_text(encoding="utf-8")
    made, sources, truth = (
        numbered(mark, results) for mark in (r"H-(\d+)\t[^\t\n]*", r"S-(\d+)", r"T-(\d+)")
    )
    records = [json.loads(line) for line in read_lines(outputs[0] / "stats.jsonl")]
    return Decoded(
        setting=setting,
        block_size=block_size,
        patches=_patches(made),
        low=gathered(_patches(sources)),
        truth=_patches(truth),
        mean_block_size=mean_block_size(outputs[0]),
        invocations=sum(record["invocations"] for record in records),
        seconds=[tokens_and_seconds(output)[1] for output in outputs],
        sha256=checksum(made),
    )


def _patches(lines: dict[int, str]) -> np.ndarray:
    """Patches from their numbers in text, in order."""
    return from_lines([line for _, line in sorted(lines.items())])


def block_sizes(decoded: list[Decoded]) -> str:
    """Table 2 of the paper, mean accepted block sizes, with ours below."""
    ours: dict[int, dict[str, str]] = {}
    for run in decoded:
        # In the paper, row k = 1 of the first column is greedy decoding.
        setting = COLUMNS[0] if run.setting == GREEDY else run.setting
        if setting in COLUMNS:
            ours.setdefault(run.block_size, {})[setting] = f"{run.mean_block_size:.2f}"
    rows = [
        {"k": str(k), "": whose, **{setting: cells.get(setting, "") for setting in COLUMNS}}
        for whose, table in (
            ("paper", {k: dict(zip(COLUMNS, cells)) for k, cells in THE_PAPER.items()}),
            ("ours", ours),
        )
        for k, cells in sorted(table.items())
    ]
    return markdown("Mean accepted block size", rows)


def qualities(decoded: list[Decoded]) -> str:
    """A table of the quality and speed of each method, relative to greedy decoding."""
    greedy = next(run for run in decoded if run.setting == GREEDY)
    rows = [
        _row(method, "", psnr(enlarged(greedy.low, by), greedy.truth))
        for method, by in SCALE.items()
    ]
    for run in decoded:
        more = (
            f"{run.mean_block_size:.2f}",
            str(run.invocations),
            times_as_fast(run.seconds, greedy.seconds),
            shortened(run.sha256),
        )
        rows.append(_row(run.setting, str(run.block_size), psnr(run.patches, run.truth), *more))
    return markdown(
        "PSNR of all pixels of the test patches; speed-up over greedy decoding, median of rounds, "
        "least and greatest",
        rows,
    )


def _row(setting: str, block_size: str, quality: float, *more: str) -> dict[str, str]:
    names = ("mean accepted block size", "decoder invocations", "speed-up", "outputs")
    return {
        "method": setting,
        "k": block_size,
        "PSNR": f"{quality:.2f}",
        **dict(zip(names, more or [""] * len(names))),
    }
