"""A stand-in for models in tests of processes, which translates to capitals.

It does not need torch, so processes that are spawned begin sooner.
"""

import os
import signal
import time
from pathlib import Path

from fairseq_fastdec.corpora.chunks import Translated
from fairseq_fastdec.corpora.output_lines import UntranslatedLine


class Capitals:
    """Some lines cause actions: ``die``, ``die once``, ``wait``, ``stop``, ``fail``, ``crash``.

    Attributes:
        directory: records which lines have killed a worker.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def prepare(self):
        pass

    def use_threads(self, n_threads):
        pass

    def translate(self, chunk, progress):
        for place, line in enumerate(chunk.lines):
            progress(1)
            self.obey(line.decode(), chunk.first + place)
        return Translated(chunk.source.upper(), {"translated": chunk.n_lines})

    def obey(self, line, number):
        if line == "die" or (line == "die once" and self.is_first_time(number)):
            os.kill(os.getpid(), signal.SIGKILL)
        if line == "wait":
            time.sleep(600)
        if line == "stop":
            raise UntranslatedLine(number, "too long")
        if line == "fail":
            raise OSError(28, "No space left on device")
        if line == "crash":
            raise KeyError("a mistake")

    def is_first_time(self, number):
        mark = self.directory / f"died over {number}"
        if mark.exists():
            return False
        mark.write_text("")
        return True


def capitals(directory, _):
    """Loads the stand-in in a worker."""
    return Capitals(directory)


def die(_):
    """Ends a worker that loads its model."""
    os._exit(7)
