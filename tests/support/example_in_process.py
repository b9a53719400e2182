"""Examples as modules, and the commands that they print and run, in this process."""

import importlib.util
import logging
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Callable, Iterator, List, Tuple

from fairseq_cli import generate as generate_cli
from fairseq_cli import train as train_cli

from fairseq_fastdec.tools import average_checkpoints
from fairseq_fastdec.tools.distillation import command as distillation
from tests.support import command_line

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Of both folders, by the names that they import each other with.
OWN_MODULES = (
    "run", "table", "distill", "models", "trainer", "comparison", "precision", "significance",
    "crossing", "deeper", "sources",
)  # fmt: skip


def loaded(monkeypatch, script: str, folder: str = "double_token") -> Iterator:
    """A script as a module, with those of ``double_token`` and of ``en_de``."""
    folders = [str(EXAMPLES / name) for name in ("en_de", "double_token")]
    monkeypatch.setattr(sys, "path", [*folders, *sys.path])
    path = EXAMPLES / folder / script
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    yield module
    for name in OWN_MODULES:
        sys.modules.pop(name, None)


def runner(caplog) -> Tuple[List[str], Callable]:
    """What is run in place of an example's ``run``, and the programs that it has been given."""
    commands: List[str] = []

    def run(command, log=None):
        program, *arguments = map(str, command)
        commands.append(Path(program).name)
        caplog.clear()
        if program.endswith("fairseq-train"):
            command_line.run(train_cli, *arguments, "--num-workers", 0)
        elif program.endswith("fairseq-generate"):
            with caplog.at_level(logging.INFO):
                command_line.run(generate_cli, *arguments)
            log.write_text(caplog.text, encoding="utf-8")
        elif arguments[0].endswith("distill.py"):
            distillation.main([*arguments[1:], "--cpu", "--no-progress-bar", "--num-workers", "0"])
        else:
            average_checkpoints.main(arguments[1:])

    return commands, run


def on_letters(example, corpus, monkeypatch, caplog, *texts: str) -> List[str]:
    """Let an example work on the tiny corpus, its commands in this process.

    Args:
        texts: of the corpus, those that the example reads.

    Returns:
        the programs that have been run so far.
    """
    commands, run = runner(caplog)

    def prepare(work, recipe):
        if not (work / "data").exists():
            shutil.copytree(corpus, work / "data")
            (work / "data" / "text").mkdir()
            for text in texts:
                shutil.copy(corpus.parent / text, work / "data" / "text")

    monkeypatch.setattr(example.en_de, "run", run)
    monkeypatch.setattr(example.en_de, "prepare", prepare)
    scoring = ["--gen-subset", "test", "--scoring", "sacrebleu", "--num-workers", "0"]
    monkeypatch.setattr(example.en_de, "test_options", lambda work: scoring)
    return commands


def cross_letters(example, monkeypatch) -> None:
    """Let an example of crossed sources cross a few, for a tiny model of the full recipe."""
    recipe = replace(example.en_de.RECIPES["full"], network=command_line.TINY)
    monkeypatch.setattr(example.en_de, "RECIPES", {"full": recipe})
    monkeypatch.setattr(example, "N_CROSSED", 40)
    monkeypatch.setattr(example, "SAVE_EVERY", 1)
    monkeypatch.setattr(sys.modules["crossing"], "JOINTS", frozenset("abc"))
