"""``python -m fairseq_fastdec import``."""

import json
import subprocess
import sys

import pytest

import fairseq_fastdec
from fairseq_fastdec import __main__ as front
from tests.support import marian_writing, mutations
from tests.support.imported_models import random_model


@pytest.fixture
def marian(tmp_path):
    """The directory of a model of Marian."""
    folder = marian_writing.write_directory(
        tmp_path / "opus-mt-en-pt", marian_writing.random_tensors()
    )
    (folder / "decoder.yml").write_text("beam-size: 4\nnormalize: false\nmax-length-factor: 2\n")
    return folder


def refused(*arguments):
    """The message of a command that is refused."""
    with pytest.raises(SystemExit) as stopped:
        front.main(["import", *map(str, arguments)])
    assert stopped.value.code == 2
    return str(stopped.value)


def test_a_model_of_marian(marian, tmp_path, capsys):
    front.main(["import", str(marian), "--destdir", str(tmp_path / "out")])
    first, *options = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{tmp_path / 'out'}: en to pt; 0.0 M parameters; dict.en.txt, dict.pt")
    assert first.endswith("sentencepiece.bpe.model, target.spm, generation.json, checkpoint.pt")
    assert options == [
        "  --unkpen inf", "  --beam 4", "  --unnormalized", "  --max-len-a 2.0", "  --max-len-b 0",
    ]  # fmt: skip
    recorded = json.loads((tmp_path / "out" / "generation.json").read_text())
    assert recorded["beam"] == 4 and recorded["unnormalized"] is True
    translator = fairseq_fastdec.load(tmp_path / "out", bpe=None)
    assert (translator.source_lang, translator.target_lang) == ("en", "pt")
    on_the_fly = fairseq_fastdec.load(marian, bpe=None)
    text = "▁w1 ▁w2 ▁w3"
    assert on_the_fly.translate(text) == translator.translate(text)
    assert translator.translate(text, beam=1, max_len_a=0, max_len_b=3).count("▁") <= 3


def test_a_model_of_many_languages(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("fairseq_fastdec.importing.recognising.read", lambda path: random_model())
    front.main(["import", str(tmp_path), "--destdir", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert ": 5 languages, by default eng_Latn to deu_Latn; 0.0 M parameters; dict.all" in printed


def test_the_file_of_a_model(marian, tmp_path):
    front.main(["import", str(marian / "model.npz"), "--destdir", str(tmp_path / "new" / "out")])
    assert (tmp_path / "new" / "out" / "checkpoint.pt").is_file()


def test_a_destination_that_is_in_use(marian, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept.txt").write_text("text")
    message = refused(marian, "--destdir", tmp_path / "out")
    assert message.endswith(f"--destdir {tmp_path / 'out'}: is not empty; give a new directory")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["kept.txt"]
    assert "is not a directory" in refused(marian, "--destdir", tmp_path / "out" / "kept.txt")
    assert (tmp_path / "out" / "kept.txt").read_text() == "text"
    # The model itself would be mixed with the result.
    assert "is not empty" in refused(marian, "--destdir", marian)


def test_an_empty_directory_is_a_new_one(marian, tmp_path):
    (tmp_path / "out").mkdir()
    front.main(["import", str(marian), "--destdir", str(tmp_path / "out")])
    assert (tmp_path / "out" / "checkpoint.pt").is_file()


def test_models_that_cannot_be_read(marian, tmp_path):
    out = tmp_path / "out"
    assert "nowhere: no such file" in refused(tmp_path / "nowhere", "--destdir", out)
    (tmp_path / "empty").mkdir()
    assert "not a model that can be imported" in refused(tmp_path / "empty", "--destdir", out)
    (marian / "model.vocab.yml").write_text("a: 0\na: 1\n")
    assert "has the key 'a' twice" in refused(marian, "--destdir", out)
    (marian / "model.npz").write_bytes(b"PK")
    assert str(marian / "model.npz") in refused(marian, "--destdir", out)
    assert not out.exists()


def test_damaged_models_leave_nothing(marian, tmp_path, capsys):
    """Those that can still be read are imported."""
    out = tmp_path / "out"

    def read():
        try:
            front.main(["import", str(marian), "--destdir", str(out)])
        except SystemExit as stopped:
            assert stopped.code == 2 and not out.exists()
            raise ValueError(str(stopped)) from stopped
        for file in out.iterdir():
            file.unlink()
        out.rmdir()

    assert mutations.check(marian / "model.npz", read, (ValueError,)) > 10


@pytest.mark.parametrize("arguments", [[], ["MODEL"], ["--destdir", "x"], ["", "--destdir", "x"]])
def test_arguments_that_are_missing(arguments, capsys):
    refused(*arguments)


def test_one_line_in_a_process_of_its_own(tmp_path):
    command = [sys.executable, "-m", "fairseq_fastdec", "import", tmp_path, "--destdir", "x"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("python -m fairseq_fastdec import: ")
    assert list(tmp_path.iterdir()) == []
