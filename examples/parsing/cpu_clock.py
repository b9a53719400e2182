#!/usr/bin/env python3
"""fairseq-generate that counts the processor's time: what others do meanwhile does not matter.

    python examples/parsing/cpu_clock.py data-bin --path checkpoint_best.pt ...

The line "Translated ... in ...s" is the time that this process had a processor for, in the search.
With one thread on a machine that does nothing else, that is the time on the clock.
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
