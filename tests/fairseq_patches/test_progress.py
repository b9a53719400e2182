"""fairseq's progress bar moves within the long batches of --decoding streaming."""

import io
import itertools
import json
import re
import sys
from types import SimpleNamespace

import pytest
from fairseq.logging import progress_bar

from fairseq_fastdec.fairseq_patches import progress
from tests.support.command_line import generate, hypotheses

STREAMING = ("--decoding", "streaming", "--beam", 2, "--batch-size", 2)


class Terminal(io.StringIO):
    """A standard error that somebody looks at."""

    def isatty(self):
        return True


@pytest.fixture
def seen(monkeypatch, caplog):
    """A function that runs fairseq-generate and returns what it shows on a terminal."""
    caplog.set_level("INFO")  # fairseq switches its bar off with its log

    def run(*arguments):
        stream = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            assert len(hypotheses(generate(*arguments))) == 29
        return stream.getvalue()

    return run


@pytest.fixture(autouse=True)
def slow(monkeypatch):
    """As if a minute passed between two looks at the clock."""
    seconds = itertools.count(step=60)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(seconds)))


def fractions(text):
    """The numbers of batches that the bar has shown."""
    return [float(n) for n in re.findall(r"\| ([\d.]+)/\d+ \[", text)]


def test_the_bar_moves_within_a_batch(corpus, baseline, seen):
    text = seen(corpus, baseline, *STREAMING, "--log-format", "tqdm")
    shown = fractions(text)
    assert {0.03, 0.48, 0.97} <= set(shown) and max(shown) == 1
    assert "14 of 29 sentences" in text


def test_every_batch_begins_where_the_last_one_ended(corpus, baseline, seen):
    text = seen(corpus, baseline, *STREAMING, "--log-format", "tqdm", "--stream-buffer", 10)
    assert "/3 [" in text
    shown = fractions(text)
    assert {0.5, 1.5, 2.56} <= set(shown) and max(shown) <= 3


@pytest.mark.parametrize(
    "options",
    [(), ("--log-format", "simple"), ("--log-format", "tqdm")],
    ids=["no progress bar", "simple", "no terminal"],
)
def test_lines_where_no_bar_can_be(corpus, baseline, options, caplog, capsys):
    with caplog.at_level("INFO"):
        generate(corpus, baseline, *STREAMING, *options)
    assert "14 of 29 sentences of the batch are done" in caplog.messages
    assert not fractions(capsys.readouterr().err)


def test_json(corpus, baseline, caplog):
    with caplog.at_level("INFO"):
        generate(corpus, baseline, *STREAMING, "--log-format", "json")
    lines = [json.loads(line) for line in caplog.messages if "sentences_done" in line]
    assert {"sentences_done": 14, "sentences_in_batch": 29} in lines


def test_nothing_is_shown_without_a_bar_or_within_a_minute(
    corpus, baseline, seen, caplog, monkeypatch
):
    text = seen(corpus, baseline, *STREAMING, "--log-format", "none")
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 0.0))
    text += seen(corpus, baseline, *STREAMING, "--log-format", "simple")
    assert " of 29 sentences" not in text + caplog.text


def test_a_bar_that_is_switched_off(monkeypatch, caplog):
    """fairseq switches it off with its log."""
    caplog.set_level("WARNING", logger="fairseq.logging.progress_bar")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Terminal())
        bar = progress_bar.progress_bar([0], log_format="tqdm")
    assert bar.tqdm.disable
    assert list(progress.shown([1, 2], 2)) == [1, 2]


def test_methods_with_short_batches_leave_the_bar_alone(corpus, baseline, seen):
    options = ("--decoding", "variable_beam", "--beam", 2, "--batch-size", 8)
    shown = fractions(seen(corpus, baseline, *options, "--log-format", "tqdm"))
    assert shown and all(number.is_integer() for number in shown)


def test_a_bar_that_is_gone_is_forgotten():
    bar = progress_bar.progress_bar([1, 2], log_format="simple")
    assert progress._latest() is bar
    del bar
    assert progress._latest() is None
    assert list(progress.shown([1, 2], 2)) == [1, 2]
