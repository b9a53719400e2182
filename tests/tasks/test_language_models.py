"""``--lm-path``: a language model in fairseq's commands."""

import shutil

import pytest

from tests.support import command_line, stock_commands

WEIGHT = 0.8
# Without the plugin, fairseq drops the last batch if it is smaller than this multiple.
OPTIONS = ["-s", "en", "-t", "de", "--batch-size", 7, "--required-batch-size-multiple", 1]


def lines_of(mark, printed):
    return [line.split() for line in printed.splitlines() if line.startswith(f"{mark}-")]


def assert_similar(lines, expected):
    """The same tokens, and scores up to rounding."""
    for line, other in zip(lines, expected, strict=True):
        for word, wanted in zip(line, other, strict=True):
            if "." in wanted:
                assert float(word) == pytest.approx(float(wanted), abs=5e-4)
            else:
                assert word == wanted


@pytest.mark.parametrize("weight", [WEIGHT, -0.3])
def test_fairseq_generate(language_model, baseline, weight):
    data, lm = language_model
    given = [*OPTIONS, "--lm-path", lm, "--beam", 3, "--nbest", 3]
    theirs = stock_commands.generate(data, baseline, *given, "--lm-weight", weight)
    ours = [
        command_line.generate(data, baseline, *given, "--lm-weight", weight, "--decoding", method)
        for method in ("beam", "fairseq")
    ]
    for mark in "HP":
        expected = lines_of(mark, theirs)
        assert len(expected) == 3 * 29
        for printed in ours:
            assert_similar(lines_of(mark, printed), expected)
    without = command_line.generate(data, baseline, *given, "--decoding", "beam")
    assert command_line.hypotheses(without) != command_line.hypotheses(ours[0])


def test_fairseq_interactive(language_model, corpus, baseline, tmp_path):
    """fairseq's own command loads no language model, and needs no dictionary for it."""
    data, lm = language_model
    lines = ["a b c", "d e", "f g h i"]
    given = ["--lm-weight", WEIGHT, "--lm-path", lm]
    printed = [
        command_line.interactive(corpus, baseline, lines, tmp_path, "--decoding", method, *given)
        for method in ("greedy", "fairseq")
    ]
    draft = tmp_path / "test"
    for side in ("en", "de"):
        text = "".join(f"{line}\n" for line in lines)
        draft.with_suffix(f".{side}").write_text(text, encoding="utf-8")
    command_line.preprocess(
        "-s", "en", "-t", "de", "--destdir", tmp_path / "bin", "--testpref", draft,
        "--srcdict", corpus / "dict.en.txt", "--tgtdict", corpus / "dict.de.txt",
    )  # fmt: skip
    shutil.copy(data / "dict.txt", tmp_path / "bin")
    expected = command_line.generate(tmp_path / "bin", baseline, *OPTIONS, *given, "--beam", 1)
    assert command_line.hypotheses(printed[0]) == command_line.hypotheses(expected)
    assert command_line.hypotheses(printed[1]) != command_line.hypotheses(expected)


@pytest.mark.parametrize(
    "method, options, message",
    [
        ("lookahead", [], "^--lm-weight: not possible with --decoding lookahead; .*beam$"),
        ("jacobi", [], "^--lm-weight: not possible with --decoding jacobi; .*--decoding beam$"),
    ],
)
def test_methods_without(language_model, baseline, method, options, message):
    data, lm = language_model
    with pytest.raises(ValueError, match=message):
        given = ["--lm-path", lm, "--lm-weight", WEIGHT, "--decoding", method, *options]
        command_line.generate(data, baseline, *OPTIONS, *given)


def test_a_weight_without_a_model(corpus, baseline):
    message = "^--lm-weight 0.8: has no effect without --lm-path; give both$"
    with pytest.raises(ValueError, match=message):
        command_line.generate(corpus, baseline, "--decoding", "beam", "--lm-weight", WEIGHT)


def test_another_dictionary(language_model, baseline, tmp_path):
    """Of the same size, which fairseq would not notice."""
    data, lm = language_model
    shutil.copytree(data, tmp_path / "bin")
    lines = (data / "dict.txt").read_text().splitlines()
    (tmp_path / "bin/dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:], ""]))
    first, second = (line.split()[0] for line in lines[:2])
    message = (
        f"^--lm-path {lm}: the model's dictionary is not the target's: type 4 is {second}, not "
        f"{first}; give one that was trained with the target dictionary$"
    )
    with pytest.raises(ValueError, match=message):
        given = ["--lm-path", lm, "--lm-weight", WEIGHT, "--decoding", "beam"]
        command_line.generate(tmp_path / "bin", baseline, *OPTIONS, *given)
