"""scripts/measure_gpu.py on a CPU, with tiny models."""

import os
import re
import time

import pytest
import torch

from benchmarks.gpu import gpu_tests, measuring, papers, results, session
from benchmarks.gpu.process import Lost, Replaceable, TooLong
from benchmarks.gpu.results import Results
from benchmarks.gpu.rows import FULL, MAIN, METHODS, TINY, Row, plan, seconds_expected
from examples.common import commands
from scripts import measure_gpu

PAGE = "a\n<!-- gpu -->\nold\n<!-- end of gpu -->\nb\n"
# Every model and every method, and some rows of other precisions and another batch size.
WHOLE = [
    row
    for row in plan(TINY)
    if ((row.precision, row.batch) == ("fp32", 2) and (row.model == "base" or row.method in MAIN))
    or (row.model, row.batch, row.method) in (("base", 1, "greedy"), ("base", 1, "beam 5"))
]
# The bundled model predicts one token per step.
FAILING = Row("bundled", "fp32", 2, "double_token 5")
ROWS = plan(TINY)[:6]
ENDED = {"counts": {"passed": 3, "failed": 1}, "failures": {"t::x": "wrong"}, "error": None}


@pytest.fixture
def given(tmp_path):
    """A function: the parsed options, with files in a temporary directory."""
    files = ["--json", str(tmp_path / "gpu.json")]
    for name in ("page", "papers"):
        (tmp_path / name).write_text(PAGE)
        files += [f"--{name}", str(tmp_path / name)]
    return lambda *options: measure_gpu.parse_args([*options, *files])


@pytest.fixture
def tests(tmp_path):
    """A file with tests that pass, fail and are skipped."""
    path = tmp_path / "test_some.py"
    path.write_text(
        "import pytest\n"
        "def test_right(): pass\n"
        "@pytest.mark.parametrize('x', ['a b'])\n"
        "def test_wrong(x): assert not 'two PASSED words'\n"
        "@pytest.mark.skip\n"
        "def test_other(): pass\n"
    )
    return path


def files_of(args):
    """The options of the files."""
    names = ("json", "page", "papers")
    return [word for name in names for word in (f"--{name}", str(getattr(args, name)))]


class Immediate:
    """A process that measures nothing: rows have the same figures, and some fail."""

    problems: dict = {}
    ended = 0

    def call(self, seconds, function, row, *others):
        problem = self.problems.get(row.name)
        if isinstance(problem, Exception):
            raise problem
        if problem is not None:
            return {**measuring.figures({}), "errors": {"ours": problem}}, False
        passes = [measuring.Pass(0.5, [[1, 2]], 2, 2, 64.0)] * 2
        return {**measuring.figures({"fairseq": passes, "ours": passes}), "errors": {}}, True

    def end(self):
        type(self).ended += 1


@pytest.fixture
def immediate(monkeypatch):
    monkeypatch.setattr(Immediate, "problems", {})
    monkeypatch.setattr(Immediate, "ended", 0)
    monkeypatch.setattr(session, "Replaceable", Immediate)
    monkeypatch.setattr(gpu_tests, "run", lambda *given: ENDED.copy())
    return Immediate


def on_gpu(found):
    """Pretend that results are a GPU's."""
    for own in (*found.rows.values(), found.tests):
        own.update(on_gpu=True, device="A GPU")
    return found


def test_all_of_it(given, tests):
    args = given("--cpu")
    measure_gpu.run(args, [WHOLE[0], FAILING, *WHOLE[1:]], tests)
    found = Results.read(args.json)
    assert list(found.rows) == [row.name for row in (WHOLE[0], FAILING, *WHOLE[1:])]
    assert {row["method"] for row in found.rows.values()} == METHODS.keys()
    assert found.skipped == {} and found.tests["counts"]["passed"] == 1
    failed = found.rows.pop(FAILING.name)
    assert failed["errors"].keys() == {"ours"} and "two tokens a step" in failed["errors"]["ours"]
    for row in found.rows.values():
        assert row["errors"] == {} and row["ratio"] > 0 and not row["on_gpu"]
        assert row["mib"] == {"fairseq": None, "ours": None}
        assert row["commit"] and row["torch"] == torch.__version__ and row["sentences"] > 0
        if row["precision"] == "fp32" and METHODS[row["method"]].decoding in ("greedy", "beam"):
            assert row["identical"] == row["sentences"]
        if row["model"] != "bundled":
            assert set(row["tokens"].values()) == {TINY.target_length * row["sentences"]}
    assert args.page.read_text() == PAGE


def test_an_interruption_and_what_is_left(given, immediate, monkeypatch, capsys):
    args = given("--cpu", "--resume")
    write, written = Results.write, []

    def interrupted(found):
        write(found)
        written.append(found)
        if len(written) == 4:  # the tests and three rows
            raise KeyboardInterrupt

    immediate.problems = {ROWS[1].name: "it fails"}
    monkeypatch.setattr(Results, "write", interrupted)
    monkeypatch.setattr(measure_gpu.rows, "plan", lambda scale: ROWS)
    options = ["--cpu", *files_of(args)]
    with pytest.raises(SystemExit) as stopped:
        measure_gpu.main(options)
    assert "interrupted; --resume continues" in f"{stopped.value}{capsys.readouterr().err}"
    first = Results.read(args.json)
    assert list(first.rows) == [row.name for row in ROWS[:3]]
    # Also after the row that fails.
    assert immediate.ended == 2
    monkeypatch.setattr(gpu_tests, "run", None)
    asked, call = [], immediate.call
    monkeypatch.setattr(immediate, "call", lambda *own: asked.append(own[3]) or call(*own))
    measure_gpu.main([*options, "--resume"])
    assert asked == [*ROWS[3:], ROWS[1]]
    second = Results.read(args.json)
    assert second.rows.keys() == {row.name for row in ROWS}
    assert all(second.rows[name] == row for name, row in first.rows.items() if not row["errors"])


def test_rows_that_fail(given, immediate, tests):
    immediate.problems = {
        ROWS[0].name: Lost("the process has died"),
        ROWS[2].name: "OutOfMemoryError: CUDA out of memory",
        ROWS[3].name: TooLong("did not end within 180 s"),
    }
    found = measure_gpu.run(given("--cpu"), ROWS, tests)
    assert {name: row["errors"] for name, row in found.rows.items() if row["errors"]} == {
        name: {"ours": str(problem)} for name, problem in immediate.problems.items()
    }
    assert len(found.rows) == len(ROWS)


def test_rows_without_time_are_skipped_by_name(given, immediate):
    rows = plan(FULL)[:6]
    found, origin = Results(given("--cpu").json), results.origin("cpu", "abc")
    session.Session(found, FULL, "cpu", origin, time.monotonic() + 1).run(rows)
    assert found.rows == {} and list(found.skipped) == [row.name for row in rows]
    assert all(reason.startswith("needs about ") for reason in found.skipped.values())
    immediate.problems = {rows[0].name: TooLong("did not end within 100 s")}
    session.Session(found, FULL, "cpu", origin, time.monotonic() + 100).run(rows)
    assert found.skipped == {rows[0].name: "did not end within 100 s"}
    assert list(found.rows) == [row.name for row in rows[1:]]
    assert {row["commit"] for row in found.rows.values()} == {"abc"}


@pytest.mark.parametrize("failing", ["fairseq", "ours"])
def test_a_search_without_memory(monkeypatch, failing, nothing_compiled):
    def fails(*given):
        raise torch.cuda.OutOfMemoryError("CUDA out of\nmemory")

    name = "fairseq_generator" if failing == "fairseq" else "own_generator"
    monkeypatch.setattr(measuring, name, fails)
    row = Row("base", "fp32", 2, "greedy")
    found = measuring.Measuring(TINY, "cpu").measure(row, 100)
    assert found["errors"] == {failing: "OutOfMemoryError: CUDA out of memory"}
    (other,) = {"fairseq", "ours"} - {failing}
    assert len(found["seconds"][other]) == TINY.rounds[0] and "ratio" not in found
    fields = {**row._asdict(), **found}
    expected = {"fairseq": "fairseq failed", "ours": "method failed"}[failing]
    assert results.cells(fields)["speed"] == expected


def test_memory_and_time_of_a_gpu(monkeypatch, nothing_compiled):
    called = []
    numbers = {"synchronize": None, "reset_peak_memory_stats": None}
    numbers |= {"memory_allocated": 5 << 20, "max_memory_allocated": 12 << 20}
    for name, number in numbers.items():
        answer = lambda name=name, number=number: called.append(name) or number  # noqa: E731
        monkeypatch.setattr(torch.cuda, name, answer)
    on_cpu = measuring.Measuring(TINY, "cpu")
    on_cpu.device = "cuda"
    found = on_cpu.measure(Row("base", "fp32", 2, "greedy"), 100)
    assert found["errors"] == {} and found["mib"] == {"fairseq": 7, "ours": 7}
    order = ["reset_peak_memory_stats", "memory_allocated", *2 * ["synchronize"]]
    assert called == 2 * (1 + TINY.rounds[0]) * [*order, "max_memory_allocated"]


def test_rounds_that_do_not_fit(nothing_compiled):
    found = measuring.Measuring(TINY, "cpu").measure(Row("base", "fp32", 2, "greedy"), 0)
    assert found.keys() == {"skipped"} and "2 rounds take" in found["skipped"]


def test_processes_that_are_lost():
    process = Replaceable()
    try:
        with pytest.raises(Lost, match="has died"):
            process.call(60, os._exit, 1)
        pid = process.call(60, os.getpid)
        assert process.call(60, os.getpid) == pid != os.getpid()
        with pytest.raises(TooLong, match="within 0 s"):
            process.call(0.1, time.sleep, 60)
        assert process.call(60, os.getpid) != pid
    finally:
        process.end()


def test_tables_have_the_rows_of_the_file(given, immediate, tests):
    args = given("--cpu")
    immediate.problems = {ROWS[1].name: "OutOfMemoryError: no memory"}
    found = on_gpu(measure_gpu.run(args, [*ROWS, *WHOLE[-3:]], tests))
    found.skipped = {"x": "needs about 9 s"}
    found.write()
    measure_gpu.main(["--tables", *files_of(args)])
    page = args.page.read_text()
    assert page.startswith("a\n<!-- gpu -->\n## Measured\n\n") and page.endswith("gpu -->\nb\n")
    origin = next(iter(found.rows.values()))
    assert f"{origin['date']} · A GPU · commit {origin['commit']} · torch" in page
    assert "`pytest tests/gpu`: 3 passed, 1 failed." in page and "- `t::x`: wrong" in page
    assert "which `--resume` measures: 1." in page
    assert f"- {ROWS[1].name}: ours: OutOfMemoryError: no memory" in page
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    lines = [line.strip("| ").split(" | ") for line in lines if "| speed |" not in line]
    shown = [(cells[1], cells[2], cells[0]) for cells in lines]
    in_file = [(row.precision, str(row.batch), row.method) for row in (*ROWS, *WHOLE[-3:])]
    assert shown == in_file
    speeds = [cells[3] for cells in lines]
    assert speeds.pop(1) == "method failed" and set(speeds) == {"1.00x (1.00 to 1.00)"}


def test_rows_of_a_cpu_are_in_no_table(given, immediate, tests):
    args = given("--cpu")
    measure_gpu.run(args, ROWS, tests)
    assert args.page.read_text() == PAGE
    with pytest.raises(SystemExit, match="has rows of a CPU") as stopped:
        measure_gpu.main(["--tables", *files_of(args)])
    assert "\n" not in str(stopped.value) and args.page.read_text() == PAGE


@pytest.mark.parametrize("tables", [results, papers])
def test_the_page_is_that_of_the_file(tables):
    text = tables.PAGE.read_text(encoding="utf-8")
    found = Results.read(results.FILE) if results.FILE.exists() else None
    section = tables.section(found)
    assert f"<!-- gpu -->\n{section}<!-- end of gpu -->" in text, f"run: {results.COMMAND} --tables"
    assert tables.section(None) == tables.NOT_YET


def test_the_speeds_of_the_papers(given, immediate, tests):
    asked = {row for claim in papers.CLAIMS for row in (claim.row, claim.other) if row}
    assert asked <= set(plan(FULL))
    args = given("--cpu")
    found = on_gpu(measure_gpu.run(args, ROWS[:1], tests))
    (measured,) = found.rows.values()
    found.rows = {
        row.name: {**measured, **row._asdict()} for row in asked if row.method != "jacobi"
    }
    for row in found.rows.values():
        row["ratio"] = 4.0 if row["method"] == "blockwise" else 2.0
    found.write()
    measure_gpu.main(["--tables", *files_of(args)])
    page = args.papers.read_text()
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    ours = {cells[1]: cells[3] for cells in lines[1:]}
    # To another method, to fairseq's search, and a row that is missing.
    assert ours.pop("blockwise, to greedy (4.69 tokens a step)") == "2.00x"
    assert ours.pop("PJ, to greedy") == ""
    of_pairs = "double-token bidirectional, to single-token"
    assert {ours.pop(name) for name in (of_pairs, "PGJ, to greedy")} == {"1.00x"}
    assert set(ours.values()) == {"2.00x"} and " · A GPU · commit " in page


def test_options_that_are_refused(given, immediate, tests, monkeypatch):
    args = given("--cpu")
    measure_gpu.run(args, ROWS[:1], tests)
    with pytest.raises(ValueError, match="exists; give --resume"):
        measure_gpu.run(args, ROWS, tests)
    on_gpu(Results.read(args.json)).write()
    with pytest.raises(ValueError, match="has rows of A GPU, and this is "):
        measure_gpu.run(given("--cpu", "--resume"), ROWS, tests)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="finds no GPU: use a machine with one, or --cpu"):
        measure_gpu.run(given(), ROWS, tests)
    with pytest.raises(SystemExit):
        measure_gpu.parse_args(["--cpu"])
    monkeypatch.setattr(commands.shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="--commit: git has no history"):
        measure_gpu.run(given("--cpu", "--resume"), ROWS, tests)


def test_how_tests_end(tests, tmp_path, monkeypatch):
    # pytest starts faster.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    found = gpu_tests.run(tests, 60)
    (failure,) = found.pop("failures").items()
    assert failure[0].endswith("::test_wrong[a b]") and "two PASSED words" in failure[1]
    assert found == {"counts": {"passed": 1, "failed": 1, "skipped": 1}, "error": None}
    assert "not found" in gpu_tests.run(tmp_path / "test_none.py", 60)["error"]
    tests.write_text(
        "import time\ndef test_a(): pass\ndef test_b(): time.sleep(60)\n", encoding="utf-8"
    )
    for seconds in (3, 10, 30):  # other programs may delay the first test
        found = gpu_tests.run(tests, seconds)
        assert found["error"] == f"cut off after {seconds} s" and not found["failures"]
        if found["counts"]:
            break
    assert found["counts"] == {"passed": 1}
    parallel = "[gw0] [ 50%] PASSED tests/a.py::test_a \n[gw1] [100%] FAILED tests/a.py::test_b \n"
    assert re.findall(gpu_tests.ENDS, parallel) == ["PASSED", "FAILED"]


def test_the_plan():
    rows = plan(FULL)
    assert len(rows) == len(set(rows)) == len({row.name for row in rows})
    of_base = {row[1:] for row in rows if row.model == "base"}
    assert len(of_base) == 3 * 3 * len(METHODS)
    assert {row.model for row in rows} == {*FULL.sizes, "bundled"}
    wide, narrow = (Row("big", "fp16", 256, method) for method in ("beam 50", "beam 5"))
    assert seconds_expected(wide, FULL) > seconds_expected(narrow, FULL)
    assert sum(seconds_expected(row, FULL) for row in rows[:30]) < 10 * 60
