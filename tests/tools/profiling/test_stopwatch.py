"""Time by parts of a program."""

import pytest

from fairseq_fastdec.tools.profiling import stopwatch
from fairseq_fastdec.tools.profiling.stopwatch import Stopwatch


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now


def test_inner_parts_are_not_counted_twice(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(stopwatch, "time", clock)
    watch = Stopwatch()

    def work(seconds, *inner):
        clock.now += seconds
        for function in inner:
            function()
            clock.now += seconds

    inner = watch.watched(lambda: work(2), "inner")
    failing = watch.watched(lambda: 1 / 0, "inner")
    outer = watch.watched(lambda: work(1, inner, inner), "outer")
    outer()
    clock.now += 100
    with pytest.raises(ZeroDivisionError):
        failing()
    inner()
    assert watch.seconds == {"outer": 3, "inner": 6}
