"""The script that decodes on an emulated processor; it needs downloads, so tests do not run it."""

import pytest

from scripts import arm64


def test_missing_tools_are_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["arm64.py", "model.fastdec", "sentences.txt"])
    assert arm64.main() == 2
    assert "aarch64-linux-gnu-g++, qemu-aarch64" in capsys.readouterr().err


def test_help(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["arm64.py", "--help"])
    with pytest.raises(SystemExit):
        arm64.main()
    assert "bundle" in capsys.readouterr().out
