"""Options, checks and names that the command lines of the tools share."""

import argparse

import pytest

from fairseq_fastdec.translating.command_line import (
    SEARCH_OPTIONS,
    add_search_options,
    check_output,
    given,
    in_words,
    positive,
)


def test_whole_numbers():
    assert positive("12") == 12
    for text in ("0", "-1", "1.5", "many", ""):
        with pytest.raises(argparse.ArgumentTypeError, match="whole number of at least 1"):
            positive(text)


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
