"""``python -m fairseq_fastdec``: every command, from anywhere."""

import importlib
import os
import subprocess
import sys
import zipfile
from argparse import Namespace
from pathlib import Path

import pytest
from fairseq import utils
from fairseq_cli import generate

import fairseq_fastdec
from fairseq_fastdec import __main__ as front
from fairseq_fastdec.processes import cores

DOUBLE = "translation_double_token"
ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """What an installation would write, without one."""
    return metadata_of(ROOT, tmp_path_factory.mktemp("metadata"))


def metadata_of(project, folder):
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", folder],
        cwd=project, check=True, capture_output=True,
    )  # fmt: skip
    return next(folder.iterdir())


def test_one_version_and_no_type_is_lost(metadata):
    lines = (metadata / "PKG-INFO").read_text(encoding="utf-8").splitlines()
    assert f"Version: {fairseq_fastdec.__version__}" in lines
    assert (Path(fairseq_fastdec.__file__).parent / "py.typed").exists()
    assert f"## [{fairseq_fastdec.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    citation = (ROOT / "CITATION.cff").read_text("utf-8").splitlines()
    assert f"version: {fairseq_fastdec.__version__}" in citation


def test_the_plugin_is_the_runtime_with_fairseq(metadata, tmp_path):
    """No environment gets the files of the package twice."""
    plugin = metadata_of(ROOT / "plugin", tmp_path)
    (needed,) = (plugin / "requires.txt").read_text("utf-8").split()
    assert needed == f"fastdec-runtime[fairseq]=={fairseq_fastdec.__version__}"
    assert (plugin / "top_level.txt").read_text("utf-8").split() == []
    assert f"Version: {fairseq_fastdec.__version__}" in (plugin / "PKG-INFO").read_text("utf-8")
    always, _, extras = (metadata / "requires.txt").read_text("utf-8").partition("\n[")
    assert "torch" not in always and "fairseq" not in always
    assert "torch" in extras


def test_a_reader_that_has_gone():
    """As in ``... --help | head``."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as pipe:
        ended = subprocess.run(
            [sys.executable, "-m", "fairseq_fastdec", "--user-dir"],
            cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE,
        )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("name", front.COMMANDS)
def test_every_command_says_what_it_takes(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        front.main([name, "--help"])
    assert stopped.value.code == 0
    flags = {
        **dict.fromkeys(["prepare-data", "distill", "import"], "--destdir"),
        "serve": "--config",
    }
    assert flags.get(name, "--output") in capsys.readouterr().out
    assert callable(importlib.import_module(f"fairseq_fastdec.{front.COMMANDS[name][1]}").main)


def test_the_folder_for_fairseqs_own_commands(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    front.main(["--user-dir"])
    folder = capsys.readouterr().out.strip()
    utils.import_user_module(Namespace(user_dir=folder))
    front.main(["--version"])
    assert capsys.readouterr().out.startswith(f"{fairseq_fastdec.__version__}, with")
    with pytest.raises(SystemExit, match="transalte: unknown; choose from generate, "):
        front.main(["transalte"])


def test_the_version_tells_of_missing_compiled_code(capsys, monkeypatch):
    monkeypatch.setattr("fairseq_fastdec.engine.kernels.loading.library", lambda: None)
    front.main(["--version"])
    told = capsys.readouterr().out
    assert told.startswith(f"{fairseq_fastdec.__version__}, without compiled code")
    assert f"pip install --force-reinstall --no-deps -e {ROOT}\n" in told
    assert told.endswith(f"{cores.description()}\n")


def test_a_wheel_without_compiled_code_has_another_name(tmp_path):
    """pip shows nothing of a compilation that failed, and would take one wheel for the other."""
    words = ["build", "-b", tmp_path / "build", "egg_info", "--egg-base", tmp_path]
    words += ["bdist_wheel", "-d", tmp_path / "dist", "-b", tmp_path / "wheel"]
    built = subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", *words], cwd=ROOT,
        env={**os.environ, "CC": "false", "CXX": "false"}, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    assert "the wheel has no compiled code" in built.stdout
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name == f"fastdec_runtime-{fairseq_fastdec.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert "fairseq_fastdec/__main__.py" in names
    assert not [name for name in names if "_engine." in name]


@pytest.mark.parametrize("given, task", [([], "translation"), (["--task", DOUBLE], DOUBLE)])
def test_fairseqs_commands_know_the_plugin(given, task, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["unchanged"])
    seen = []
    monkeypatch.setattr(generate, "main", seen.append)
    front.main(["generate", "data", *given, "--beam", "3"])
    (args,) = seen
    assert (args.task, args.beam, args.data) == (task, 3, "data")
    assert Path(args.user_dir) == Path(fairseq_fastdec.__file__).parent
