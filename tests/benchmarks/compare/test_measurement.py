"""What workers did side by side, as one round."""

from benchmarks.compare.measurement import Round, together
from fairseq_fastdec.tools.corpus import DecodedText


def test_what_workers_did_together():
    first, second = DecodedText("a", "a"), DecodedText("b", "b")
    left = Round(2.0, 10, {0: 0.5}, 4, 5, {0: first})
    right = Round(3.0, 20, {1: 0.25}, 6, 7, {1: second})
    both = Round(3.0, 30, {0: 0.5, 1: 0.25}, 10, 12, {0: first, 1: second})
    assert together([left, right]) == both
    assert together([left]) == left
    right.invocations = None
    assert together([left, right]).invocations is None
