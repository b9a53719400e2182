"""Texts with inline tags are translated whole, and the tags are carried over."""

import html

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.translating import markup
from fairseq_fastdec.translating.inline_tags import runs
from fairseq_fastdec.translating.runs import MOST_TAGS, Run
from fairseq_fastdec.translating.tagged import TaggedText
from tests.support.documents import Parsed, content_of
from tests.support.split_text import split
from tests.support.word_translations import drawn_words, reversed_words


def runs_of(document):
    pieces = list(filter(None, runs(markup.split(document))))
    assert "".join(piece.source for piece in pieces) == document
    return pieces


def translated(document, translate):
    """A document, with the translations of its sentences and texts."""
    pieces = runs_of(document)
    parts = [split(piece.text, "en") for piece in pieces if piece.text is not None]
    found = [[*map(translate, part.sentences)] for part in parts]
    whole = [part.join(own.text for own in of_part) for part, of_part in zip(parts, found)]
    *_, joined = TaggedText(pieces, parts).joined(own for of_part in found for own in of_part)
    return joined, whole


@pytest.mark.parametrize(
    "document, expected",
    [
        ("<p>one <b>two</b> three</p>", "<p>THREE <b>TWO</b> ONE</p>"),
        ("one <a href='?a&amp;b'>two three</a> four", "FOUR <a href='?a&amp;b'>THREE TWO</a> ONE"),
        ("<b>one</b> two", "TWO <b>ONE</b>"),
        ("<p><b>one <i>two</i></b> three</p>", "<p>THREE <b><i>TWO</i> ONE</b></p>"),
        ("one<b> two</b>", "<b>TWO</b> ONE"),
        ("one <img src=x> two", "<img src=x>TWO ONE"),
        ("one <b></b>two", "<b></b>TWO ONE"),
        ("a &lt; <b>b &amp; c</b>", "<b>C &amp; B</b> &lt; A"),
        # The text that it would have without tags, also where it has no letters.
        ("1. <b>one</b>!", "1. <b>ONE!</b>"),
        ("<p> 1 <b>one</b>,</p>", "<p> <b>ONE,</b> 1</p>"),
        ("<b>1 <i>one</i></b> two <u>3", "TWO <b><i>ONE</i> 1</b> <u>3"),
        # These are no inline tags, or not of whole elements.
        ("one<br>two <b>three</b>", "ONE<br><b>THREE</b> TWO"),
        ("one <b>two", "ONE <b>TWO"),
        ("one <b>two <i>three</b> four</i>", "ONE <b>TWO <i>THREE</b> FOUR</i>"),
        ("<b>one</b>", "<b>ONE</b>"),
        ("one <code>x</code> two", "ONE <code>x</code> TWO"),
        ("one <b translate=no>x</b> two", "ONE <b translate=no>x</b> TWO"),
        ("<pre>one <b>two</b></pre>", "<pre>ONE <b>TWO</b></pre>"),
        ("one <!-- x --> <b>two</b>", "ONE <!-- x --> <b>TWO</b>"),
    ],
)
def test_documents(document, expected):
    assert translated(document, reversed_words)[0] == expected


def test_elements_over_several_sentences():
    document = "<p>One two. <b>Three four. Five</b> six.</p>"
    found, _ = translated(document, reversed_words)
    assert found == "<p>TWO. ONE <b>FOUR. THREE</b> SIX. <b>FIVE</b></p>"


def test_too_many_tags():
    document = "a " + "<b>b</b> " * (MOST_TAGS // 2 + 1)
    assert not any(isinstance(piece, Run) for piece in runs_of(document))


WORDS = st.text("abcé &<>.", min_size=1, max_size=6).map(html.escape)


@settings(max_examples=300, deadline=None)
@given(content=content_of(WORDS), data=st.data())
def test_any_alignment_gives_well_formed_documents(content, data):
    """They have the text of the translations, and all tags."""

    def translate(sentence):
        return drawn_words(data, sentence, "xyZé,.<&")

    document = f"<p>one {content} two</p>"
    found, whole = translated(document, translate)
    before, after = Parsed(document), Parsed(found)
    assert after.tags == before.tags
    if len(whole) == 1:
        assert after.text.replace("\xa0", " ") == whole[0].replace("\xa0", " ")
