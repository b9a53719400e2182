"""The commands that reproduce the papers, and the table of their trainings."""

import importlib
import json
import re
import shlex
import sys

import pytest

from examples import papers
from examples.common import commands, trainings

PAGE = commands.ROOT / "docs" / "papers.md"
EARLIER = {"paper": "blockwise", "training": "of another machine", "seed": "1"}
ALL = [text for of_paper in papers.PAPERS.values() for text in of_paper]


@pytest.mark.parametrize("text", ALL)
def test_the_script_knows_the_options(text, tmp_path, monkeypatch):
    (_, path, *words), _ = papers.command(text, tmp_path)
    name = ".".join(path.relative_to(commands.ROOT).with_suffix("").parts)
    script = importlib.import_module(name)
    monkeypatch.setattr(sys, "argv", [str(path), *map(str, words)])
    found = script.parse_args()
    args, unknown = found if isinstance(found, tuple) else (found, [])
    assert args.workdir == words[1] and args.workdir.parent == tmp_path and not unknown


def test_the_page_shows_these_commands():
    code = PAGE.read_text(encoding="utf-8").split("```")[1::2]
    joined = "".join(code).replace("\\\n", "")
    shown = [shlex.split(line, comments=True) for line in joined.splitlines()]
    for paper, texts in papers.PAPERS.items():
        assert ["python", "examples/papers.py", paper] in shown
        for text in texts:
            assert shlex.split(text) in shown


def test_the_results_are_of_these_commands():
    """RESULTS shows no other command of their scripts."""
    page = papers.PAGE.read_text(encoding="utf-8")
    shown = [shlex.split(span) for span in re.findall(r"`([^`]*python examples/[^`]*)`", page)]
    commands_of_papers = [shlex.split(text) for text in ALL]
    scripts = {word for words in commands_of_papers for word in words if word.endswith(".py")}
    found = [words for words in shown if scripts.intersection(words)]
    assert found and [words for words in found if words not in commands_of_papers] == []


def test_a_command_has_its_environment(tmp_path):
    words, environment = papers.command(
        "A=1 B=x=y python examples/jacobi/run.py --rounds 5 a.py", tmp_path
    )
    assert words == [
        sys.executable, commands.ROOT / "examples" / "jacobi" / "run.py",
        "--workdir", tmp_path / "jacobi_run", "--rounds", "5", "a.py",
    ]  # fmt: skip
    assert environment == {"A": "1", "B": "x=y"}


def test_commands_run_in_order_and_trainings_are_recorded(tmp_path, monkeypatch, baseline):
    page, figures, ran = tmp_path / "page.md", tmp_path / "figures.json", []
    page.write_text("<!-- trainings -->\nold\n<!-- end of trainings -->\n", encoding="utf-8")
    figures.write_text(json.dumps([EARLIER]), encoding="utf-8")
    folder = tmp_path / "work" / "double_token_run" / "learner"

    def canned(command, environment):
        assert environment == {}
        ran.append(command)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "checkpoint_last.pt").write_bytes(baseline.read_bytes())
        commands.mark_finished(folder)

    monkeypatch.setattr(papers, "PAGE", page)
    monkeypatch.setattr(papers, "FIGURES", figures)
    monkeypatch.setattr(commands, "run", canned)
    argv = ["papers.py", "double_token", "--workdir", str(tmp_path / "work")]
    monkeypatch.setattr(sys, "argv", argv)
    papers.main()
    names = ["double_token_run", "double_token_speed"]
    assert [command[3] for command in ran] == [tmp_path / "work" / name for name in names]
    earlier, row = json.loads(figures.read_text(encoding="utf-8"))
    assert earlier == EARLIER and row.pop("paper") == "double_token"
    assert row["training"] == "double_token_run/learner"
    text = page.read_text(encoding="utf-8")
    assert "old" not in text and text.index("### blockwise") < text.index("### double_token")
    assert "| " + " | ".join(row.values()) + " |" in text


def test_a_training_is_described_by_its_checkpoint(corpus, baseline, tmp_path):
    (tmp_path / "checkpoint_last.pt").write_bytes(baseline.read_bytes())
    assert trainings.rows(tmp_path) == []  # unfinished
    commands.mark_finished(tmp_path)
    (row,) = trainings.rows(tmp_path)
    assert (row["training"], row["updates"], row["architecture"]) == (".", "150", "transformer")
    assert not {"begins with", "k", "token order"} & set(row)
    assert row["data"] == trainings.checksum(corpus)


def test_columns_without_a_value_are_not_shown():
    rows = [{"training": "a", "k": "4"}, {"training": "b", "seed": "1"}]
    lines = ["| training | seed | k |", "|---|---|---|", "| a |  | 4 |", "| b | 1 |  |"]
    assert trainings.table(rows) == "\n".join(lines)


def test_the_checksum_is_of_text_and_dictionaries(tmp_path):
    sums = set()
    for name in ("train.en-de.en.bin", "dict.en.txt", "valid.en-de.en.bin"):
        (tmp_path / name).write_bytes(b"text")
        sums.add(trainings.checksum(tmp_path))
    assert len(sums) == 2


def test_the_page_has_the_table_of_the_figures():
    figures = json.loads(papers.FIGURES.read_text(encoding="utf-8"))
    assert papers.section(figures) in papers.PAGE.read_text(encoding="utf-8")
