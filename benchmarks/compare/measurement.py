"""The result of one round of a method, and the memory of a process."""

import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from fairseq_fastdec.tools.corpus import DecodedText


@dataclass
class Round:
    """One pass over all sentences.

    Attributes:
        seconds: the time of the search, without loading data and detokenising; with several
            workers, from their common start to the end of the last.
        tokens: the number of tokens of the best hypotheses, including EOS.
        latencies: seconds by sentence, with batch size 1; other workers decode other sentences at
            the same time.
        invocations: the number of calls of the decoder; ``None`` if it is unknown.
        row_invocations: the number of rows (sentences or candidates) in these calls.
        translations: the translations by sentence number.
    """

    seconds: float = 0.0
    tokens: int = 0
    latencies: dict[int, float] = field(default_factory=dict)
    invocations: Optional[int] = None
    row_invocations: Optional[int] = None
    translations: dict[int, DecodedText] = field(default_factory=dict)


def together(rounds: Sequence[Round]) -> Round:
    """Merge the rounds of parallel workers, each with a part of the sentences."""
    result = Round(
        max(part.seconds for part in rounds),
        sum(part.tokens for part in rounds),
        invocations=_sum([part.invocations for part in rounds]),
        row_invocations=_sum([part.row_invocations for part in rounds]),
    )
    for part in rounds:
        result.latencies.update(part.latencies)
        result.translations.update(part.translations)
    return result


def _sum(counts: Sequence[Optional[int]]) -> Optional[int]:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def peak_memory() -> float:
    """The peak of the resident memory of this process, in MiB.

    On Linux it is read from ``/proc``, since ``getrusage`` includes the memory of the parent
    process when it started this one. Memory that forked processes share is divided among them, so
    that their peaks can be added.
    """
    status = Path("/proc/self/status")
    if status.exists():
        kib = _kib(status)["VmHWM"]
        pages = Path("/proc/self/smaps_rollup")
        shares = _kib(pages) if pages.exists() else {}
        if "Pss_Anon" in shares:
            kib -= shares["Anonymous"] - shares["Pss_Anon"]
        return kib / 1024
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def _kib(path: Path) -> dict[str, int]:
    """The fields in KiB of a file in ``/proc``."""
    fields = (line.partition(":")[::2] for line in path.read_text().splitlines())
    return {name: int(value.split()[0]) for name, value in fields if value.endswith(" kB")}
