"""The command translate end to end: a tiny model, kills, full disks, damage."""

import contextlib
import gzip
import io
import json
import os
import random
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fairseq_fastdec.corpora import command
from tests.support import after_import, command_line
from tests.support.forked import Forked

COMMAND = [sys.executable, "-m", "fairseq_fastdec", "translate"]
LIMITS = ["--max-len-b", 12, "-s", "en", "-t", "de"]
# Enough for a manifest, and not for a chunk of 400 lines with their sources.
FILE_LIMIT = 20_000


def random_lines(n, seed=0):
    draw = random.Random(seed)
    return [" ".join(draw.choices("abcdefghij", k=draw.randint(0, 8))) for _ in range(n)]


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def arguments(corpus, baseline, tmp_path):
    """A function that gives the command line for an output of that name."""

    def make(*given, source, output="out"):
        sources = source if isinstance(source, list) else [source]
        fixed = [baseline, "--data", corpus, "--cpu", "--no-progress-bar", *LIMITS]
        fixed += ["--input", *sources, "--output", tmp_path / output, "--workers", 2]
        return [str(argument) for argument in [*fixed, *given]]

    return make


@pytest.fixture
def translate(arguments, tmp_path):
    """A function that runs the command; it returns the output's bytes, if it is there."""

    def run(*given, source, output="out"):
        command.main(arguments(*given, source=source, output=output))
        path = tmp_path / output
        return path.read_bytes() if path.exists() else None

    return run


@pytest.fixture
def start(arguments, tmp_path):
    """A function that starts the command in a process of its own."""
    processes = []

    def run(*given, prepare=lambda: None, **rest):
        printed = tmp_path / f"printed {len(processes)}"
        process = Forked(command.main, arguments(*given, **rest), printed, prepare)
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()


def workers_of(process):
    """The processes that a command has started."""
    try:
        text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    except OSError:
        return []
    return [int(number) for number in text.split()]


def wait_for(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.printed()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def chunks(tmp_path, output="out"):
    return sorted((tmp_path / f"{output}.parts").glob("*.chunk"))


@pytest.mark.parametrize("given", [[], ["--decoding", "greedy", "--engine-precision", "int8"]])
def test_a_line_for_a_line_as_by_interactive(translate, corpus, baseline, tmp_path, given):
    lines = random_lines(100)
    printed = command_line.interactive(
        corpus, baseline, lines, tmp_path, *LIMITS, "--buffer-size", 100,
        *(given or ["--decoding", "greedy"]),
    )  # fmt: skip
    expected = command_line.hypotheses(printed)
    source = write(tmp_path / "in", lines)
    output = translate("--chunk-size", 17, *given, source=source).decode()
    # An empty line stays empty, which fairseq-interactive translates.
    assert output.split("\n") == [line and expected[n] for n, line in enumerate(lines)] + [""]
    assert not (tmp_path / "out.parts").exists()


def test_several_files_packed_and_not(translate, tmp_path):
    lines = random_lines(30)
    whole = translate("--decoding", "greedy", source=write(tmp_path / "in", lines))
    first, last = write(tmp_path / "a", lines[:7]), tmp_path / "b.gz"
    last.write_bytes(gzip.compress("\n".join(lines[7:]).encode()))
    output = translate("--decoding", "greedy", source=[first, last], output="out.txt.gz")
    assert gzip.decompress(output) == whole


def test_formats_with_the_n_best(translate, tmp_path):
    source = write(tmp_path / "in", ["a b c", "c b"])
    given = ["--nbest", 2, "--with-source"]
    rows = translate("--format", "tsv", *given, source=source).decode().split("\n")[:-1]
    columns = [row.split("\t") for row in rows]
    assert [c[0] for c in columns] == ["1", "1", "2", "2"]
    assert [c[2] for c in columns] == ["a b c", "a b c", "c b", "c b"]
    assert columns[0][3] == "c b a" and float(columns[0][1]) > float(columns[1][1])
    text = translate("--format", "jsonl", *given, source=source, output="out.jsonl").decode()
    objects = [json.loads(line) for line in text.splitlines()]
    assert [o["line"] for o in objects] == [1, 2]
    assert objects[0]["hypotheses"][0]["text"] == "c b a"
    assert [len(o["hypotheses"]) for o in objects] == [2, 2]


def test_the_n_best_of_every_line(translate, tmp_path):
    """The default with one hypothesis, streaming, finds fewer for some lines."""
    source = write(tmp_path / "in", ["a b c", "c b", "a", "j i h g f e"])
    given = ["--nbest", 3, "--format", "tsv"]
    rows = translate(*given, source=source).decode().split("\n")[:-1]
    assert [row.split("\t")[0] for row in rows] == [str(n) for n in (1, 2, 3, 4) for _ in range(3)]
    for pruning in (["--decoding", "streaming"], ["--prune-threshold", 1]):
        with pytest.raises(SystemExit, match="--nbest 3: .*fewer .*; use --decoding beam without"):
            translate(*given, *pruning, source=source, output="other")
    with pytest.raises(SystemExit, match="--nbest|--beam"):
        translate(*given, "--decoding", "greedy", source=source, output="other")


def with_data(words, data):
    """A command line with other dictionaries."""
    words[words.index("--data") + 1] = str(data)
    return words


def test_subwords_without_codes(arguments, corpus, tmp_path):
    data = shutil.copytree(corpus, tmp_path / "data")
    for dictionary in data.glob("dict.*.txt"):
        words = dictionary.read_text().splitlines()
        dictionary.write_text("\n".join([*words[:-1], "a@@ 1"]) + "\n")
    source = write(tmp_path / "in", ["a b"])
    with pytest.raises(SystemExit, match="such as a@@, but no codes .*give --bpe-codes FI"):
        command.main(with_data(arguments(source=source), data))
    command.main(with_data(arguments("--bpe", "none", source=source), data))
    assert (tmp_path / "out").read_text()


def test_data_without_languages(arguments, corpus, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(corpus / "dict.de.txt", data)
    given = arguments(source=write(tmp_path / "in", ["a"]))
    given = [*given[: given.index("-s")], *given[given.index("de") + 1 :]]
    with pytest.raises(SystemExit, match="--source-lang, --target-lang: .*data name the languages"):
        command.main(with_data(given, data))


def test_sampling_does_not_depend_on_interruptions(translate, tmp_path):
    source = write(tmp_path / "in", random_lines(40))
    given = ["--sampling", "--beam", 1, "--chunk-size", 10, "--temperature", 3]
    whole = translate(*given, source=source)
    translate(*given, "--num-shards", 2, "--shard-id", 1, source=source, output="again")
    assert translate(*given, "--workers", 1, source=source, output="again") == whole


def test_lines_that_cannot_be_translated(translate, tmp_path, capsys):
    source = tmp_path / "in"
    source.write_bytes(b"a b c\n" + b"a " * 2000 + b"\n\xff\xfe\nc\n")
    given = ["--decoding", "greedy", "--chunk-size", 2]
    with pytest.raises(SystemExit, match=f"{source}, line 2: too long: 2001 tokens .*--on-error"):
        translate(*given, "--workers", 1, source=source)
    kept = translate(*given, "--on-error", "keep-source", source=source).split(b"\n")
    assert kept == [b"c b a", b"a " * 2000, b"\xff\xfe", b"c", b""]
    assert "out: 2 translated, 1 not UTF-8, 1 too long" in capsys.readouterr().err
    empty = translate(*given, "--on-error", "empty", source=source, output="other")
    assert empty == b"c b a\n\n\nc\n"


@pytest.fixture
def killed_at_the_end(monkeypatch):
    """Within, a finished command leaves its directory behind, as if killed before it removes it."""

    @contextlib.contextmanager
    def within():
        with monkeypatch.context() as patch:
            patch.setattr(command.shutil, "rmtree", lambda *_, **__: None)
            yield

    return within


def test_what_is_done_is_not_done_again(
    translate, tmp_path, monkeypatch, capsys, killed_at_the_end
):
    source = write(tmp_path / "in", random_lines(20))
    with killed_at_the_end():
        whole = translate("--decoding", "greedy", source=source)
    monkeypatch.setattr(command, "start_workers", None)
    assert translate("--decoding", "greedy", source=source) == whole
    assert "out: already exists: 20 translated" in capsys.readouterr().err
    assert not (tmp_path / "out.parts").exists()


def test_an_output_that_was_removed_is_made_again(translate, tmp_path, killed_at_the_end):
    source = write(tmp_path / "in", random_lines(20))
    with killed_at_the_end():
        whole = translate("--decoding", "greedy", source=source)
    (tmp_path / "out").unlink()
    assert translate("--decoding", "greedy", source=source) == whole


def test_nothing_is_overwritten(translate, tmp_path):
    source = write(tmp_path / "in", ["a"])
    write(tmp_path / "out", ["precious"])
    with pytest.raises(SystemExit, match="--output .*out: exists already; delete it or name"):
        translate(source=source)
    assert (tmp_path / "out").read_text() == "precious\n"


@pytest.mark.parametrize("is_begun", [False, True], ids=["new", "begun"])
def test_a_link_is_not_replaced(translate, tmp_path, is_begun):
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    if is_begun:
        (tmp_path / "out.parts").mkdir()
    with pytest.raises(SystemExit, match="--output .*out: exists already; delete it or name"):
        translate(source=write(tmp_path / "in", ["a"]))
    assert (tmp_path / "out").is_symlink() and not (tmp_path / "nowhere").exists()


def test_other_json_in_the_manifest(translate, tmp_path):
    (tmp_path / "out.parts").mkdir()
    (tmp_path / "out.parts" / "manifest.json").write_text('{"settings": null}')
    with pytest.raises(SystemExit, match="translate: .*manifest.json: damaged"):
        translate(source=write(tmp_path / "in", ["a"]))


def test_other_settings_and_other_input_do_not_mix(translate, tmp_path, killed_at_the_end):
    source = write(tmp_path / "in", ["a b"])
    with killed_at_the_end():
        translate("--decoding", "greedy", source=source)
    with pytest.raises(
        SystemExit, match="'decoding': 'greedy'.*, but now it is .*; choose another --out"
    ):
        translate(source=source)
    write(source, ["a c"])
    with pytest.raises(SystemExit, match="made with input = .*, but now it is "):
        translate("--decoding", "greedy", source=source)


def test_shards_of_several_machines(translate, tmp_path, capsys):
    source = write(tmp_path / "in", random_lines(50))
    given = ["--decoding", "greedy", "--chunk-size", 4]
    whole = translate(*given, source=source)
    for shard in (2, 0, 1):
        command_given = [*given, "--num-shards", 3, "--shard-id", shard]
        assert translate(*command_given, source=source, output="shared") is None
        assert "when all processes have ended, run this without" in capsys.readouterr().err
    assert len(chunks(tmp_path, "shared")) == 13
    before = {path: path.stat().st_mtime_ns for path in chunks(tmp_path, "shared")}
    assert before and translate(*given, source=source, output="shared") == whole


def test_standard_streams(arguments, translate, tmp_path):
    lines = random_lines(30)
    whole = translate("--decoding", "greedy", source=write(tmp_path / "in", lines))
    given = arguments("--decoding", "greedy", "--chunk-size", 4, "--output", "-", source="-")
    done = after_import.run_ours("translate", *given, stdin="".join(line + "\n" for line in lines))
    assert (done.returncode, done.stdout) == (0, whole.decode())
    assert done.stderr.strip().endswith("30 translated")


def test_a_filter_answers_line_by_line(arguments):
    given = arguments("--decoding", "greedy", "--output", "-", source="-")
    with subprocess.Popen(
        [*COMMAND, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        try:
            for line, answer in ((b"a b c\n", b"c b a\n"), (b"\n", b"\n"), (b"a c\n", b"c a\n")):
                process.stdin.write(line)
                assert select.select([process.stdout], [], [], 60)[0], "no answer while it waits"
                assert process.stdout.read(99) == answer
            rest, told = process.communicate(b"a c\na b c")
        finally:
            process.kill()
    assert (process.returncode, rest) == (0, b"c a\nc b a\n")
    assert told.decode().strip().endswith("5 translated")


def test_a_full_disk_behind_standard_output(arguments, tmp_path):
    source = write(tmp_path / "in", ["a"])
    given = arguments("--decoding", "greedy", "--output", "-", source=source)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *given], env={**os.environ, "PYTHONUNBUFFERED": ""},
            stdout=full, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert b"translate: [Errno 28] No space left on device" in done.stderr


# 200 chunks; and 600, which no test waits for.
LINES, MANY_LINES = 2000, 6000
OF_TEN_LINES = ["--decoding", "greedy", "--chunk-size", 10]


@pytest.fixture(scope="module")
def whole(corpus, baseline, tmp_path_factory):
    """The translation of a text of LINES lines that nothing interrupts."""
    directory = tmp_path_factory.mktemp("whole")
    source = write(directory / "in", random_lines(LINES))
    fixed = [baseline, "--data", corpus, "--cpu", "--no-progress-bar", *LIMITS, "--workers", 2]
    files = ["--input", source, "--output", directory / "out"]
    command.main([str(argument) for argument in [*fixed, *files, *OF_TEN_LINES]])
    return (directory / "out").read_bytes()


def test_kills_change_nothing(start, whole, tmp_path):
    """Workers and coordinators are killed at random moments; the same command goes on."""
    source = write(tmp_path / "in", random_lines(LINES))
    draw = random.Random(3)
    done = {}
    for _ in range(4):
        process = start(*OF_TEN_LINES, source=source)
        for victim in (lambda: draw.choice(workers_of(process)), lambda: process.pid):
            goal = len(chunks(tmp_path)) + draw.randint(1, 10)
            wait_for(lambda: len(chunks(tmp_path)) >= goal, process)
            time.sleep(0.01 * draw.random())
            os.kill(victim(), signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        for path, time_written in done.items():
            assert path.stat().st_mtime_ns == time_written, "a chunk was translated twice"
        done = {path: path.stat().st_mtime_ns for path in chunks(tmp_path)}
    process = start(*OF_TEN_LINES, source=source)
    assert process.wait() == 0, process.printed()
    assert (tmp_path / "out").read_bytes() == whole
    assert not (tmp_path / "out.parts").exists()


def test_a_coordinator_that_is_killed_loses_no_chunk(start, tmp_path):
    """Its workers finish what they have, and the next command waits for them."""
    process = start(*OF_TEN_LINES, source=write(tmp_path / "in", random_lines(MANY_LINES)))
    wait_for(lambda: len(chunks(tmp_path)) > 5, process)
    workers = workers_of(process)
    process.kill()
    deadline = time.monotonic() + 120
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert list((tmp_path / "out.parts").glob("*.partial")) == []


def test_damaged_chunks_are_translated_again(start, translate, whole, tmp_path):
    source = write(tmp_path / "in", random_lines(LINES))
    process = start(*OF_TEN_LINES, source=source)
    wait_for(lambda: len(chunks(tmp_path)) > 10, process)
    process.kill()
    damaged = chunks(tmp_path)[2]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    assert translate(*OF_TEN_LINES, source=source) == whole


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interruption_ends_all_processes(start, tmp_path, number):
    process = start(*OF_TEN_LINES, source=write(tmp_path / "in", random_lines(MANY_LINES)))
    wait_for(lambda: len(chunks(tmp_path)) > 5, process)
    workers = workers_of(process)
    process.send_signal(number)
    assert process.wait() == 128 + number
    told = process.printed()
    assert told.strip().endswith("interrupted; run the same command again to continue")
    assert "Traceback" not in told
    assert workers and not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_a_full_disk(start, translate, tmp_path):
    """No file may have more than so many bytes, which is what a full disk looks like."""
    source = write(tmp_path / "in", random_lines(800))
    given = ["--decoding", "greedy", "--chunk-size", 400, "--format", "jsonl", "--with-source"]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_LIMIT, FILE_LIMIT))

    process = start(*given, source=source, prepare=limit)
    assert process.wait() == 2
    told = process.printed()
    assert "File too large" in told and "run the same command again to continue" in told
    assert "Traceback" not in told
    assert not (tmp_path / "out").exists()
    assert {path.name for path in (tmp_path / "out.parts").iterdir()} == {"manifest.json", "lock"}
    output = translate(*given, source=source)
    assert len(output) > 2 * FILE_LIMIT
    assert output == translate(*given, source=source, output="whole")


def test_two_at_once_are_refused(start, translate, tmp_path):
    source = write(tmp_path / "in", random_lines(LINES))
    process = start(*OF_TEN_LINES, source=source)
    wait_for(lambda: chunks(tmp_path), process)
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(SystemExit, match=f"process {process.pid} on .* is using this directory"):
        translate(*OF_TEN_LINES, source=source)


@pytest.mark.parametrize(
    "given, message",
    [
        (["--data", "nowhere"], "nowhere: has no dictionaries"),
        (["--decoding", "blockwise"], "no prediction heads"),
        (["--input", "nowhere.txt"], "nowhere.txt"),
        (["--nbest", 2], "--nbest: --format plain"),
    ],
)
def test_errors_are_one_line(translate, tmp_path, given, message):
    with pytest.raises(SystemExit, match=f"translate: .*{message}") as stopped:
        translate(*given, source=write(tmp_path / "in", ["a"]))
    assert "\n" not in str(stopped.value)


@pytest.mark.parametrize("value", ["nan", "100"])
def test_a_wrong_value_writes_nothing(translate, tmp_path, value):
    with pytest.raises(SystemExit, match=f"--lenpen {value}"):
        translate("--lenpen", value, source=write(tmp_path / "in", ["a"]))
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_closed_streams(arguments, tmp_path, monkeypatch, name):
    monkeypatch.setattr(sys, name, None)
    source = write(tmp_path / "in", ["a"])
    given = arguments(source="-") if name == "stdin" else arguments("--output", "-", source=source)
    with pytest.raises(SystemExit, match=f"{name}: is closed; name a file"):
        command.main(given)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize(
    "n_lines, n_chunks, size",
    [
        (None, 512, 4096),
        (0, 512, 512),
        (1000, 512, 512),
        (1_000_000, 512, 1954),
        (10**9, 512, 8192),
        (10**7, 8192, 1221),
    ],
)
def test_the_size_of_chunks(n_lines, n_chunks, size):
    assert command.chunk_size_for(n_lines, n_chunks) == size


def test_standard_output_in_this_process(arguments, tmp_path, monkeypatch, capsys):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed))
    given = ["--decoding", "greedy", "--output", "-"]
    command.main(arguments(*given, source=write(tmp_path / "in", ["a b c"])))
    assert printed.getvalue() == b"c b a\n" and "1 translated" in capsys.readouterr().err
