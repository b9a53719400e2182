"""Commands print results, one summary line and true warnings; imports leave logging as it was."""

import logging
import warnings

import pytest

from fairseq_fastdec.processes import noise
from tests.support import after_import, command_line, skips

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


@pytest.mark.parametrize("config", ["", "level=logging.DEBUG"])
def test_an_import_says_nothing_and_leaves_logging_alone(config):
    skips.needs("matplotlib")
    done = after_import.run(IMPORTS.format(config=config), imported="torch")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "DEBUG" in config or done.stderr == ""


def test_the_level_is_that_of_loglevel():
    for level in (logging.INFO, logging.WARNING):
        done = after_import.run(
            AFTER_FAIRSEQ, imported="torch", LOGLEVEL=logging.getLevelName(level)
        )
        assert done.stdout.split()[-1] == str(level)


def test_generate_prints_translations_and_one_line(corpus, baseline):
    done = after_import.run_ours(
        "generate", corpus, "--path", baseline, "--decoding", "greedy", "--cpu",
        "--no-progress-bar",
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
    root = logging.getLogger()
    before = root.level
    monkeypatch.setattr(root, "handlers", [])
    heard = []

    class Listener(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    other, ours = (
        logging.getLogger("fairseq.noise"),
        logging.getLogger("fairseq_fastdec.processes.noise"),
    )
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


def test_generators_that_still_exist_log_their_summary(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    logger = logging.getLogger("fairseq_fastdec.processes.noise")
    earlier, other = {"a"}, {"b"}
    noise.at_end(earlier, logger.info, "earlier")
    with noise.results_only():
        noise.at_end(other, logger.info, "other")
        noise.at_end({"c"}, logger.info, "deleted")
    assert capsys.readouterr().err.split() == ["deleted", "other"]


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


def test_an_interrupt_while_options_are_composed(caplog):
    logger = logging.getLogger(noise.COMPOSING)
    noise.install()
    for error in (KeyboardInterrupt, ValueError):
        for raised in (error, AttributeError):
            try:
                try:
                    raise error
                finally:
                    raise raised
            except BaseException:
                logger.error("Error when composing %s", error.__name__)
    assert [record.message for record in caplog.records] == ["Error when composing ValueError"] * 2
