"""The example that times whole commands."""

import pytest

from examples.engine import whole_commands as example


def test_one_sentence_through_each_command(tmp_path, monkeypatch, capsys):
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
