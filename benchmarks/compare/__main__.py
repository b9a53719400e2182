"""Runs the command: ``python -m benchmarks.compare``."""

from fairseq_fastdec.processes import streams

from .command import main
from .methods import PROGRAM

if __name__ == "__main__":
    streams.run(main, PROGRAM)
