"""Runs the command: ``python -m benchmarks.launches``."""

from fairseq_fastdec.processes import streams

from .command import PROGRAM, main

if __name__ == "__main__":
    streams.run(main, PROGRAM)
