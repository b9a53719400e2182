"""Reads the patches of each method from fairseq-generate's output, with quality and time."""

import json
import re
import statistics
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
    translated_line,
)

from .patches import enlarged, from_lines, gathered, psnr

SCALE = {"nearest neighbour": Image.Resampling.NEAREST, "bicubic": Image.Resampling.BICUBIC}
GREEDY = "greedy"


@dataclass
class Decoded:
    """The test patches decoded by one method.

    Attributes:
        setting: a column of the paper's Table 2, or an additional one.
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
        seconds=[_seconds(output) for output in outputs],
        sha256=checksum(made),
    )


def _patches(lines: dict[int, str]) -> np.ndarray:
    """Patches from their numbers in text, in order."""
    return from_lines([line for _, line in sorted(lines.items())])


def block_sizes(decoded: list[Decoded]) -> str:
    """Table 2 of the paper: mean accepted block sizes."""
    cells = {(run.block_size, run.setting): f"{run.mean_block_size:.2f}" for run in decoded}
    settings = list(dict.fromkeys(setting for _, setting in cells if setting != GREEDY))
    # In the paper, row k = 1 of the first column is greedy decoding.
    cells[1, settings[0]] = cells.pop((1, GREEDY))
    rows = [
        {"k": str(k), **{setting: cells.get((k, setting), "") for setting in settings}}
        for k in sorted({block_size for block_size, _ in cells})
    ]
    return markdown("Mean accepted block size", rows)


def qualities(decoded: list[Decoded]) -> str:
    """A table of the quality and time of each method, relative to greedy decoding."""
    greedy = next(run for run in decoded if run.setting == GREEDY)
    rows = [
        _row(method, "", psnr(enlarged(greedy.low, by), greedy.truth))
        for method, by in SCALE.items()
    ]
    for run in decoded:
        shares = [own / its for own, its in zip(run.seconds, greedy.seconds)]
        more = (
            f"{run.mean_block_size:.2f}",
            str(run.invocations),
            f"{statistics.median(run.seconds):.1f}",
            f"{statistics.median(shares):.2f}",
            shortened(run.sha256),
        )
        rows.append(_row(run.setting, str(run.block_size), psnr(run.patches, run.truth), *more))
    return markdown("PSNR of all pixels of the test patches; medians of alternating rounds", rows)


def _row(setting: str, block_size: str, quality: float, *more: str) -> dict[str, str]:
    names = (
        "mean accepted block size",
        "decoder invocations",
        "seconds",
        "time, to greedy's",
        "outputs",
    )
    return {
        "method": setting,
        "k": block_size,
        "PSNR": f"{quality:.2f}",
        **dict(zip(names, more or [""] * len(names))),
    }


def _seconds(output: Path) -> float:
    """The seconds for all patches, without start-up."""
    tokens, rate = re.search(
        r"\(([\d,]+) tokens\) in .* ([\d.]+) tokens/s", translated_line(output)
    ).groups()
    # Computed from the rate, since fairseq rounds the seconds to tenths.
    return int(tokens.replace(",", "")) / float(rate)
