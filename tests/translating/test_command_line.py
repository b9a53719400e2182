"""Options, checks and names that the command lines of the tools share."""

import argparse
import sys

import pytest

from fairseq_fastdec.translating.command_line import (
    SEARCH_OPTIONS,
    add_search_options,
    check_output,
    given,
    in_words,
    positive,
    program,
)


def test_whole_numbers():
    assert positive("12") == 12
    for text in ("0", "-1", "1.5", "many", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="whole number of at least 1"):
            positive(text)


@pytest.mark.parametrize(
    "called, name",
    [
        ("scripts/build_shortlist.py", "build_shortlist.py"),
        ("/opt/venv/bin/fastdec-build-shortlist", "fastdec-build-shortlist"),
        ("C:/venv/Scripts/fastdec-build-shortlist.exe", "fastdec-build-shortlist"),
        ("/opt/fairseq_fastdec/__main__.py", "python -m fairseq_fastdec build-shortlist"),
        ("/opt/pytest/__main__.py", "build_shortlist.py"),
        ("", "build_shortlist.py"),
    ],
)
def test_a_program_has_the_name_that_it_was_called_by(monkeypatch, called, name):
    monkeypatch.setattr(sys, "argv", [called])
    assert program("build-shortlist") == name


def test_counts_in_words():
    counts = {"too long": 2, "x": 0, "kept": 5, "empty": 1}
    assert in_words(counts, "kept") == "5 kept, 1 empty, 2 too long"
    assert in_words({}, "translated") == "0 translated"


def test_the_directory_of_an_output(tmp_path):
    check_output(tmp_path / "file")
    with pytest.raises(ValueError, match="^--output .*new/file: there is no directory .*new$"):
        check_output(tmp_path / "new" / "file")


def test_the_search_options_that_were_given():
    parser = argparse.ArgumentParser()
    add_search_options(parser, "a method")
    args = parser.parse_args(["--beam", "3", "--lenpen", "0", "--max-len-b", "-1"])
    assert given(args, SEARCH_OPTIONS) == {"beam": 3, "lenpen": 0.0, "max_len_b": -1}
