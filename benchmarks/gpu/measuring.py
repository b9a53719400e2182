"""Measures a row: fairseq's search and a method take turns."""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import torch
from fairseq.sequence_generator import SequenceGenerator

from benchmarks.compare.contest import EXPLAINED
from benchmarks.compare.fairseq_runner import DecoderCalls
from fairseq_fastdec.decoding import build_generator
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.engine.kernels import loading

from .models import Models, Prepared
from .rows import METHODS, Entrant, Row, Scale

# The names of both searches in a row.
FAIRSEQ, OURS = "fairseq", "ours"


class Pass(NamedTuple):
    """The sentences of a row, decoded once.

    Attributes:
        outputs: the tokens of each batch's best hypotheses, with EOS.
        invocations: calls of the decoder.
        rows: sentences or hypotheses in these calls.
        mib: the peak of the GPU's memory, beyond what was in use before; ``None`` on a CPU.
    """

    seconds: float
    outputs: list[list[int]]
    invocations: int
    rows: int
    mib: Optional[float]


class Measuring:
    """Measures rows on a device, with models that stay there."""

    def __init__(self, scale: Scale, device: str) -> None:
        self.scale, self.device = scale, device
        self._models = Models(scale, device)

    def measure(self, row: Row, seconds: float) -> dict[str, Any]:
        """The figures of a row.

        Args:
            seconds: the time that is left.

        Returns:
            the fields of the JSON file. A search that fails has a message in ``errors``. A row that
            does not fit into the time has only ``skipped``, the reason.
        """
        started = time.monotonic()
        errors: dict[str, str] = {}
        searches: dict[str, Callable[[], Pass]] = {}
        warm: dict[str, Pass] = {}
        for name in (FAIRSEQ, OURS):
            # An error keeps tensors in its frames, so they can only be freed after it.
            try:
                searches[name] = self._search(row, name)
                warm[name] = searches[name]()
            except Exception as error:
                errors[name] = explained(error)
            if name in errors:
                self._free()
        spent = time.monotonic() - started
        one_round = sum(own.seconds for own in warm.values())
        least, most = self.scale.rounds
        if one_round * least > seconds - spent:
            return {"skipped": f"{least} rounds take {one_round * least:.0f} s"}
        n_rounds = max(least, min(most, int(self.scale.seconds / max(one_round, 1e-3))))
        rounds: dict[str, list[Pass]] = {name: [] for name in warm}
        for _ in range(n_rounds):
            for name in list(rounds):
                try:
                    rounds[name].append(searches[name]())
                except Exception as error:
                    errors[name] = explained(error)
                if name in errors:
                    del rounds[name]
                    self._free()
        return {**figures(rounds), "errors": errors}

    def is_usable(self) -> bool:
        """Whether the device still works; after some errors, CUDA only repeats them."""
        try:
            return torch.ones(1, device=self.device).item() == 1
        except Exception:
            return False

    def _search(self, row: Row, name: str) -> Callable[[], Pass]:
        method = METHODS[row.method]
        of_row = self._models.reference if name == FAIRSEQ else self._models.prepared
        prepared = of_row(row, method.kind)
        build = fairseq_generator if name == FAIRSEQ else own_generator
        return lambda: self._decode(prepared, *build(prepared, method))

    def _decode(self, prepared: Prepared, generator: Any, counts: Any) -> Pass:
        """Decode all batches once.

        Args:
            counts: a function that returns the invocations so far, and their rows.
        """
        on_gpu = self.device == "cuda"
        before = 0
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        started = self._now()
        found = [generator.generate(prepared.models, batch) for batch in prepared.batches]
        seconds = self._now() - started
        mib = (torch.cuda.max_memory_allocated() - before) / 2**20 if on_gpu else None
        outputs = [own[0]["tokens"].tolist() for batch in found for own in batch]
        invocations, n_rows = counts()
        return Pass(seconds, outputs, invocations, n_rows, mib)

    def _now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def _free(self) -> None:
        """Free what an error has left."""
        gc.collect()
        if self.device == "cuda" and self.is_usable():
            torch.cuda.empty_cache()


def fairseq_generator(prepared: Prepared, method: Entrant) -> tuple[Any, Callable[[], Any]]:
    """fairseq's search with the beam size of a method, and its counts."""
    generator = SequenceGenerator(
        prepared.models, prepared.dictionary, beam_size=method.beam, **prepared.limits
    )
    calls = DecoderCalls(generator)
    return generator, lambda: (calls.calls, calls.rows)


def own_generator(prepared: Prepared, method: Entrant) -> tuple[Any, Callable[[], Any]]:
    """A method of this package, and its counts."""
    options = DecodingOptions(decoding=method.decoding)
    options.check()
    args = argparse.Namespace(beam=method.beam, **prepared.limits)
    generator = build_generator(prepared.models, prepared.dictionary, args, options)
    counted = generator.statistics
    return generator, lambda: (counted.decoder_invocations, counted.row_invocations)


def explained(error: Exception) -> str:
    """An error in one line, with its name unless the message is clear without it."""
    kind = "" if isinstance(error, EXPLAINED) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())[:300]


def figures(rounds: dict[str, list[Pass]]) -> dict[str, Any]:
    """The figures of the searches that did not fail, by search, and their ratios."""
    last = {name: passes[-1] for name, passes in rounds.items()}
    found: dict[str, Any] = {
        "seconds": {name: [own.seconds for own in passes] for name, passes in rounds.items()},
        "tokens": {name: sum(map(len, own.outputs)) for name, own in last.items()},
        "invocations": {name: own.invocations for name, own in last.items()},
        "row_invocations": {name: own.rows for name, own in last.items()},
        # Milliseconds per call of the decoder.
        "ms": {
            name: 1e3 * statistics.median(own.seconds for own in passes) / last[name].invocations
            for name, passes in rounds.items()
        },
        "mib": {name: own.mib for name, own in last.items()},
    }
    if len(rounds) == 2:
        pairs = zip(rounds[FAIRSEQ], rounds[OURS])
        ratios = [theirs.seconds / own.seconds for theirs, own in pairs]
        found["ratio"] = statistics.median(ratios)
        found["ratio_range"] = [min(ratios), max(ratios)]
        outputs = zip(last[FAIRSEQ].outputs, last[OURS].outputs)
        found["identical"] = sum(theirs == own for theirs, own in outputs)
    found["sentences"] = max((len(own.outputs) for own in last.values()), default=0)
    return found


# That of this process.
_measuring: Optional[Measuring] = None


def measure(row: Row, scale: Scale, device: str, seconds: float) -> tuple[dict[str, Any], bool]:
    """See :meth:`Measuring.measure`; also whether this process can measure another row."""
    global _measuring
    if _measuring is None:
        if device == "cpu":
            # As on a GPU, torch decodes; threads would only slow tiny models down.
            torch.set_num_threads(1)
            setattr(loading, "library", lambda: None)  # noqa: B010 (mypy)
        _measuring = Measuring(scale, device)
    return _measuring.measure(row, seconds), _measuring.is_usable()
