"""Markup keeps its bytes, and text is translated."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_fastdec.translating import markup

TOOT = (
    '<p>Hello <span class="h-card" translate="no"><a href="https://a.example/@bob" '
    'class="u-url mention">@<span>bob</span></a></span>!<br />Look: '
    '<a href="https://b.example/?x=1&amp;y=2" rel="nofollow"><span class="invisible">https://'
    "</span><span>b.example</span></a></p><p>Bye &amp; <i>thanks</i> &#x1F600;</p>"
)


def pieces_of(document):
    return list(filter(None, markup.split(document)))


def upper(document):
    pieces = pieces_of(document)
    assert "".join(piece.source for piece in pieces) == document
    texts = (piece.text.upper() for piece in pieces if piece.text is not None)
    return "".join(markup.join(pieces, texts))


def test_a_post_of_mastodon():
    changed = TOOT
    for old in ("Hello", "Look:", "https://<", ">b.example", "Bye ", "thanks"):
        changed = changed.replace(old, old.upper())
    assert upper(TOOT) == changed


@pytest.mark.parametrize(
    "document, expected",
    [
        ("a &lt; b &amp; c", "A &lt; B &amp; C"),
        ("caf&eacute; &nbsp; x", "CAFÉ &nbsp; X"),
        ("1 &lt; 2 <b>&copy;</b>", "1 &lt; 2 <b>&copy;</b>"),
        ("a < b", "A &lt; B"),
        ("<p>one\n  two</p>\n", "<p>ONE TWO</p>\n"),
        ("<pre>one\n  two</pre>", "<pre>ONE\n  TWO</pre>"),
        ("<!-- a --><!DOCTYPE html><?b?>c", "<!-- a --><!DOCTYPE html><?b?>C"),
        ("<!-->a<!-- b > -- >c-->d", "<!-->A<!-- b > -- >c-->D"),
        ("<script>a<b</b></script >c", "<script>a<b</b></script >C"),
        ("<STYLE>a</style>b<code>c<i>d</i></code>e", "<STYLE>a</style>B<code>c<i>d</i></code>E"),
        ("<p translate=no>a<b translate='yes'>c</b>d</p>e",
         "<p translate=no>a<b translate='yes'>C</b>d</p>E"),
        ('<p class="x notranslate">a</p>b', '<p class="x notranslate">a</p>B'),
        ("<p translate=no>a<br>b<img src=x>c</p>d", "<p translate=no>a<br>b<img src=x>c</p>D"),
        ("<r translate=no>a<br>b</r>c", "<r translate=no>a<br>b</r>C"),
        ("<p translate=no></b>a</p>b", "<p translate=no></b>a</p>B"),
        ('<a title="x>y" href=\'>\'>z</a>', '<a title="x>y" href=\'>\'>Z</a>'),
        ("<a title=it's>z</a> it's", "<a title=it's>Z</a> IT'S"),
        ("a <b c", "A <b c"),
        ("", ""),
    ],
)  # fmt: skip
def test_documents(document, expected):
    assert upper(document) == expected


@settings(max_examples=200)
@given(st.text(st.sampled_from("<>/!-?&;\"'= \nab#xp"), max_size=60))
def test_sources_together_are_the_document(document):
    assert "".join(piece.source for piece in pieces_of(document)) == document


WORD = st.text("ab éЖ&<>\"'", min_size=1, max_size=8)
ELEMENT = st.sampled_from(["p", "b", "a href='?x=1&amp;y=<'", 'i title="Fish > chips"', "br/"])


@settings(max_examples=100)
@given(st.lists(st.tuples(ELEMENT, WORD), max_size=8))
def test_the_structure_stays(parts):
    """With a translation that changes letters alone, each place without text is as before."""

    def document(change):
        return "".join(
            f"<{tag}>{markup.escaped(change(text))}</{tag.split()[0]}>" for tag, text in parts
        )

    assert upper(document(str)) == document(lambda text: text.upper())
