"""What one round of a method gives, and how it is measured."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Optional


@dataclass(frozen=True)
class Translation:
    """One output: its tokens separated by spaces, and the text that they are."""

    tokens: str
    text: str


@dataclass
class Round:
    """One pass over all sentences.

    Attributes:
        seconds: search only, without loading data and without making text of tokens.
        tokens: of the best hypotheses, EOS included.
        latencies: seconds by sentence, where sentences were decoded one at a time.
        invocations: calls of the decoder; ``None`` where they are not known.
        row_invocations: rows in all those calls, of sentences or of candidates.
        translations: by sentence number.
    """

    seconds: float = 0.0
    tokens: int = 0
    latencies: Dict[int, float] = field(default_factory=dict)
    invocations: Optional[int] = None
    row_invocations: Optional[int] = None
    translations: Dict[int, Translation] = field(default_factory=dict)


def peak_memory() -> float:
    """The most main memory that this process has had so far, in MiB.

    The kernel's figure for the address space: what ``getrusage`` says on Linux includes what the
    parent process had when it started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) / 1024
    import resource  # does not exist on Windows

    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
