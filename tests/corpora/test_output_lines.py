"""What becomes of a line in the output."""

import json

import pytest

from fairseq_fastdec.corpora.chunks import Chunk
from fairseq_fastdec.corpora.filters import Filters
from fairseq_fastdec.corpora.output_lines import (
    EMPTY,
    JSONL,
    KEEP_SOURCE,
    PLAIN,
    TSV,
    Outcome,
    OutputRules,
    TextHypothesis,
    UntranslatedLine,
)
from fairseq_fastdec.translating.results import Problem

CHUNK = Chunk(2, 10, "eins\nzwei\tx\nüber\r\n".encode())
TOO_LONG = Problem("too long", "9 tokens, and 5 fit")


def outcome(*texts, n_source_tokens=3):
    return Outcome(
        n_source_tokens,
        [TextHypothesis(text, -0.123456 - n, len(text.split())) for n, text in enumerate(texts)],
    )


RESULTS = [outcome("one\nand", "two"), TOO_LONG, outcome("a\tb c", "d")]


def rendered(chunk=CHUNK, results=RESULTS, **rules):
    return OutputRules(**rules).render(chunk, results)


@pytest.mark.parametrize("on_error, middle", [(EMPTY, ""), (KEEP_SOURCE, "zwei\tx")])
def test_plain_text_is_a_line_for_a_line(on_error, middle):
    content, counts = rendered(on_error=on_error)
    assert content.decode() == f"one and\n{middle}\na\tb c\n"
    assert counts == {"translated": 2, "too long": 1}


def test_columns():
    content, counts = rendered(format=TSV, on_error=KEEP_SOURCE)
    assert content.decode().split("\n") == [
        "11\t-0.1235\tone and", "11\t-1.1235\ttwo", "12\t\tzwei x", "13\t-0.1235\ta b c",
        "13\t-1.1235\td", "",
    ]  # fmt: skip
    assert counts == {"translated": 2, "too long": 1}
    with_source = rendered(format=TSV, on_error=EMPTY, with_source=True).content.decode()
    assert with_source.split("\n")[0] == "11\t-0.1235\teins\tone and"
    assert with_source.split("\n")[2] == "12\t\tzwei x\t"
    assert with_source.split("\n")[3] == "13\t-0.1235\tüber \ta b c"


def test_objects():
    content, _ = rendered(format=JSONL, on_error=EMPTY, with_source=True)
    first, second, third = map(json.loads, content.decode().splitlines())
    hypotheses = [{"text": "one\nand", "score": -0.1235}, {"text": "two", "score": -1.1235}]
    assert first == {"line": 11, "source": "eins", "hypotheses": hypotheses}
    assert second == {"line": 12, "source": "zwei\tx", "hypotheses": [], "error": "too long"}
    assert third["source"] == "über\r"
    kept = rendered(format=JSONL, on_error=KEEP_SOURCE).content.decode().splitlines()[1]
    assert json.loads(kept)["hypotheses"] == [{"text": "zwei\tx"}]


def test_bytes_that_are_no_text():
    chunk = Chunk(0, 0, b"a\xffb\n")
    options = dict(chunk=chunk, results=[TOO_LONG], on_error=KEEP_SOURCE)
    assert rendered(**options).content == b"a\xffb\n"
    assert rendered(format=TSV, **options).content == b"1\t\ta\xffb\n"
    (line,) = rendered(format=JSONL, **options).content.decode().splitlines()
    assert json.loads(line)["hypotheses"] == [{"text": "a\ufffdb"}]


def test_stop_names_the_line():
    with pytest.raises(UntranslatedLine, match="9 tokens, and 5 fit; with --on-error") as stopped:
        rendered()
    assert stopped.value.number == 11
    assert rendered(results=[RESULTS[0]] * 3).counts == {"translated": 3}


def test_filters_leave_lines_out_and_count_them():
    filters = Filters(drop_empty=True, longer_a=0.5, longer_b=0.6)
    results = [outcome("one two", "x"), outcome("one two three"), outcome("", "x")]
    content, counts = rendered(format=TSV, results=results, filters=filters)
    assert content.decode().split("\n") == ["11\t-0.1235\tone two", "11\t-1.1235\tx", ""]
    assert counts == {"translated": 1, "left out: too long": 1, "left out: empty": 1}


def test_plain_is_the_default():
    assert OutputRules().format == PLAIN
