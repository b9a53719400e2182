"""The example that times whole commands."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from examples.engine import whole_commands as example
from tests.support import after_import


def forked(command, env, **_):
    """Run a command in a process that has imported what takes longest."""
    if command[0] == sys.executable:
        assert command[1:3] == ["-m", "fairseq_fastdec"]
        done = after_import.run_ours(*command[3:], **env)
    else:
        assert Path(command[0]).exists()
        done = after_import.run_script(*command, **env)
    assert done.returncode == 0, done.stderr


def test_one_sentence_through_each_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(example, "subprocess", SimpleNamespace(run=forked))
    arguments = ["--rounds", "1", "--jobs", "interactive, one sentence", "--workdir", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["whole_commands.py", *arguments])
    example.main()
    printed = capsys.readouterr().out
    (row,) = [line for line in printed.splitlines() if line.startswith("| interactive")]
    assert len(row.split("|")) == 6 and row.count(" s, ") == 2
    assert (tmp_path / "stock.pt").exists() and (tmp_path / "data" / "test.en-de.en.bin").exists()


@pytest.mark.parametrize("program", [example.STOCK, example.PLUGIN, example.OURS])
def test_the_same_work(tmp_path, program):
    command = example.command_of(tmp_path, example.JOBS["generate, beam 5, int8"], program)
    assert ("--user-dir" in command) == (program == example.PLUGIN)
    assert ("--engine-precision" in command) == (program != example.STOCK)
    assert command[command.index("--beam") + 1] == "5"
    assert str(tmp_path / "data") in command
