"""The results as Markdown and as JSON."""

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import metadata
from typing import Any, Optional

import torch

from ..processor import processor
from .methods import Method, Settings
from .results import MethodResult

PACKAGES = ("fastdec-runtime", "fairseq", "ve-fairseq", "fairseq-fixed", "torch", "ctranslate2")
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
    """A table for each batch size, and explanations of the columns."""
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
        "- workers x threads: the division of the threads; each worker decodes one batch at a "
        "time, in a separate process (with CTranslate2, in one of its inter threads)",
        "- latency: the time of a sentence in its worker, while the other workers decode others",
        f"- time ratio: the time relative to {reference}; the median over the rounds (min to max)",
        "- identical sentences: sentences with the output of the first method with the same beam "
        "size",
        "- tokens per invocation: tokens per row (sentence or candidate) and call of the decoder",
        "- peak memory: the memory of all processes of the method, which share the weights; "
        f"{min(result.memory_before for result in results):.0f} MiB of it are used by Python, "
        "torch and fairseq, also for CTranslate2",
        *[
            f"- {FLOPS}: 10^9 floating-point operations of matrix products and attention in the "
            "encoder and the decoder; a multiply-add counts as two"
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
    """All results as JSON."""
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
    return "the detokenised targets of the data (--reference-text sets a file instead)"


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [_line(titles), "|" + "---|" * len(titles), *map(_line, rows)]


def _divisions(results: Sequence[MethodResult]) -> list[str]:
    """A table of the times by division of the threads, if several were measured."""
    divisions = list(dict.fromkeys(t.division for result in results for t in result.trials))
    if len(divisions) == 1:
        return []
    rows = [
        [_name(result), *(_trial(result, division) for division in divisions)] for result in results
    ]
    return [
        "Seconds per round by workers x threads (latency p50 in ms); the table above has the "
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
    """The operations per sentence in 10^9; empty if they were not counted."""
    return _number(result.flops and result.flops / result.sentences / 1e9, ".3f")


def _number(value: Optional[float], form: str) -> str:
    return "" if value is None else format(value, form)
