#!/usr/bin/env python3
"""fairseq-generate with CPU time instead of wall-clock time, independent of other processes.

    python examples/parsing/cpu_clock.py data-bin --path checkpoint_best.pt ...

The line "Translated ... in ...s" is then the CPU time of the search. With one thread on an idle
machine, it equals the wall-clock time.
"""

import time
from types import SimpleNamespace

from fairseq.logging import meters
from fairseq_cli import generate


def main() -> None:
    """Run the command with another clock."""
    meters.time = SimpleNamespace(perf_counter=time.process_time)
    generate.cli_main()


if __name__ == "__main__":
    main()
