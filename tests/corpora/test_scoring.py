"""The command ``score``."""

import gzip
import io
import math
import sys

import pytest

import fairseq_fastdec
from fairseq_fastdec.corpora import scoring
from fairseq_fastdec.tools.export import export
from tests.support import command_line
from tests.support.compiled import compiled

SOURCES = ["a b c", "", "j i h g", "a a a a a a", "b"]
TARGETS = ["c b a", "a", "", "g h unknown", "c"]
LONG = " ".join("a" * 2000)


@pytest.fixture(scope="module")
def checkpoint(corpus, baseline):
    loaded = fairseq_fastdec.load(baseline, corpus)
    yield loaded
    loaded.close()


@pytest.fixture
def files(tmp_path):
    """A function that writes two texts, and returns the options that name them."""

    def write(sources=SOURCES, targets=TARGETS):
        given = []
        for name, lines in (("source", sources), ("target", targets)):
            text = "".join(f"{line}\n" for line in lines)
            (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
            given += [f"--{name}", str(tmp_path / name)]
        return given

    return write


def in_base_2(scores):
    return [f"{score / math.log(2):.4f}" for score in scores]


def test_scores(checkpoint, corpus, baseline, files, capsys, tmp_path):
    expected = in_base_2(checkpoint.score(SOURCES, TARGETS))
    words = [str(baseline), "--data", str(corpus), *files()]
    scoring.main(words)
    printed = capsys.readouterr()
    assert printed.out.splitlines() == expected
    assert printed.err.splitlines()[-1] == "5 scored"
    output = tmp_path / "scores.gz"
    scoring.main([*words, "--output", str(output)])
    with gzip.open(output, "rt") as file:
        assert file.read().splitlines() == expected


@compiled
def test_details_with_a_bundle(checkpoint, files, capsys, tmp_path):
    bundle = tmp_path / "model.fastdec"
    export(checkpoint, bundle)
    scoring.main([str(bundle), *files(), "--details"])
    found = checkpoint.score(SOURCES, TARGETS, details=True)
    expected = [
        "\t".join(
            [
                *in_base_2([own.score]),
                " ".join(in_base_2(own.positional_scores)),
                " ".join(own.tokens),
            ]
        )
        for own in found
    ]
    assert capsys.readouterr().out.splitlines() == expected
    with pytest.raises(SystemExit, match="^python .* score: --bpe: not possible with a bundle"):
        scoring.main([str(bundle), *files(), "--bpe", "none"])


def test_they_are_those_of_fairseq_generate(corpus, baseline, files, capsys, tmp_path):
    printed = command_line.generate(corpus, baseline, "--score-reference", "--task", "translation")
    columns = {
        kind: {
            int(line.split("\t")[0][2:]): line.split("\t")[1:]
            for line in printed.splitlines()
            if line.startswith(f"{kind}-")
        }
        for kind in "STH"
    }
    numbers = sorted(columns["H"])
    texts = [[" ".join(columns[kind][number]) for number in numbers] for kind in "ST"]
    scoring.main([str(baseline), "--data", str(corpus), *files(*texts)])
    found = [float(line) for line in capsys.readouterr().out.splitlines()]
    expected = [float(columns["H"][number][0]) for number in numbers]
    assert len(found) > 20 and found == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("n", [scoring.LINES_OF_A_STREAM, scoring.LINES_OF_A_STREAM + 1])
def test_several_chunks(checkpoint, monkeypatch, corpus, baseline, files, capsys, n):
    monkeypatch.setattr(scoring, "LINES_OF_A_STREAM", 2)
    scoring.main([str(baseline), "--data", str(corpus), *files()])
    assert capsys.readouterr().out.splitlines() == in_base_2(checkpoint.score(SOURCES, TARGETS))


def test_lines_that_cannot_be_scored(checkpoint, corpus, baseline, files, capsys):
    sources, targets = ["a", "\udcff", LONG, "a", "b"], ["b", "a", "a", LONG, "c"]
    words = [str(baseline), "--data", str(corpus), *files(sources, targets)]
    expected = in_base_2(checkpoint.score(["a", "b"], ["b", "c"]))
    with pytest.raises(SystemExit, match="line 2: not UTF-8: .*; --on-error empty cont") as end:
        scoring.main(words)
    assert end.value.code == 2 and capsys.readouterr().out == f"{expected[0]}\n"
    scoring.main([*words, "--on-error", "empty"])
    printed = capsys.readouterr()
    assert printed.out.split("\n") == [expected[0], "", "", "", expected[1], ""]
    assert printed.err.splitlines()[-1] == "2 scored, 1 not UTF-8, 2 too long"
    scoring.main([*words, "--on-error", "empty", "--details"])
    lines = capsys.readouterr().out.split("\n")
    assert [line.split("\t")[0] for line in lines] == [expected[0], "", "", "", expected[1], ""]


@pytest.mark.parametrize(
    "sources, targets, message",
    [
        (["a", "b"], ["a"], "--target .*target: has 1 lines, and --source .*source has more"),
        ([], ["a"], "--source .*source: has 0 lines, and --target .*target has more"),
    ],
)
def test_texts_of_different_lengths(corpus, baseline, files, sources, targets, message, tmp_path):
    words = [str(baseline), "--data", str(corpus), *files(sources, targets)]
    with pytest.raises(SystemExit, match=message) as end:
        scoring.main([*words, "--output", str(tmp_path / "scores")])
    assert end.value.code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_standard_input(checkpoint, corpus, baseline, files, capsys, monkeypatch):
    given = files()[:2]
    text = io.TextIOWrapper(io.BytesIO("".join(f"{own}\n" for own in TARGETS).encode()))
    monkeypatch.setattr(sys, "stdin", text)
    scoring.main([str(baseline), "--data", str(corpus), *given, "--target", "-"])
    assert capsys.readouterr().out.splitlines() == in_base_2(checkpoint.score(SOURCES, TARGETS))


@pytest.mark.parametrize(
    "given, message",
    [
        (["--source", "-", "--target", "-"], "--target -: --source is standard input already"),
        (["--source", "nowhere", "--target", "-"], "nowhere"),
        (["--source", "{0}", "--target", "{0}", "--output", "{0}"], "--output .*: is the input"),
    ],
)
def test_wrong_options(baseline, tmp_path, given, message):
    path = tmp_path / "text"
    path.write_text("a\n")
    with pytest.raises(SystemExit, match=message) as end:
        scoring.main([str(baseline), *(word.format(path) for word in given)])
    assert end.value.code == 2
    assert path.read_text() == "a\n"
