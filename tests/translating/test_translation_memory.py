"""Drafts from sentences that were translated before."""

import gc
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fairseq_fastdec
from examples.common.en_de import MODEL
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.translating.text import numbers_of
from fairseq_fastdec.translating.translation_memory import TranslationMemory, trigrams_of
from tests.support.command_line import generate, hypotheses
from tests.support.text_files import write
from tests.support.trained_models import TASK

WORDS = TASK.target_dictionary
SOURCES = ["a b c d e", "f g h", "a b c d f", "j"]
TARGETS = ["a", "b", "c", "d"]


# Letters stand for the words of the dictionary.
WORD_OF = dict(zip("abcdefghij", WORDS.symbols[WORDS.nspecial :]))
LETTER_OF = {word: letter for letter, word in WORD_OF.items()}


def in_words(text):
    return " ".join(WORD_OF[letter] for letter in text.split())


def memory(tmp_path, sources=SOURCES, targets=TARGETS):
    files = (
        write(tmp_path / "old.en", map(in_words, sources)),
        write(tmp_path / "old.de", map(in_words, targets)),
    )
    words = (TASK.source_dictionary, WORDS)
    tokens = (lambda text, own=own: numbers_of(own, text.split()) for own in words)
    return TranslationMemory(*map(str, files), *tokens)


def draft(own, text):
    """What is found for a text."""
    source = own.draft(numbers_of(TASK.source_dictionary, in_words(text).split()))
    words = WORDS.string(source, include_eos=True).split()
    return " ".join(LETTER_OF.get(word, word) for word in words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f g h", "b </s>"),
        ("a b c d e", "a </s> c </s>"),
        ("a b c d", "c </s> a </s>"),
        ("j", "d </s>"),
        ("i", ""),
        ("h g f", ""),
    ],
)
def test_the_most_similar_sentences(tmp_path, text, expected):
    assert draft(memory(tmp_path), text) == expected


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=8), min_size=1, max_size=12))
def test_each_sentence_finds_itself(tmp_path_factory, sources):
    """Or a later one that is equal."""
    lines = [" ".join(words) for words in sources]
    own = memory(tmp_path_factory.mktemp("memory"), lines, [str(line or "j") for line in lines])
    for line in filter(None, lines):
        assert draft(own, line).split(" </s>")[0] == line


def test_the_index_is_kept(tmp_path, caplog):
    with caplog.at_level("INFO"):
        assert draft(memory(tmp_path), "f g h") == draft(memory(tmp_path), "f g h")
    assert caplog.text.count("building an index") == 1
    (folder,) = tmp_path.glob("*.memory-*")
    assert folder.name.startswith("old.de.")
    # Other subwords, or another text, have another index.
    other = memory(tmp_path)
    other.segmented = lambda line: line.replace(WORD_OF["f"], WORD_OF["e"])
    assert draft(other, "e g h") == "b </s>"
    assert draft(memory(tmp_path, SOURCES[::-1]), "j") == "a </s>"
    assert len(list(tmp_path.glob("*.memory-*"))) == 3


def test_an_empty_memory(tmp_path):
    assert draft(memory(tmp_path, [], []), "a b") == ""


def test_a_directory_that_cannot_be_written_to(tmp_path, monkeypatch):
    own = memory(tmp_path)
    monkeypatch.setattr(np, "save", lambda *arguments: (_ for _ in ()).throw(OSError(30, "no")))
    with pytest.raises(ValueError, match="its index cannot be written next to it"):
        draft(own, "a b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.de", "old.en"]


def test_files_that_do_not_go_together(tmp_path):
    with pytest.raises(ValueError, match="has 4 lines, but --memory-target .* has 1; give"):
        memory(tmp_path, targets=["a"])
    with pytest.raises(ValueError, match="--memory-source nowhere: cannot be read"):
        TranslationMemory("nowhere", "nowhere", str.split, str.split)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(memory_source="a"), "has no effect without --memory-target"),
        (dict(memory_target="a"), "has no effect without --memory-source"),
        (dict(memory_source="a", memory_target="b", draft_file="c"), "cannot be combined"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(ValueError, match=message):
        DecodingOptions(decoding="greedy", **options).check()


def test_trigrams_differ():
    pairs = {tuple(trigrams_of([a, b, 2])) for a in range(30) for b in range(30)}
    assert len(pairs) == 900
    assert trigrams_of([2]).shape == (1,)


def test_in_fairseq_generate(corpus, baseline, tmp_path, caplog):
    printed = generate(corpus, baseline, "--decoding", "greedy")
    sources = dict(re.findall(r"(?m)^S-(\d+)\t(.*)$", printed))
    outputs = hypotheses(printed)
    old = write(tmp_path / "old.en", sources.values())
    new = write(tmp_path / "old.de", [outputs[int(number)] for number in sources])
    with caplog.at_level("INFO"):
        again = generate(
            corpus, baseline, "--decoding", "greedy", "--memory-source", old, "--memory-target",
            new,
        )  # fmt: skip
    assert hypotheses(again) == outputs
    gc.collect()
    ((n_right, n),) = re.findall(r"(\d+) of (\d+) tokens of drafts accepted", caplog.text)
    # Some sentences are in the set twice, and have two drafts.
    assert int(n) >= int(n_right) > 0.9 * int(n) > 500


def test_in_calls_from_python(tmp_path):
    lines = Path("examples/en_de/data/test.en").read_text(encoding="utf-8").splitlines()[:20]
    translator = fairseq_fastdec.load(MODEL)
    expected = translator.translate(lines)
    files = write(tmp_path / "old.en", lines), write(tmp_path / "old.de", expected)
    options = dict(zip(("memory_source", "memory_target"), map(str, files)))
    assert translator.translate(lines, **options) == expected
    assert [translator.translate(line, **options) for line in lines[:5]] == expected[:5]
    generator = translator.built({"decoding": "greedy", **options})
    (batch,) = translator.of_pair().batches.of(
        generator, [torch.tensor(translator.codec.encode(lines[0]))], 1, None
    )
    generator.generate(translator.models, batch)
    assert generator.statistics.row_invocations <= 2
