"""The engine's profile: whole times, split without gaps or overlaps."""

import pytest

from fairseq_fastdec.tools.profiling import command, stopwatch
from fairseq_fastdec.tools.profiling.profile import PARTS, Case, Profile, memory_bandwidth, profile
from fairseq_fastdec.tools.profiling.stopwatch import Stopwatch
from tests.support import tiny

TASK = tiny.task(20)
# Told apart where torch computes them.
LAYERS = {part for part in PARTS if part.endswith(("products", "rest"))} | {
    "embedding",
    "feed-forward",
}


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


def case(**changes):
    given = dict(decoding="greedy", beam=1, precision="fp32", batch_size=2)
    return Case(**{**given, "source_length": 6, "target_length": 8, **changes})


def test_parts_make_the_whole():
    model = tiny.build_model(TASK)
    result = profile(model, TASK.target_dictionary, case(), 1e9, repeats=2)
    assert set(result.parts) == set(PARTS)
    assert result.total == pytest.approx(sum(result.parts.values()))
    idle = {part for part, milliseconds in result.parts.items() if milliseconds == 0}
    layers = {
        "all layers, compiled": idle >= LAYERS,
        "self-attention, products": "all layers, compiled" in idle,
    }
    assert sum(layers.values()) == 1
    assert idle - LAYERS <= {"moving rows", "softmax", "all layers, compiled"}


@pytest.mark.parametrize("decoding, beam", [("beam", 3), ("lookahead", 1), ("streaming", 2)])
def test_other_methods(decoding, beam):
    model = tiny.build_model(TASK)
    result = profile(
        model, TASK.target_dictionary, case(decoding=decoding, beam=beam), 1e9, repeats=1
    )
    assert result.parts["feed-forward"] > 0 or result.parts["all layers, compiled"] > 0
    assert result.parts["moving rows"] > 0


def test_the_floor_counts_each_weight_of_a_step():
    """Two layers of 32 x (3 + 1 + 1 + 1) x 32 and 2 x 32 x 64, and the output layer."""
    model = tiny.build_model(TASK)
    n_weights = 2 * (6 * 32 * 32 + 2 * 32 * 64) + 32 * len(TASK.target_dictionary)
    for precision, n_bytes in (("fp32", 4), ("bf16", 2), ("int8", 1)):
        result = profile(model, TASK.target_dictionary, case(precision=precision), 1e6, repeats=1)
        assert result.floor == pytest.approx(n_weights * n_bytes / 1e6 * 1e3)


def test_bandwidth_is_of_this_world():
    assert 1e8 < memory_bandwidth(1 << 24) < 1e13


def test_the_command(capsys):
    command.main(
        "--arch transformer_iwslt_de_en --types 50 --batch-sizes 1,2 --precisions fp32,int8 "
        "--repeats 1 --source-length 4 --target-length 5 --threads 1".split()
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].count("|") == 6 and "batch 2, int8" in lines[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:] if "|" in line]
    shown = [name for name, *_ in rows]
    assert shown[-2:] == ["total", "floor"]
    assert shown[:-2] == [part for part in PARTS if part in shown]
    assert "encoder" in shown and "output layer" in shown
    for name, *cells in rows[:-2]:
        assert any(float(cell) for cell in cells), f"{name} is all zero"
    explanation = " ".join(lines[lines.index("") :])
    assert "floor: what reading each weight" in explanation and "GB/s" in explanation


def test_parts_that_took_no_time_are_not_shown():
    cases = [case(), case(precision="int8")]
    first, second = dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 0.0)
    first["search"], second["softmax"], second["embedding"] = 0.5, 0.006, 0.004
    profiles = [Profile(first, 0.5, 0.0), Profile(second, 0.01, 0.0)]
    lines = command.table(cases, profiles).splitlines()[2:]
    # A floor too low to be shown stays.
    assert [line.split("|")[1].strip() for line in lines] == ["softmax", "search", "total", "floor"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--arch nonsense", "--arch nonsense: unknown"),
        ("--path model.pt", "give both --path and --data"),
        ("--precisions fp16", "choose from fp32, bf16, int8"),
    ],
)
def test_wrong_command_lines(arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments.split())
    assert message in capsys.readouterr().err


def test_a_method_that_the_model_is_not_made_for():
    arguments = "--arch transformer_iwslt_de_en --types 50 --decoding blockwise --threads 1"
    with pytest.raises(SystemExit, match="profile_engine.py: --decoding blockwise"):
        command.main(arguments.split())
