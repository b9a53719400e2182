"""The result of one round of a method, and the memory of a process."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from ..corpus import DecodedText


@dataclass
class Round:
    """One pass over all sentences.

    Attributes:
        seconds: search only, without loading data and without making text of tokens; of workers
            that decode side by side, from their common beginning to the last one's end.
        tokens: of the best hypotheses, EOS included.
        latencies: seconds by sentence, where a worker decoded one at a time; while it did, the
            other workers decoded others.
        invocations: calls of the decoder; ``None`` where they are not known.
        row_invocations: rows in all those calls, of sentences or of candidates.
        translations: by sentence number.
    """

    seconds: float = 0.0
    tokens: int = 0
    latencies: dict[int, float] = field(default_factory=dict)
    invocations: Optional[int] = None
    row_invocations: Optional[int] = None
    translations: dict[int, DecodedText] = field(default_factory=dict)


def together(rounds: Sequence[Round]) -> Round:
    """One round of the rounds of workers side by side, each with another part of the sentences."""
    result = Round(
        max(own.seconds for own in rounds),
        sum(own.tokens for own in rounds),
        invocations=_sum([own.invocations for own in rounds]),
        row_invocations=_sum([own.row_invocations for own in rounds]),
    )
    for own in rounds:
        result.latencies.update(own.latencies)
        result.translations.update(own.translations)
    return result


def _sum(counts: Sequence[Optional[int]]) -> Optional[int]:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def peak_memory() -> float:
    """The most main memory that this process has had so far, in MiB.

    The kernel's figure for the address space: what ``getrusage`` says on Linux includes what the
    parent process had when it started this one. Of what a forked process still shares with others
    it has its part, so that their figures can be summed up.
    """
    status = Path("/proc/self/status")
    if status.exists():
        kib = _kib(status)["VmHWM"]
        pages = Path("/proc/self/smaps_rollup")
        shares = _kib(pages) if pages.exists() else {}
        if "Pss_Anon" in shares:
            kib -= shares["Anonymous"] - shares["Pss_Anon"]
        return kib / 1024
    import resource  # does not exist on Windows

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _kib(path: Path) -> dict[str, int]:
    """A file of the kernel's, its fields in KiB."""
    fields = (line.partition(":")[::2] for line in path.read_text().splitlines())
    return {name: int(value.split()[0]) for name, value in fields if value.endswith(" kB")}
