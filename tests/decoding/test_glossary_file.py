"""Terms from a file, in fairseq's commands."""

import re

import pytest

from fairseq_fastdec.decoding.glossary_file import GlossaryFile
from tests.support import tiny
from tests.support.command_line import generate, hypotheses, interactive, numbered
from tests.support.compiled import compiled
from tests.support.text_files import write
from tests.support.to_read import compiled_method, method_to_read
from tests.support.trained_models import TASK, stock_model

WORDS = TASK.target_dictionary
# The models reverse sentences; these tokens are not what they would write.
TERMS = ["w1\tw7 w8", "w2 w3\tw9"]


def file_of(tmp_path, lines=TERMS):
    return str(write(tmp_path / "terms.tsv", lines))


def numbers(text):
    return [WORDS.index(word) for word in text.split()]


def test_terms_are_found_in_padded_sources(tmp_path):
    own = GlossaryFile(file_of(tmp_path), WORDS, WORDS)
    padding, end = [WORDS.pad()] * 2, [WORDS.eos()]
    sources = [numbers("w5 w2 w3 w1") + end, padding + numbers("w3 w2") + end]
    assert own.constraints_of(sources) == [[numbers("w9"), numbers("w7 w8")], []]


def test_terms_and_their_translations_are_text(tmp_path):
    """With the task's tokeniser and BPE."""
    own = GlossaryFile(file_of(tmp_path, ["w1w2\tw7-w8"]), WORDS, WORDS)
    own.plain = lambda text: text.replace(" ", "")
    own.segmented = lambda text: text.replace("-", " ")
    assert own.constraints_of([numbers("w1 w2")]) == [[numbers("w7 w8")]]
    own = GlossaryFile(file_of(tmp_path, ["w1\tunheard"]), WORDS, WORDS)
    message = "--glossary .*terms.tsv: the translation 'unheard': the model's vocabulary lacks"
    with pytest.raises(ValueError, match=message):
        own.constraints_of([numbers("w1")])


@compiled
@pytest.mark.parametrize("make", [method_to_read, compiled_method])
def test_outputs_contain_the_translations_of_their_terms(make, tmp_path):
    models, path = [stock_model()], file_of(tmp_path)
    sample = tiny.random_batch(TASK, [6, 4, 7, 3, 8, 5, 9, 2], seed=3)
    given = make(models, "beam", dict(glossary=path), beam=4).generate(models, sample)
    plain = make(models, "beam", beam=4).generate(models, sample)
    n_with_terms = 0
    for row, own, without in zip(sample["net_input"]["src_tokens"].tolist(), given, plain):
        source = " ".join(WORDS[token] for token in row if token >= WORDS.nspecial)
        wanted = [
            translation
            for term, translation in (line.split("\t") for line in TERMS)
            if re.search(rf"\b{term}\b", source)
        ]
        n_with_terms += bool(wanted)
        for one in own:
            output = " ".join(WORDS[token] for token in one["tokens"].tolist())
            assert all(re.search(rf"\b{phrase}\b", output) for phrase in wanted)
        if not wanted:
            assert [one["tokens"].tolist() for one in own] == [
                one["tokens"].tolist() for one in without
            ]
    assert 0 < n_with_terms < 8


@pytest.mark.parametrize(
    "method, options, message",
    [
        ({}, dict(constraints="ordered"), "its terms have no order"),
        ({}, dict(sampling=True), "not possible with --decoding beam"),
        ({}, dict(match_source_len=True), "not possible with --decoding beam"),
        (dict(prune_threshold=1.0), {}, "not possible with --decoding beam"),
        (dict(decoding="streaming"), {}, "does not apply to --decoding streaming"),
        (dict(decoding="greedy"), {}, "does not apply to --decoding greedy"),
    ],
)
def test_searches_without_constraints(method, options, message, tmp_path):
    method = {"glossary": file_of(tmp_path), **method}
    decoding = method.pop("decoding", "beam")
    with pytest.raises(ValueError, match=f"--glossary .*terms.tsv: {message}"):
        compiled_method([stock_model()], decoding, method, **options)


@pytest.mark.parametrize("lines, message", [(None, "No such file"), (["a b"], "line 1: 1 columns")])
def test_files_that_cannot_be_read(lines, message, tmp_path):
    path = str(tmp_path / "missing") if lines is None else file_of(tmp_path, lines)
    with pytest.raises(ValueError, match=message):
        GlossaryFile(path, WORDS, WORDS)


def test_in_fairseqs_commands(corpus, baseline, tmp_path):
    """Terms are plain text, as the task's BPE reads and writes it."""
    codes = write(tmp_path / "codes", ["#version: 0.2", "a b</w>"])
    options = ["--decoding", "beam", "--beam", 3, "--bpe", "subword_nmt", "--bpe-codes", codes]
    options += ["--glossary", file_of(tmp_path, ["d\tj", "e\ti j\ten-xx"])]
    found = numbered(
        "D", interactive(corpus, baseline, ["a b c", "a d c", "e"], tmp_path, *options)
    )
    assert "j" not in found[0].split() and "j" in found[1].split()
    # A term of other languages.
    assert "i j" not in found[2]
    printed = generate(corpus, baseline, *options)
    sources, outputs = numbered_sources(printed), hypotheses(printed)
    with_term = [number for number, source in sources.items() if "d" in source.split()]
    assert with_term and all("j" in outputs[number].split() for number in with_term)


def numbered_sources(printed):
    return {int(n): text for n, text in re.findall(r"(?m)^S-(\d+)\t(.*)$", printed)}
