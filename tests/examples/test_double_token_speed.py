"""The speed of two tokens a step: tiny models for each case, and the table."""

import sys
from argparse import Namespace

import pytest

from examples.common import commands
from examples.common.figures import read_figures, write_figures
from examples.double_token import speed as example
from tests.support import small_base

BIG = {"encoder_layers": 3}
CASES = [example.Case(beam=2), example.Case("big", types=1000, beam=1)]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Tiny networks, and another one instead of the big one."""
    small_base.use(monkeypatch)
    monkeypatch.setitem(example.SIZES, "big", BIG)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_two_tokens_a_step_halve_the_steps(case, tmp_path):
    example.prepare(tmp_path, case)
    args = Namespace(rounds=1, threads=1)
    words = example.benchmark_command(tmp_path, case, 1, args, tmp_path)
    args, settings, methods = small_base.parsed(words)
    assert args.batch_sizes == [1]
    for method, steps in zip(methods, (31, 16)):
        translations, worker = small_base.decode(settings, method, tmp_path)
        # Without EOS.
        assert {len(own.text.split()) for own in translations} == {30}
        assert len(worker.runner.models[0].encoder.layers) == 2 + (case.size == "big")
        assert worker.decode(1).row_invocations == (
            small_base.N_SENTENCES * (1 + (steps - 1) * case.beam)
        )


def test_the_figures_and_the_table(tmp_path, monkeypatch):
    decoded = []

    def canned(command):
        decoded.append(command)
        seconds = {"single": [3.0, 2.0], "double": [1.0, 1.0]}
        results = [{"method": name, "seconds": own} for name, own in seconds.items()]
        output = command[command.index("--output") + 1]
        output.mkdir()
        write_figures(output / "benchmark.json", {"results": results})

    monkeypatch.setattr(commands, "run", canned)
    monkeypatch.setattr(example, "CASES", CASES)
    monkeypatch.setattr(example, "PAPER", {CASES[0]: "1.13x"})
    monkeypatch.setattr(example, "FIGURES", tmp_path / "double_token_speed.json")
    monkeypatch.setattr(example, "PAGE", tmp_path / "page.md")
    begin, end = f"a\n<!-- {example.SECTION} -->\n", f"<!-- end of {example.SECTION} -->\nb\n"
    example.PAGE.write_text(f"{begin}old\n{end}")
    monkeypatch.setattr(sys, "argv", ["speed.py", "--workdir", str(tmp_path), "--rounds", "2"])
    for _ in range(2):
        example.main()
        assert len(decoded) == 4
    figures = read_figures(example.FIGURES, None)
    assert [(row["size"], row["beam"], row["batch_size"]) for row in figures] == [
        ("base", 2, 32), ("base", 2, 1), ("big", 1, 32), ("big", 1, 1),
    ]  # fmt: skip
    page = example.PAGE.read_text()
    assert page.startswith(f"{begin}{figures[0]['date']} · ") and page.endswith(end)
    speed = "2.50x (2.00 to 3.00)"
    assert f"| base | 32,000 | 2 | 1.13x | {speed} | {speed} |" in page
    assert f"| big | 1,000 | 1 |  | {speed} | {speed} |" in page
