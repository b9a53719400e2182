"""The command that profiles the engine, and its table."""

import pytest

from fairseq_fastdec.tools.profiling import command
from fairseq_fastdec.tools.profiling.profile import PARTS, Profile
from tests.support.profiling import case


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
