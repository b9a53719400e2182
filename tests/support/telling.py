"""Runs a command, and tells when the interpreter's own start, which handles no interrupts, is over.

``python -m tests.support.telling FILE COMMAND ...`` creates the file at that time.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_fastdec import __main__ as front


def main(arguments: Sequence[str]) -> None:
    """Run a command; the first argument is the file."""
    begun, *words = arguments
    run = front.main

    def tell(given: Sequence[str]) -> None:
        Path(begun).touch()
        run(given)

    front.main = tell  # type: ignore[assignment]
    front.run(words)


if __name__ == "__main__":
    main(sys.argv[1:])
