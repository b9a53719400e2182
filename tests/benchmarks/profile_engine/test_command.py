"""The command that profiles the engine, and its table."""

import pytest

from benchmarks.profile_engine import command
from benchmarks.profile_engine.profile import BYTES_OF_WEIGHT, PARTS, Profile
from tests.support import after_import
from tests.support.compiled import compiled
from tests.support.profiling import case


@compiled
def test_the_command(capsys):
    command.main(
        "--arch transformer_iwslt_de_en --types 50 --batch-sizes 1,2 "
        "--repeats 1 --source-length 4 --target-length 5 --threads 1".split()
    )
    lines = capsys.readouterr().out.splitlines()
    titles = [f"batch {n}, {precision}" for n in (1, 2) for precision in BYTES_OF_WEIGHT]
    assert [title.strip() for title in lines[0].split("|")[2:-1]] == titles
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:] if "|" in line]
    shown = [name for name, *_ in rows]
    assert shown[-2:] == ["total", "floor"]
    assert shown[:-2] == [part for part in PARTS if part in shown]
    assert "encoder" in shown and "output layer and choice" in shown
    for name, *cells in rows[:-2]:
        assert any(float(cell) for cell in cells), f"{name} is all zero"
    explanation = " ".join(lines[lines.index("") :])
    assert "floor: the time for reading each weight" in explanation and "GB/s" in explanation


@compiled
def test_blocks_are_compared_without_the_encoder(capsys):
    command.main(
        "--arch blockwise_transformer_iwslt_de_en --types 50 --batch-sizes 1 --repeats 1 "
        "--precisions fp32 --source-length 4 --target-length 5 --threads 1 "
        "--decoding blockwise --decoding-block-sizes 1,3".split()
    )
    lines = capsys.readouterr().out.splitlines()
    assert "| batch 1, fp32, blocks of 1 | batch 1, fp32, blocks of 3 |" in lines[0]
    (ratios,) = (line for line in lines if line.startswith("| to blocks of 1 |"))
    first, more = map(float, ratios.split("|")[2:-1])
    assert first == 1 and more > 0
    assert any(
        line.startswith("to blocks of 1: relative time without the encoder") for line in lines
    )


def test_the_ratio_of_blocks_leaves_the_encoder_out():
    cases = [case(block_size=1), case(block_size=4), case(block_size=1, precision="int8")]
    parts = [dict.fromkeys(PARTS, 0.0) for _ in cases]
    for own, encoder, layers in zip(parts, (1.0, 5.0, 2.0), (2.0, 3.0, 1.0)):
        own.update({"encoder": encoder, "decoder layers": layers})
    profiles = [Profile(own, sum(own.values()), 0.0) for own in parts]
    assert command.to_first_blocks(cases, profiles) == [1.0, 1.5, 1.0]


def test_parts_that_took_no_time_are_not_shown():
    cases = [case(), case(precision="int8")]
    first, second = dict.fromkeys(PARTS, 0.0), dict.fromkeys(PARTS, 0.0)
    first["search"], second["encoder"], second["decoder layers"] = 0.5, 0.006, 0.004
    profiles = [Profile(first, 0.5, 0.0), Profile(second, 0.01, 0.0)]
    lines = command.table(cases, profiles).splitlines()[2:]
    # A floor too low to be shown stays.
    assert [line.split("|")[1].strip() for line in lines] == ["encoder", "search", "total", "floor"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ("--arch nonsense", "--arch nonsense: unknown"),
        ("--path model.pt", "give both --path and --data"),
        ("--precisions fp16", "choose from fp32, bf16, int8"),
        ("--decoding-block-sizes 1,0", "0"),
    ],
)
def test_wrong_command_lines(arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.main(arguments.split())
    assert message in capsys.readouterr().err


def test_a_closed_standard_output():
    arguments = "--arch transformer_iwslt_de_en --types 50 --threads 1".split()
    done = after_import.run_module("benchmarks.profile_engine", *arguments, closed=(1,))
    assert done.returncode == 2
    assert done.stderr.startswith("python -m benchmarks.profile_engine: stdout: is closed")
    assert len(done.stderr.splitlines()) == 1


def test_a_method_that_the_model_is_not_made_for():
    arguments = "--arch transformer_iwslt_de_en --types 50 --decoding blockwise --threads 1"
    with pytest.raises(SystemExit, match="benchmarks.profile_engine: --decoding blockwise"):
        command.main(arguments.split())
