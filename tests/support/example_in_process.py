"""Runs the commands of examples in this process."""

import gc
import logging
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fairseq_cli import generate as generate_cli
from fairseq_cli import train as train_cli

from examples.common import commands, crossing, en_de
from fairseq_fastdec.tools import average_checkpoints
from fairseq_fastdec.tools.distillation import command as distillation
from tests.support import command_line


def runner(caplog) -> tuple[list[str], Callable]:
    """A replacement for an example's ``run``, and the list of programs that it has run."""
    programs: list[str] = []

    lock = threading.Lock()  # fairseq's programs change the state of the process

    def run(command, log=None):
        with lock:
            run_alone(command, log)

    def run_alone(command, log):
        program, *arguments = map(str, command)
        programs.append(Path(program).name)
        caplog.clear()
        if program.endswith("fairseq-preprocess"):
            command_line.preprocess(*arguments)
        elif program.endswith("fairseq-train"):
            command_line.run(train_cli, *arguments, "--num-workers", 0)
        elif program.endswith("fairseq-generate"):
            with caplog.at_level(logging.INFO):
                command_line.run(generate_cli, *arguments)
                # The generator logs its summary when it is deleted.
                gc.collect()
            log.write_text(caplog.text, encoding="utf-8")
        elif arguments[2] == "distill":
            distillation.main([*arguments[3:], "--cpu", "--no-progress-bar", "--num-workers", "0"])
        else:
            average_checkpoints.main(arguments[3:])

    return programs, run


def on_letters(corpus, monkeypatch, caplog, *texts: str) -> list[str]:
    """Make examples use the tiny corpus, and run their commands in this process.

    Args:
        texts: the texts of the corpus that an example reads.

    Returns:
        the list of programs run so far
    """
    programs, run = runner(caplog)

    def prepare(work, recipe, _=None):
        if not (work / "data").exists():
            shutil.copytree(corpus, work / "data")
            (work / "data" / "text").mkdir()
            for text in texts:
                shutil.copy(corpus.parent / text, work / "data" / "text")

    monkeypatch.setattr(commands, "run", run)
    monkeypatch.setattr(en_de, "prepare", prepare)
    scoring = ["--gen-subset", "test", "--scoring", "sacrebleu", "--num-workers", "0"]
    monkeypatch.setattr(en_de, "test_options", lambda work: scoring)
    return programs


def cross_letters(example, monkeypatch) -> None:
    """Make an example create only a few crossed sources, with a tiny model in the full recipe."""
    recipe = replace(en_de.RECIPES["full"], network=command_line.TINY)
    monkeypatch.setattr(en_de, "BUNDLED", recipe)
    monkeypatch.setattr(example, "N_CROSSED", 40)
    monkeypatch.setattr(example, "SAVE_EVERY", 1)
    monkeypatch.setattr(crossing, "JOINTS", frozenset("abc"))
