"""Measures rows until the time is over."""

import statistics
import time
from collections.abc import Sequence
from typing import Any

from .measuring import OURS, figures, measure
from .process import Lost, Replaceable, TooLong
from .results import Results, speed
from .rows import Row, Scale, seconds_expected

# The most seconds of a row; one that takes longer hangs.
PATIENCE = 180


class Session:
    """Measures rows in a process of their own, and writes each result."""

    def __init__(
        self, results: Results, scale: Scale, device: str, origin: dict[str, Any], ends: float
    ) -> None:
        """
        Args:
            origin: fields of each row, see :func:`.results.origin`.
            ends: when the time is over, by ``time.monotonic``.
        """
        self._results, self._scale, self._device = results, scale, device
        self._origin, self._ends = origin, ends
        # The seconds of rows so far, divided by those that were expected.
        self._factors: list[float] = []

    def run(self, plan: Sequence[Row]) -> None:
        """Measure the rows without a result, then those that failed earlier."""
        known = self._results.rows
        new = [row for row in plan if row.name not in known]
        failed = [row for row in plan if row.name in known and known[row.name]["errors"]]
        process = Replaceable()
        try:
            for row in (*new, *failed):
                self._measure(row, process)
                self._results.write()
        finally:
            process.end()

    def _measure(self, row: Row, process: Replaceable) -> None:
        started, expected = time.monotonic(), seconds_expected(row, self._scale)
        left = self._ends - started
        needed = expected * (statistics.median(self._factors) if self._factors else 1)
        if needed > left:
            found = {"skipped": f"needs about {needed:.0f} s"}
        else:
            found = self._figures(row, process, left)
        if "skipped" in found:
            self._results.skipped[row.name] = found["skipped"]
            return
        self._results.skipped.pop(row.name, None)
        self._results.rows[row.name] = {**row._asdict(), **found, **self._origin}
        print(f"{left:5.0f} s left: {row.name}: {speed(found)}", flush=True)
        if not found["errors"]:
            self._factors.append((time.monotonic() - started) / expected)

    def _figures(self, row: Row, process: Replaceable, left: float) -> dict[str, Any]:
        """See :meth:`.measuring.Measuring.measure`."""
        given = (row, self._scale, self._device, left)
        try:
            found, is_usable = process.call(min(PATIENCE, left), measure, *given)
        except Lost as lost:
            if isinstance(lost, TooLong) and left < PATIENCE:
                return {"skipped": str(lost)}
            return {**figures({}), "errors": {OURS: str(lost)}}
        if not is_usable:
            process.end()
        return found
