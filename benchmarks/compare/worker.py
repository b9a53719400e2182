"""The functions that run in the processes of a method: it loads once, and then decodes."""

from pathlib import Path
from typing import Any, Optional

import torch

from fairseq_fastdec.engine.kernels import loading
from fairseq_fastdec.tools.corpus import Corpus

from . import processes
from .ctranslate2_runner import CTranslate2Runner
from .fairseq_runner import FairseqRunner
from .measurement import Round, peak_memory
from .methods import CTRANSLATE2, Division, Method, Settings, configure
from .processes import begin_team
from .scoring import read_references

WARM_UP_BATCHES = 8


class Worker:
    """A method with its model and batches in memory."""

    def __init__(
        self, method: Method, settings: Settings, division: Division, shared: Path
    ) -> None:
        """
        Args:
            shared: a directory for files that several processes can read.

        Raises:
            ImportError, ValueError, OSError: if the method cannot run here; the message gives the
                reason.
        """
        if method.in_torch:
            loading.library = lambda: None  # type: ignore[assignment]
        self.memory_before = peak_memory()
        self._cfg = configure(settings, method)
        self.corpus = Corpus(self._cfg)
        n_sentences = len(self.corpus)
        if settings.sentences is not None:
            n_sentences = min(n_sentences, settings.sentences)
        self.sentences = range(n_sentences)
        if method.engine == CTRANSLATE2:
            self.runner: Any = CTranslate2Runner(
                self._cfg, self.corpus, settings.dtype, method.compute_type, division, shared
            )
        else:
            self.runner = FairseqRunner(self._cfg, self.corpus, settings.dtype)
        self._batches: dict[int, list[dict[str, Any]]] = {}

    def prepare(self) -> None:
        """Prepare the engine's weights before other processes are forked from this one."""
        self._cfg.dataset.batch_size = 1
        self.runner.decode(self.corpus.batches(self.sentences[:1], self.runner.models))

    def warm_up(self, batch_size: int) -> None:
        """Load the batches, and decode a sample of all lengths."""
        self._cfg.dataset.batch_size = batch_size
        batches = list(self.corpus.batches(self.sentences, self.runner.models))
        self._batches = {batch_size: batches}
        self.runner.decode(batches[:: max(1, len(batches) // WARM_UP_BATCHES)])

    def decode(self, batch_size: int) -> Round:
        """Decode all sentences once, after :meth:`warm_up` with that batch size.

        In a team of processes, decode this process's share of them.
        """
        batches = self._batches[batch_size]
        if processes.turns is None:
            return self.runner.decode(batches)
        return self.runner.decode(batches[i] for i in processes.turns.take(len(batches)))

    def flops(self, batch_size: int) -> Optional[int]:
        """Count the operations of one round in this process; ``None`` if that is not possible.

        It needs :meth:`warm_up` with that batch size.
        """
        count = getattr(self.runner, "flops", None)
        return None if count is None else count(self._batches[batch_size])


_worker: Optional[Worker] = None


def _own() -> Worker:
    """The worker of this process, after :func:`load`."""
    assert _worker is not None
    return _worker


def load(method: Method, settings: Settings, division: Division, shared: Path) -> tuple[int, float]:
    """Load a method into this process, and start the others of its team.

    Returns:
        the beam size, and the MiB that this process used before loading.
    """
    n_others = method.n_processes(division) - 1
    if n_others:
        # A process that has used several threads must not be forked.
        _begin(method, settings, division, shared, n_threads=1)
        _own().prepare()
        begin_team(n_others, _begin, method, settings, division, shared)
    _begin(method, settings, division, shared)
    return _own().runner.beam_width, _own().memory_before


def _begin(
    method: Method,
    settings: Settings,
    division: Division,
    shared: Path,
    n_threads: Optional[int] = None,
) -> None:
    """Set the number of threads; load the method unless it was inherited by fork."""
    global _worker
    torch.set_num_threads(n_threads or division.threads)
    _worker = _worker or Worker(method, settings, division, shared)


def warm_up(batch_size: int) -> None:
    """See :meth:`Worker.warm_up`."""
    _own().warm_up(batch_size)


def decode(batch_size: int) -> Round:
    """See :meth:`Worker.decode`."""
    return _own().decode(batch_size)


def flops(batch_size: int) -> Optional[int]:
    """See :meth:`Worker.flops`."""
    return _own().flops(batch_size)


def references(text: Optional[Path]) -> dict[int, str]:
    """The references by sentence number: the lines of a file, or else detokenised targets.

    Raises:
        OSError, ValueError: if the file cannot be read or has another number of lines.
    """
    corpus, sentences = _own().corpus, _own().sentences
    if text is None:
        return {number: corpus.reference(number) for number in sentences}
    lines = read_references(text, len(corpus))
    return {number: lines[number] for number in sentences}
