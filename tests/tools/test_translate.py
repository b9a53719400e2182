"""``translate``: lines in, translations out, from files and standard streams."""

import io
import subprocess
import sys

import pytest

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.tools.translate import main

LINES = ["Click the Save button.", "", "Don't close the document!", "größer als 1,000"]


def test_standard_streams_without_torch(bundle, tmp_path):
    """Also with a translation memory."""
    for name in ("old.en", "old.de"):
        (tmp_path / name).write_text("\n".join(LINES) + "\n", encoding="utf-8")
    memory = ["--memory-source", tmp_path / "old.en", "--memory-target", tmp_path / "old.de"]
    code = (
        "import sys; from fairseq_fastdec.__main__ import main; main(sys.argv[1:])\n"
        "assert 'torch' not in sys.modules and 'fairseq' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "translate", bundle, *memory],
        input="\n".join(LINES).encode(), capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = fairseq_fastdec.load(MODEL)
    assert done.stdout.decode().split("\n") == [*map(expected.translate, LINES), ""]
    assert list(tmp_path.glob("old.de.memory-*"))


@pytest.mark.parametrize("model", ["bundle", "checkpoint"])
def test_files_and_options(bundle, tmp_path, model):
    (tmp_path / "in").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    path = bundle if model == "bundle" else MODEL
    options = ["--beam", "4", "--nbest", "2", "--lenpen", "0.5", "--threads", "1"]
    places = ["--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    main([str(path), *places, *options])
    translator = fairseq_fastdec.load(MODEL)
    expected = [translator.translate(line, beam=4, nbest=2, lenpen=0.5) for line in LINES]
    found = (tmp_path / "out").read_text(encoding="utf-8").splitlines()
    assert found == ["\t".join(best) for best in expected]


def test_lines_that_cannot_be_translated(bundle, capsys, monkeypatch, caplog):
    lines = io.TextIOWrapper(io.BytesIO(b"x\n" + b"x " * 3000 + b"\nx\n\xff\n"))
    monkeypatch.setattr("sys.stdin", lines)
    monkeypatch.setattr("sys.stdout", out := io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(SystemExit) as stopped:
        main([str(bundle)])
    assert stopped.value.code == 2 and "lines without a translation: 2" in str(stopped.value)
    out.flush()
    first, empty, last, invalid, end = out.buffer.getvalue().decode().split("\n")
    assert first == last and first and not empty + invalid + end
    assert "line 2: too long: 3001 tokens" in caplog.text
    assert "line 4: not UTF-8" in caplog.text


def test_the_input_is_not_overwritten(bundle, tmp_path, capsys):
    source = tmp_path / "text"
    source.write_text("x\n")
    with pytest.raises(SystemExit):
        main([str(bundle), "--input", str(source), "--output", str(source)])
    assert "is the input; name another file" in capsys.readouterr().err
    assert source.read_text() == "x\n"


def test_too_many_threads(bundle, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\n")))
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO()))
    with pytest.raises(SystemExit, match="threads 9+: cannot be started"):
        main([str(bundle), "--threads", "9" * 30])


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_closed_streams(bundle, monkeypatch, name):
    monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit, match=f"{name}: is closed; name a file"):
        main([str(bundle)])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nothing.fastdec"], "nothing.fastdec: no such file"),
        (["{bundle}", "--decoding", "jacobi"], "export it with --decoding jacobi"),
        (["{bundle}", "--beam", "2", "--nbest", "3"], "nbest 3: must be at most beam 2"),
        (["{bundle}", "--input", "nothing"], "nothing"),
    ],
)
def test_errors_in_one_line(bundle, capsys, arguments, message):
    with pytest.raises(SystemExit) as stopped:
        main([own.replace("{bundle}", str(bundle)) for own in arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1
