"""The name of the processor of measurements."""

import platform
from pathlib import Path


def processor() -> str:
    """The name of the CPU, from ``/proc`` or else from Python."""
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
