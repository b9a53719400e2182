"""``--print-alignment`` and ``--replace-unk`` in fairseq's commands, beside fairseq's generator."""

import re

import pytest

from tests.support.command_line import generate, hypotheses, interactive

MODELS = {
    "transformer": None,
    "transformer_align": (),
    "full context": ("--full-context-alignment",),
}
WAYS = {
    "greedy": ("--beam", 1, "--decoding", "greedy"),
    "beam": ("--beam", 4, "--nbest", 2, "--decoding", "beam"),
    "jacobi": ("--beam", 1, "--decoding", "jacobi"),
}


def printed_alignments(printed):
    """The H- and the A- lines by sentence number, best first."""
    found = {}
    for mark in "HA":
        for number, text in re.findall(rf"(?m)^{mark}-(\d+)\t(.*)$", printed):
            if mark == "H":
                text = text.partition("\t")[2]
            found.setdefault(int(number), {}).setdefault(mark, []).append(text)
    return found


@pytest.fixture(params=MODELS)
def model(request, corpus, baseline, aligned):
    options = MODELS[request.param]
    return (corpus, baseline) if options is None else aligned(*options)


@pytest.mark.parametrize("way", WAYS)
def test_hard_alignments_are_those_of_fairseq(model, way):
    data, checkpoint = model
    options = ("--print-alignment", "hard", "--batch-size", 7, *WAYS[way])
    ours = printed_alignments(generate(data, checkpoint, *options))
    stock = printed_alignments(generate(data, checkpoint, *options, "--decoding", "fairseq"))
    assert ours == stock and any(own["A"][0] for own in ours.values())


def test_soft_alignments_are_those_of_fairseq(model):
    data, checkpoint = model
    options = ("--print-alignment", "soft", *WAYS["beam"])
    ours = printed_alignments(generate(data, checkpoint, *options))
    stock = printed_alignments(generate(data, checkpoint, *options, "--decoding", "fairseq"))
    assert ours.keys() == stock.keys()
    for number, own in ours.items():
        assert own["H"] == stock[number]["H"]
        for mine, theirs in zip(own["A"], stock[number]["A"]):
            values, expected = (list(map(float, re.split("[ ,]", x))) for x in (mine, theirs))
            assert values == pytest.approx(expected, abs=2e-5)


def test_alignments_in_interactive(corpus, baseline, tmp_path):
    options = ("--print-alignment", "hard", "--beam", 2)
    lines = ["a b c", "j", "d e f g"]
    ours = interactive(corpus, baseline, lines, tmp_path, "--decoding", "beam", *options)
    stock = interactive(corpus, baseline, lines, tmp_path, *options)
    assert printed_alignments(ours) == printed_alignments(stock)


@pytest.mark.parametrize("kind", ["hard", None])
def test_unknown_words_are_replaced(corpus, baseline, tmp_path, kind):
    """With this penalty, all words are unknown."""
    lines, asked = ["a b c", "j i", "d e f g"], ("--print-alignment", "hard")
    words = ("--replace-unk", "--unkpen", -100, "--max-len-b", 3, "--beam", 1)
    given = (*words, *asked) if kind else words
    ours = interactive(corpus, baseline, lines, tmp_path, "--decoding", "greedy", *given)
    stock = interactive(corpus, baseline, lines, tmp_path, *words, *asked)
    assert hypotheses(ours) == hypotheses(stock)
    assert all(
        set(hypotheses(ours)[n].split()) <= set(line.split()) for n, line in enumerate(lines)
    )
    translated = (*words, "--decoding", "greedy", "--nbest", 1)
    table = tmp_path / "table"
    table.write_text("a A\nb B\nc C\n", encoding="utf-8")
    mapped = interactive(corpus, baseline, lines[:1], tmp_path, *translated, "--replace-unk", table)
    assert hypotheses(mapped)[0] == hypotheses(ours)[0].upper()
