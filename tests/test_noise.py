"""Commands print results, one summary line and true warnings; imports leave logging as it was."""

import gc
import logging
import os
import subprocess
import sys
import warnings

import pytest

from fairseq_fastdec import noise
from tests.support import command_line, skips

IMPORTS = """
import logging, warnings
root = logging.getLogger()
logging.basicConfig({config})
before = root.level, root.handlers[:], root.manager.disable
import fairseq_fastdec.tools.visualize.command, fairseq_fastdec.tools.distillation.command
assert (root.level, root.handlers[:], root.manager.disable) == before, root.handlers
"""
AFTER_FAIRSEQ = """
import logging, fairseq
import fairseq_fastdec
print(logging.getLogger().level)
"""


def run(*arguments, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True, text=True, encoding="utf-8", **environment,
    )  # fmt: skip


@pytest.mark.parametrize("config", ["", "level=logging.DEBUG"])
def test_an_import_says_nothing_and_leaves_logging_alone(config):
    skips.needs("matplotlib")
    done = run("-c", IMPORTS.format(config=config))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "DEBUG" in config or done.stderr == ""


def test_the_level_is_that_of_loglevel(monkeypatch):
    assert run("-c", AFTER_FAIRSEQ).stdout.split()[-1] == str(logging.INFO)
    monkeypatch.setenv("LOGLEVEL", "WARNING")
    assert run("-c", AFTER_FAIRSEQ).stdout.split()[-1] == str(logging.WARNING)


def test_generate_prints_translations_and_one_line(corpus, baseline):
    done = run(
        "-m", "fairseq_fastdec", "generate", corpus, "--path", baseline, "--decoding", "greedy",
        "--cpu", "--no-progress-bar",
        # Of several threads a second line would say how many have work.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    summary = done.stderr.strip()
    assert summary.startswith("greedy decoding: 29 sentences")
    *lines, score = done.stdout.splitlines()
    assert {line[:2] for line in lines} == set(f"{letter}-" for letter in "STHDP")
    assert score.startswith("Generate test with beam=1: ")


def test_the_beam_that_is_printed(corpus, baseline):
    last = command_line.generate(corpus, baseline, "--decoding", "greedy")
    assert "with beam=1:" in last
    last = command_line.generate(corpus, baseline, "--decoding", "beam")
    assert "with beam=5:" in last


def test_results_only(capsys, monkeypatch):
    """Our lines and warnings of all; files that fairseq logs to get everything."""
    # Generators of other tests say what they did when they go.
    gc.collect()
    root = logging.getLogger()
    before = root.level
    monkeypatch.setattr(root, "handlers", [])
    heard = []

    class Listener(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    other, ours = logging.getLogger("fairseq.noise"), logging.getLogger("fairseq_fastdec.noise")
    listener = Listener()
    other.addHandler(listener)
    try:
        with noise.results_only():
            other.info("a")
            other.warning("b")
            ours.info("c")
        with noise.results_only(logging.WARNING):
            ours.info("d")
            ours.warning("e")
    finally:
        other.removeHandler(listener)
    assert capsys.readouterr().err.split() == ["b", "c", "e"] and heard == ["a", "b"]
    assert (root.handlers, root.level) == ([], before)


def test_only_known_warnings_go():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        noise.install()
        warnings.warn_explicit("old", UserWarning, "x.py", 1, module="hydra.core.utils")
        warnings.warn_explicit(
            "\n'config' is validated against ConfigStore schema with", UserWarning, "x.py", 1
        )
        warnings.warn_explicit("old", UserWarning, "x.py", 1, module="fairseq_fastdec.hydra.x")
        warnings.warn_explicit("new", UserWarning, "x.py", 1, module="torch.utils.data.dataloader")
    assert [str(warning.message) for warning in caught] == ["old", "new"]
