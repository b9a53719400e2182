"""Every command with closed streams, pipes, odd encodings and interrupts.

It works, or ends with one line: never with a traceback, and never without an end.
"""

import contextlib
import io
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairseq_fastdec import __main__ as front
from fairseq_fastdec.corpora import command as translate
from fairseq_fastdec.data.text import MARK
from fairseq_fastdec.processes import streams as process
from fairseq_fastdec.processes.errors import errors_in_one_line
from fairseq_fastdec.tools import prepare_data
from tests.support import after_import, command_line, marian_writing, telling
from tests.support.forked import Forked, exit_status
from tests.support.services import free_port, until
from tests.support.words import write_words

ROOT = Path(__file__).resolve().parents[2]
# Seconds within which a command ends, on any machine.
BOUND = 300
STREAMS = [(0,), (1,), (2,), (0, 1, 2)]
CLOSING = {0: "<&-", 1: ">&-", 2: "2>&-"}
TEXT = "Datei\nSpeichern.\n"
# The service and the filter have tests of their own.
NAMES = sorted((front.FAIRSEQ_COMMANDS.keys() | front.COMMANDS.keys()) - {"serve", "translate"})


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in"
    path.write_text("File\nSave.\n")
    return path


def start(*words, module="fairseq_fastdec", closed=(), **options):
    """Start ``python -m`` with some of its standard streams closed."""
    closing = " ".join(CLOSING[number] for number in closed)
    words = [sys.executable, "-m", module, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        ["sh", "-c", f'exec "$@" {closing}', "sh", *words],
        env=environment,
        preexec_fn=heed_interrupts,
        **{**pipes, **options},
    )


def heed_interrupts():
    """The tests may run in the background of a shell, whose processes ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def ended(*words, data=b"File\nSave.\n", **options):
    """The code, the output and the messages of a command, which are no traceback."""
    started = start(*words, **options)
    with contextlib.suppress(BrokenPipeError):
        out, told = started.communicate(data, timeout=BOUND)
    assert b"Traceback" not in told, told.decode()
    return started.returncode, (out or b"").decode(), told.decode()


@pytest.mark.parametrize("closed", STREAMS)
def test_closed_streams_of_a_filter(bundle, source, tmp_path, closed):
    target = tmp_path / "out"
    assert ended("translate", bundle, "--input", source, "--output", target, closed=closed)[0] == 0
    assert target.read_text(encoding="utf-8") == TEXT
    code, out, told = ended("translate", bundle, "--input", "-", "--output", "-", closed=closed)
    if set(closed) & {0, 1}:
        assert code == 2 and not out
        assert 2 in closed or "is closed; name a file" in told.splitlines()[-1]
    else:
        assert (code, out) == (0, TEXT)


@pytest.mark.parametrize("words", [["--version"], ["--user-dir"], ["translate", "--help"]])
def test_what_is_printed_is_not_lost(words):
    code, out, told = ended(*words, closed=(1,))
    assert code == 2 and "stdout: is closed" in told and len(told.splitlines()) == 1
    code, out, _ = ended(*words, closed=(0, 2))
    assert code == 0 and out


def test_no_file_becomes_a_closed_stream(bundle, source, tmp_path):
    """A warning of a line that is not UTF-8 would be written into it."""
    source.write_bytes(b"File\n\xff\n")
    target = tmp_path / "out"
    words = ["translate", bundle, "--input", source, "--output", target, "--on-error", "empty"]
    code, *_ = ended(*words, closed=(0, 1, 2))
    assert code == 0 and target.read_text(encoding="utf-8") == "Datei\n\n"


@pytest.mark.parametrize("closed", STREAMS)
def test_closed_streams_of_the_service(bundle, closed):
    port = free_port()
    started = start("serve", bundle, "--port", port, closed=closed)

    def is_up():
        assert started.poll() is None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 120):
            return True

    try:
        until(is_up)
        asked = json.dumps({"q": "File", "source": "en", "target": "de"}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/translate", asked, {"content-type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert json.load(answer) == {"translatedText": "Datei"}
        started.send_signal(signal.SIGTERM)
        _, told = started.communicate(timeout=BOUND)
        assert started.returncode == 0 and b"Traceback" not in told
    finally:
        started.kill()
        started.wait()


@pytest.fixture
def commands(corpus, baseline, tmp_path):
    """The command lines of commands by name, each with a file that it writes, or none."""
    model = [corpus, "--path", baseline, "--cpu"]
    for split in ("train", "valid"):
        for language in ("en", "de"):
            write_words(tmp_path / f"{split}.{language}", [["aa", "bb"], ["aa", "bb"]] * 2)
    sentences = tmp_path / "sentences"
    sentences.write_text("a b\n")
    training = [corpus, "--cpu", *command_line.TINY, "--arch", "transformer", "--max-update", 1]
    training += ["--optimizer", "adam", "--max-tokens", 400, "--save-dir", tmp_path / "saved"]
    training += ["--disable-validation", "--num-workers", 0]
    preparing = ["-s", "en", "-t", "de", "--bpe-operations", 2, "--workers", 1]
    preparing += ["--train", tmp_path / "train", "--valid", tmp_path / "valid"]
    distilling = [*model, "--gen-subset", "valid", "--workers", 1]
    drawing = [*model, "--sentences", sentences, "--formats", "json"]
    scoring = [baseline, "--data", corpus, "--tokenizer", "none", "--bpe", "none"]
    scoring += ["--source", sentences, "--target", sentences]
    foreign = marian_writing.write_directory(tmp_path / "en-pt", marian_writing.random_tensors())
    out = tmp_path / "out"
    return {
        "generate": ([*model, "--num-workers", 0], None),
        "interactive": ([*model, "--input", sentences], None),
        "validate": ([*model, "--max-tokens", 400], None),
        "train": (training, tmp_path / "saved/checkpoint_last.pt"),
        "prepare-data": ([*preparing, "--destdir", out], out / "dict.en.txt"),
        "import": ([foreign, "--destdir", out], out / "checkpoint.pt"),
        "export": ([baseline, "--data", corpus, "--tokenizer", "none", "--output", out], out),
        "distill": ([*distilling, "--destdir", out], out / "data/dict.en.txt"),
        "build-shortlist": ([corpus, "--output", out], out),
        "average-checkpoints": (["--inputs", baseline, "--output", out], out),
        "score": ([*scoring, "--output", out], out),
        "ddgviz": ([*drawing, "--output", out], out / "ddgviz.json"),
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_command_with_all_streams_closed(commands, name):
    words, written = commands[name]
    # fairseq is imported with closed streams by two of them: a command that writes, and one that
    # prints.
    imported = "torch" if name in ("generate", "train") else "torch, fairseq"
    done = after_import.run_ours(name, *words, closed=(0, 1, 2), imported=imported)
    assert (done.stdout, done.stderr) == ("", "")
    if written is None:
        assert done.returncode == 2
        done = after_import.run_ours(name, *words, closed=(1,), imported=imported)
        assert "stdout: is closed" in done.stderr and len(done.stderr.splitlines()) == 1
    else:
        assert done.returncode == 0 and written.stat().st_size


def test_pipes_are_read_once(bundle, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for target in ("-", tmp_path / "out"):
        writer = threading.Thread(target=pipe.write_bytes, args=(MARK + b"File\nSave.\n",))
        writer.start()
        code, out, told = ended("translate", bundle, "--input", pipe, "--output", target)
        writer.join()
        assert code == 0, told
    assert out + (tmp_path / "out").read_text(encoding="utf-8") == TEXT
    code, out, told = ended("translate", bundle, "--input", "/dev/stdin", "--output", "-")
    assert (code, out) == (0, TEXT), told


@pytest.mark.parametrize(
    "words, message",
    [
        (["--input", "{pipe}", "{pipe}"], "is a pipe, which can be read once; name it once"),
        (["--input", "{in}", "--draft-file", "{pipe}"], "not a regular file; write it to a file"),
        (["--input", "{in}", "--memory-source", "{pipe}", "--memory-target", "{in}"], "--memory-s"),
    ],
)
def test_pipes_that_would_be_read_twice(bundle, source, tmp_path, words, message, capsys):
    os.mkfifo(tmp_path / "pipe")
    words = [word.format(**{"pipe": tmp_path / "pipe", "in": source}) for word in words]
    with pytest.raises(SystemExit):
        translate.main([str(bundle), *words, "--output", "-"])
    assert message in capsys.readouterr().err


def test_a_reader_that_has_gone(bundle):
    reading, writing = os.pipe()
    os.close(reading)
    code, _, told = ended("translate", bundle, "--input", "-", "--output", "-", stdout=writing)
    os.close(writing)
    assert code == 2 and "Broken pipe" in told.splitlines()[-1]


def assert_is_interrupted(code, told):
    """In one line, or else the command has already ended."""
    assert "Traceback" not in told, told
    assert code in (0, process.INTERRUPTED, -signal.SIGINT), told


def test_interrupts_at_any_moment(bundle, tmp_path):
    draw = random.Random(1)
    words = ["translate", bundle, "--input", "-", "--output", "-"]
    for number in range(8):
        begun = tmp_path / f"begun {number}"
        started = start(begun, *words, module="tests.support.telling", start_new_session=True)
        until(lambda begun=begun: begun.exists())
        time.sleep(0.9 * draw.random())
        os.killpg(started.pid, signal.SIGINT)
        _, told = started.communicate(b"File\n" * 2000, timeout=BOUND)
        assert started.returncode
        assert_is_interrupted(started.returncode, told.decode())


def in_session():
    """Begin a session, in which Ctrl-C is heeded as in a terminal."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)


# benchmark, whose workers are the children of another process, may end with their error and code 2.
@pytest.mark.parametrize("name", sorted({*NAMES} - {"benchmark"}))
def test_interrupts_of_commands_with_torch(commands, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(name)
    for number in range(2):
        begun = tmp_path / f"begun {number}"
        words = [str(begun), name, *map(str, commands[name][0])]
        started = Forked(telling.main, words, tmp_path / f"told {number}", prepare=in_session)
        until(lambda begun=begun, started=started: begun.exists() or started.poll() is not None)
        time.sleep(draw.random())
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGINT)
        assert_is_interrupted(started.wait(BOUND), started.printed())
        # The command may have ended before.
        shutil.rmtree(tmp_path / "out", ignore_errors=True)


def fork_and_wait(arguments):
    """Run a command that is interrupted within a hook of a fork, which holds a lock."""
    lock = threading.Lock()

    def end_fork():
        signal.raise_signal(signal.SIGINT)
        lock.release()

    def command():
        os.register_at_fork(before=lock.acquire, after_in_parent=end_fork)
        exit_status(lambda: None)
        threading.Event().wait()

    try:
        process.run(command, "program")
    finally:
        print(f"locked: {lock.locked()}")


def test_an_interrupt_during_a_fork(tmp_path):
    started = Forked(fork_and_wait, [], tmp_path / "told")
    assert started.wait(BOUND) == process.INTERRUPTED
    assert started.printed().splitlines() == ["program: interrupted", "locked: False"]


@pytest.fixture
def heeding(monkeypatch):
    """Tests in which Ctrl-C is heeded as in a terminal."""
    monkeypatch.setattr(os, "fork", os.fork)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    sys.unraisablehook = sys.__unraisablehook__


def test_an_interrupt_while_workers_start(heeding, monkeypatch):
    pool_of = multiprocessing.Pool

    def interrupted_pool(*arguments):
        signal.raise_signal(signal.SIGINT)
        return pool_of(*arguments)

    monkeypatch.setattr(multiprocessing, "Pool", interrupted_pool)
    endless = SimpleNamespace(encode=lambda line: threading.Event().wait())
    with pytest.raises(KeyboardInterrupt):
        prepare_data.encode(["a"], endless, 2, "encoding")
    assert multiprocessing.active_children() == []
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def interrupted_before_a_clause():
    try:
        signal.raise_signal(signal.SIGINT)
        opened = io.StringIO()
    finally:
        opened.close()


@pytest.mark.parametrize("wrapper", [contextlib.nullcontext, errors_in_one_line])
@pytest.mark.parametrize(
    "interrupted", [lambda: signal.raise_signal(signal.SIGINT), interrupted_before_a_clause]
)
def test_an_interrupt_ends_in_one_line(heeding, capsys, interrupted, wrapper):
    def command():
        with wrapper("program"):
            interrupted()

    with pytest.raises(SystemExit, match="^program: interrupted$") as end:
        process.run(command, "program")
    assert end.value.code == 130
    assert capsys.readouterr().err == "program: interrupted\n"


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_streams_that_are_needed(monkeypatch, name):
    assert process.standard(name) is getattr(sys, name)
    for closed in (None, process.Closed(io.BytesIO())):
        monkeypatch.setattr(sys, name, closed)
        with pytest.raises(ValueError, match=f"^{name}: is closed; name a file instead"):
            process.standard(name)


PIECES = st.sampled_from(["File", "ü", "\r", "\0", "\n", "\x85", "\u2028", " "]) | st.text()


@given(st.lists(PIECES),
       st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"]),
       st.lists(st.binary(max_size=3), max_size=2))  # fmt: skip
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_text_in_any_encoding(bundle, tmp_path, pieces, encoding, others):
    """Each line has one line of the output, whatever it consists of."""
    content = "".join(pieces).encode(encoding, errors="replace") + b"\n".join(others)
    (tmp_path / "in").write_bytes(content)
    (tmp_path / "out").unlink(missing_ok=True)
    with contextlib.suppress(SystemExit):
        translate.main(
            [str(bundle), "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"),
             "--workers", "1", "--on-error", "empty"]
        )  # fmt: skip
    lines = content.removeprefix(MARK)
    n_lines = lines.count(b"\n") + (lines[-1:] not in (b"", b"\n"))
    assert (tmp_path / "out").read_bytes().count(b"\n") == n_lines


def test_names_of_files_in_any_encoding(bundle, tmp_path):
    """In the C locale, and with a directory that is not UTF-8."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xc3"))
    folder.mkdir()
    (folder / "in").write_text("File\nSave.\n")
    for environment in ({}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        target = folder / f"out{len(environment)}"
        words = ["translate", bundle, "--input", folder / "in", "--output", target]
        code, _, told = ended(*words, env=environment)
        assert code == 0 and target.read_text(encoding="utf-8") == TEXT, told
        code, out, _ = ended("translate", bundle, "--input", "-", "--output", "-", env=environment)
        assert (code, out) == (0, TEXT)
