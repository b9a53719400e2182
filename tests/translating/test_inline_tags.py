"""Texts with inline tags are translated whole, and the tags are carried over."""

import html
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.serving.texts import split
from fairseq_fastdec.translating import inline_tags, markup
from fairseq_fastdec.translating.inline_tags import MOST_TAGS, Run, runs, spans
from tests.support.word_translations import drawn_words, reversed_words


def runs_of(document):
    pieces = list(filter(None, runs(filter(None, markup.split(document)))))
    assert "".join(piece.source for piece in pieces) == document
    return pieces


def translated(document, translate):
    """A document, with the translations of its sentences and texts."""
    pieces = runs_of(document)
    texts = [piece.text for piece in pieces if piece.text is not None]
    found, whole = {}, []
    for text in texts:
        parts = parts_of(text)
        found.update((sentence, translate(sentence)) for sentence in parts.sentences)
        whole.append(parts.join(found[sentence].text for sentence in parts.sentences))
    return "".join(inline_tags.join(pieces, iter(whole), parts_of, found)), whole


def parts_of(text):
    return split(text, "en")


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


@pytest.mark.parametrize(
    "text, subwords, expected",
    [
        ("Don't stop.", ["Don", "&apos;t", "sto@@", "p", "."], ["Don", "'t", "sto", "p", "."]),
        ("a well-known", ["▁a", "▁well", "-", "know", "n"], ["a", "well", "-", "know", "n"]),
        ("x-y", ["x", "@-@", "y"], ["x", "-", "y"]),
        ("ab", ["?", "b"], ["", "b"]),
    ],
)
def test_places_of_subwords(text, subwords, expected):
    assert [text[start:end] for start, end in spans(text, subwords)] == expected


class Parsed(HTMLParser):
    """The text of a document, whose tags have to be those of whole elements."""

    def __init__(self, document):
        super().__init__(convert_charrefs=True)
        self.opened, self.tags, self.text = [], set(), ""
        self.feed(document)
        self.close()
        assert not self.opened

    def handle_starttag(self, tag, attributes):
        self.tags.add((tag, *attributes))
        if tag not in ("img", "wbr"):
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        self.text += data


NAMES = st.sampled_from(["b", "i", "a href='?x=1&amp;y'", "span class=c"])
WORDS = st.text("abcé &<>.", min_size=1, max_size=6).map(lambda text: html.escape(text))
CONTENT = st.recursive(
    WORDS | st.just("<img src=x>") | st.just(" "),
    lambda inner: st.lists(
        st.tuples(NAMES, st.lists(inner, max_size=3)).map(
            lambda own: f"<{own[0]}>{''.join(own[1])}</{own[0].split()[0]}>"
        )
        | inner,
        max_size=4,
    ).map("".join),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(content=CONTENT, data=st.data())
def test_any_alignment_gives_well_formed_documents(content, data):
    """They have the text of the translations, and all tags."""

    def translate(sentence):
        return drawn_words(data, sentence, "xyZé,.<&")

    known = {}
    document = f"<p>one {content} two</p>"
    found, whole = translated(
        document,
        lambda own: known.setdefault(own, None)
        or known.update({own: translate(own)})
        or known[own],
    )
    before, after = Parsed(document), Parsed(found)
    assert after.tags == before.tags
    if len(whole) == 1:
        assert after.text.replace("\xa0", " ") == whole[0].replace("\xa0", " ")
