"""The results as Markdown and as JSON."""

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any, Optional

import torch

from .methods import Method, Settings
from .results import MethodResult

PACKAGES = ("fairseq_fastdec", "fairseq", "ve-fairseq", "fairseq-fixed", "torch", "ctranslate2")
COLUMNS = (
    "method",
    "workers x threads",
    "BLEU",
    "sentences/s",
    "tokens/s",
    "latency p50 (ms)",
    "latency p95 (ms)",
    "decoder invocations",
    "tokens per invocation",
    "identical sentences",
    "peak memory (MiB)",
    "time ratio",
    "speed-up",
)
FLOPS = "GFLOPs a sentence"


def markdown(
    results: Sequence[MethodResult],
    reference: str,
    signature: str,
    settings: Settings,
    left_out: dict[str, str],
) -> str:
    """A table for each batch size, and what its columns mean."""
    first = results[0]
    machine = processor() if settings.device == "cpu" else torch.cuda.get_device_name()
    lines = [
        f"{first.sentences} sentences, {settings.dtype} on {machine}, threads: "
        f"{settings.threads}, alternating rounds: {len(first.seconds)}",
        "",
    ]
    for batch_size in dict.fromkeys(result.batch_size for result in results):
        shown = [result for result in results if result.batch_size == batch_size]
        counted = settings.counts_flops
        titles = (*COLUMNS, FLOPS) if counted else COLUMNS
        rows = [_row(result) + [_flops(result)] * counted for result in shown]
        lines += [f"Batch size {batch_size}", "", *_table(titles, rows), ""]
        lines += _divisions(shown)
    lines += [
        "- workers x threads: how the threads were divided; a worker decodes a batch of its own, "
        "in a process of its own (with CTranslate2, in one of its inter threads)",
        "- latency: of a sentence in its worker, while the other workers decode others",
        f"- time ratio: to {reference}; the median over the rounds (least to greatest)",
        "- identical sentences: to those of the first method of the same beam width",
        "- tokens per invocation: for each row, that is, sentence or candidate, in a decoder call",
        "- peak memory: of the method's processes together, which share their weights; "
        f"{min(result.memory_before for result in results):.0f} MiB of it are Python's, torch's "
        "and fairseq's, also where CTranslate2 decodes",
        *[
            f"- {FLOPS}: thousand millions of floating-point operations, of which a multiply-add "
            "is two, of products of matrices and attention in the encoder and the decoder"
        ]
        * settings.counts_flops,
        f"- BLEU: `{signature}`, against {_references(settings)}",
        *(f"- left out: {name}: {reason}" for name, reason in left_out.items()),
    ]
    return "\n".join(lines) + "\n"


def as_json(
    results: Sequence[MethodResult],
    methods: Sequence[Method],
    reference: str,
    signature: str,
    settings: Settings,
    left_out: dict[str, str],
) -> str:
    """Everything, for programs."""
    content: dict[str, Any] = {
        "settings": asdict(settings),
        "methods": [asdict(method) for method in methods],
        "reference": reference,
        "bleu_signature": signature,
        "processor": processor(),
        "versions": {"python": platform.python_version(), **_versions()},
        "left_out": left_out,
        "results": [{**asdict(result), "speed_up": result.speed_up} for result in results],
    }
    return json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n"


def processor() -> str:
    """The name of the CPU; what Python knows of it where there is no ``/proc``."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    installed = {}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def _references(settings: Settings) -> str:
    if settings.reference_text is not None:
        return f"the lines of {settings.reference_text}"
    return "the data's targets, detokenised (--reference-text takes the text itself)"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(titles), "|" + "---|" * len(titles), *map(_line, rows)]


def _divisions(results: Sequence[MethodResult]) -> list[str]:
    """A table of the seconds with each division of the threads, where several were measured."""
    divisions = list(dict.fromkeys(t.division for result in results for t in result.trials))
    if len(divisions) == 1:
        return []
    rows = [
        [_name(result), *(_trial(result, division) for division in divisions)] for result in results
    ]
    return [
        "Seconds of a round by workers x threads (latency p50 in ms); the table above has the "
        "fastest, in bold here:",
        "",
        *_table(["method", *divisions], rows),
        "",
    ]


def _trial(result: MethodResult, division: str) -> str:
    for trial in result.trials:
        if trial.division == division:
            cell = f"{trial.seconds:.2f}"
            if trial.division == result.division:
                cell = f"**{cell}**"
            if trial.latency_p50 is not None:
                cell += f" ({trial.latency_p50:.1f})"
            return cell
    return ""


def _name(result: MethodResult) -> str:
    return result.method.replace("|", "\\|")


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _row(result: MethodResult) -> list[str]:
    least, greatest = result.time_ratio_range
    return [
        _name(result),
        result.division,
        f"{result.bleu:.2f}",
        f"{result.sentences_per_second:.1f}",
        f"{result.tokens_per_second:.0f}",
        _number(result.latency_p50, ".1f"),
        _number(result.latency_p95, ".1f"),
        _number(result.invocations, "d"),
        _number(result.tokens_per_invocation, ".2f"),
        f"{result.identical} of {result.sentences}",
        f"{result.memory:.0f}",
        f"{result.time_ratio:.2f} ({least:.2f} to {greatest:.2f})",
        f"{result.speed_up:.2f}x",
    ]


def _flops(result: MethodResult) -> str:
    """The operations of a sentence in thousand millions, empty where they were not counted."""
    return _number(result.flops and result.flops / result.sentences / 1e9, ".3f")


def _number(value: Optional[float], form: str) -> str:
    return "" if value is None else format(value, form)
