"""Texts come back whole: sentences are translated, and what is between them stays."""

import asyncio
import random
from itertools import repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.serving import texts
from tests.support.split_text import split

ODD = st.text(st.sampled_from("aB .!?\n\r\t\0\u2028\x85\u00a0«»\"')(。！？؟ابשЖ漢😀1"), max_size=60)


@settings(max_examples=200)
@given(st.one_of(ODD, st.text(max_size=80)), st.sampled_from(["en", "ar", "zh", "xx", "", "pt_BR"]))
def test_a_text_is_its_sentences_and_separators(text, language):
    parts = split(text, language)
    assert parts.join(parts.sentences) == text
    assert all(sentence == sentence.strip() != "" for sentence in parts.sentences)
    letters = [char for separator in parts.separators for char in separator if char.isalpha()]
    assert letters == []


@pytest.mark.parametrize(
    "text, sentences",
    [
        ("Mr. Smith came. He saw!", ["Mr. Smith came.", "He saw!"]),
        ("One\n\ntwo\r\n  three ", ["One", "two", "three"]),
        ("Thanks.\t\n\nNew", ["Thanks.", "New"]),
        ("今天很好。明天呢？", ["今天很好。", "明天呢？"]),
        ("…\n12\n😀", []),
        ("", []),
    ],
)
def test_sentences(text, sentences):
    assert split(text, "en").sentences == sentences


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize(
    "part",
    ["Mr. Smith came. He saw! ", "今天很好。明天呢？", "word ", "x", "日本語", "e\u0301",
     "a" * 600 + " ", "a" * 300 + " " * 700, "a. " + "b" * 999, "\u3000。a", "ab" + " " * 5000,
     "\ufeffa. ", '"a. '],
)  # fmt: skip
def test_long_sentences_are_cut(part, language):
    text = part * (20_000 // len(part))
    parts = split(text, language)
    assert parts.join(parts.sentences) == text
    assert max(map(len, parts.sentences)) <= texts.MOST_CHARS
    assert len(parts.sentences) <= 2 * text.count(part) + 2 * len(text) // texts.MOST_CHARS
    letters = [char for separator in parts.separators for char in separator if char.isalpha()]
    assert letters == []


def test_long_sentences_are_cut_at_white_space():
    sentence = "A sentence without an end " * 200
    found = split(sentence, "en").sentences
    assert " ".join(found) == sentence.strip()
    assert all(len(part) > texts.MOST_CHARS - 10 for part in found[:-1])


def test_long_lines_have_the_sentences_of_short_ones():
    lines = ["Mr. Smith came.", "He saw!", "The file, which is open, is e.g. a list.", "Save it?"]
    numbers = random.Random(1).choices(range(4), k=2000)
    sentences = [lines[number] for number in numbers]
    assert split(" ".join(sentences), "en").sentences == sentences


def run(given, translate, n=1, at_once=8):
    parts = [split(text, "en") for text in given]
    found, _ = asyncio.run(texts.translate_texts(parts, repeat({}), translate, n, at_once))
    return found


def test_alternatives_are_of_whole_texts():
    async def translate(sentence, own):
        return {"A.": ["a1", "a2", "a3"], "B.": ["b1"]}[sentence]

    found = run(["A.\n B. ", ""], translate, n=4)
    assert found == [["a1\n b1 ", "a2\n b1 ", "a3\n b1 ", "a3\n b1 "], [""] * 4]


@pytest.mark.parametrize(
    ("draft", "expected"),
    [
        ("Eins. Zwei.", [["Eins."], ["Zwei."]]),
        ("Eins.", [["Eins."], ["Eins."]]),
        ("Eins. Zwei. Drei. Vier.", [["Eins.", "Zwei."], ["Drei.", "Vier.", "Zwei."]]),
        ("x" * 1000, [None] * 2),
        ("", [None] * 2),
    ],
)
def test_sentences_have_the_drafts_of_their_places(draft, expected):
    """And those at the same relative place if there is another number of them."""
    parts = [split(text, "en") for text in ("One. Two.", "Three.")]
    drafts = [split(draft, "de"), split("Drei.", "de")]
    given = [own.get("draft") for own in texts.with_drafts(parts, drafts)]
    assert given == [*expected, ["Drei."]]


def test_constraints_are_of_one_sentence():
    parts = [split(text, "en") for text in ("One.", "Two. Three.", "Four.")]
    given = list(texts.with_constraints(parts, [["x"], [], []]))
    assert given == [{"constraints": ["x"]}, {}, {}, {}]
    assert list(texts.with_constraints(parts, [])) == [{}] * 4
    with pytest.raises(ValueError, match=r"^constraints: text 1 \(from 0\) has 2 sentences"):
        list(texts.with_constraints(parts, [["x"], ["x"], []]))
