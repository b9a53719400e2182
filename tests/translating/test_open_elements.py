"""Which elements contain a text, as browsers see it: tags that are left out, wrong or nested."""

import re

import pytest

from fairseq_fastdec.translating import markup, open_elements


def translated(document):
    """The words of a document that are translated."""
    pieces = filter(None, markup.split(document))
    return re.findall(r"\w+", " ".join(piece.text for piece in pieces if piece.text is not None))


@pytest.mark.parametrize(
    "document",
    [
        # The issue's.
        "<ul><li class=notranslate>a<li>B</ul>",
        "<p translate=no>a<div>B</div>",
        '<svg translate="no"/>B',
        # Start tags that end other elements.
        "<ol><li translate=no>a<ul><li>b</ul>c<li>D</ol>",
        "<dl><dt translate=no>a<dd>B<dd translate=no>c<div><dt>D</dl>",
        "<p translate=no>a<h2 translate=no>b<h3>C</h3>",
        "<select><optgroup translate=no><option>a<optgroup><option translate=no>b<option>C",
        "<select translate=no><option>a<hr>b<input>C",
        "<ruby>A<rt translate=no>b<rp>C<rt translate=no>d<rb>E</ruby>",
        "<rt translate=no>a<rt>b</rt></rt>C",
        "<button translate=no>a<button>B</button>",
        "<a translate=no>a<a>B</a>",
        "<nobr translate=no>a<nobr>B",
        "<head translate=no><title>a</title><p>B",
        "<head translate=no><title>a</title>B",
        "<form translate=no>a<form>b</form>C",
        "<table><caption translate=no>a<colgroup translate=no><tbody><tr><td>B</table>",
        "<table><thead translate=no><tr><th>a<tbody translate=no><tr><td>b<tfoot><tr><td>C</table>",
        "<table><tr translate=no><td>a<tr><td translate=no>b<td>C<td translate=no>d<th>E</table>",
        "<table translate=no><tr><td>a<table translate=yes><tr><td>B</table>c</table>D",
        "<table translate=no><table><tr><td>B</table>",
        # End tags that end elements inside, and those that do not.
        "<div><p translate=no>a</div>B",
        "<div><span translate=no>a</div>B",
        "<ul><li translate=no>a</ul>B",
        "<h1 translate=no>a</h2>B",
        "<table><tr><td translate=no>a</table>B",
        "<table><tr><td translate=no>a</tr><tr><td>B</table>",
        "<span translate=no>a<div>b</span>c</div>d</span>E",
        "<p translate=no>a<button><p>b</button>c</p>D",
        "<div translate=no>a<table><tr><td>b</div>c</table>d</div>E",
        "<li translate=no>a<ul></li>b</ul>c</li>D",
        "<b translate=no>a<table><tr><td>b</b>c</table>d</b>E",
        "<body translate=no>a</body>b",
        "<object><p translate=no>a</object>B",
        "<template><p translate=no>a</template>B",
        "</p></li></table></b></html>A",
        # Formatting goes on where another element ends, until its end tag.
        "<p><b translate=no>a<p>b</b>C",
        "<p><code>a<p>b</code>C",
        "<b translate=no>a<p>b</b>C",
        "<p><i><b translate=no>a</p>b</b>C</i>",
        "<b translate=no><span translate=no><p>a</b>B",
        "<table><tr><td><b translate=no>a<td>B</table>",
        "<p><b translate=no>a<table><tr><td>B</table>c</b>D",
        "<b translate=no><b>a</b>b</b>C",
        # Elements without content, and with content that is no markup.
        "<br translate=no>A<img translate=no>B<input translate=no>C<wbr translate=no>D",
        "<title translate=no>a<b></title>B",
        "<textarea>A<br translate='no'></textarea>B",
        "<iframe><p translate=no></iframe>B",
        "<xmp>a</p></xmp>B",
        "A<plaintext translate=yes>b</plaintext>c",
        # SVG and MathML.
        "<svg><g translate=no/>A<g translate=no>b</svg>C",
        "<svg translate=no>a<p>B",
        "<svg translate=no><foreignObject><p>a</svg>b</p></foreignObject></svg>C",
        "<svg><style/>A</svg><svg><title translate=no>b</title>C</svg>",
        "<svg><![CDATA[a>b]]>C</svg>",
        "<math translate=no><mi>a</math>B",
        "<div translate='no'/>a</div>B",
        # Attributes.
        "<p translate=no translate=yes>a",
        "<p translate=no>a<i translate>B</i><i translate=''>C</i><i translate=maybe>d</i>",
        "<p class='a'translate=no>a",
        "<p title='x' TRANSLATE=NO>a<p CLASS='x\nNoTranslate'>b",
        "<p x=translate=no>A<p x='y' = translate=no>b",
        "<a href=x?translate=no>A<a title='translate=no'>B<a data-translate=no>C",
        "<p translate = no>a</p title='>'>B",
    ],
)  # fmt: skip
def test_upper_case_is_translated(document):
    words = [word for word in translated(document) if len(word) == 1]
    assert words == re.findall(r"(?<![\w<='/-])[A-Z](?![\w])", document)


@pytest.mark.parametrize("inner", sorted(open_elements.CLOSED_BY))
def test_elements_that_end_a_paragraph(inner):
    is_so = open_elements.P in open_elements.CLOSED_BY[inner]
    if inner in open_elements.VOID:
        document = f"<p translate=no>a<{inner}>B"
        assert translated(document) == (["B"] if is_so else [])
    elif inner not in ("plaintext", "xmp", "table") and is_so:
        assert translated(f"<p translate=no>a<{inner}>B") == ["B"]
        assert translated(f"<p translate=no>a<span><{inner}>B") == ["B"]
        assert translated(f"<p translate=no>a<object><{inner}>b") == []


@pytest.mark.parametrize("tag", sorted(open_elements.VOID))
def test_elements_without_an_end_tag(tag):
    assert translated(f"<div><{tag} translate=no>A</div>") == ["A"]
