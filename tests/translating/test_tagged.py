"""``translate(..., tags=)``: texts with tags or placeholders from Python."""

import re
from pathlib import Path

import pytest

import fairseq_fastdec
from fairseq_fastdec.translating.results import SentenceError

MODEL = Path(__file__).parents[2] / "examples" / "en_de" / "model"
TAG = re.compile(r"<[^>]*>")


@pytest.fixture(scope="module")
def translator():
    return fairseq_fastdec.load(str(MODEL))


@pytest.mark.parametrize("options", [{}, dict(decoding="beam", beam=3)])
def test_placeholders(translator, options):
    texts = ["The file {name} has %d pages.", "Open {0}.", "{0}", "", "Save the document!"]
    found = translator.translate(texts, tags="placeholders", **options)
    plain = ["The file has pages.", "Open.", "", "", "Save the document!"]
    expected = translator.translate(plain, **options)
    assert found[2:4] == ["{0}", ""] and found[4] == expected[4]
    for own, placeholders, text in zip(found, (["{name}", "%d"], ["{0}"]), expected):
        assert all(own.count(placeholder) == 1 for placeholder in placeholders)
        without = re.sub("|".join(map(re.escape, placeholders)), "", own)
        assert without.split() == text.split() or "".join(without.split()) == "".join(text.split())
    assert translator.translate(texts[0], tags="placeholders", **options) == found[0]


def test_html(translator):
    text = "Click the <b>Save</b> button &amp; close <a href='x'>the <i>document</i></a>."
    found = translator.translate(f"<p>{text}</p><p>Print it.</p>", tags="html")
    plain = ["Click the Save button & close the document.", "Print it."]
    first, second = translator.translate(plain)
    assert TAG.sub("", found) == first.replace("&", "&amp;") + second
    assert re.search("<b>Speichern[^<]*</b>", found)
    assert found.startswith("<p>") and found.endswith(f"</p><p>{second}</p>")


def test_a_glossary_applies(translator):
    given = dict(tags="placeholders", glossary={"editor": "Schreibprogramm"}, beam=5)
    found = translator.translate("Open the editor {0}.", decoding="beam", **given)
    assert "Schreibprogramm" in found and found.count("{0}") == 1


@pytest.mark.parametrize(
    "given, message",
    [
        (dict(tags="xml"), "tags 'xml': choose from html, placeholders"),
        (dict(details=True), "tags html: cannot be combined with details; remove one of them"),
        (dict(drafts="x"), "tags html: cannot be combined with drafts; remove one of them"),
        (dict(constraints="x"), "tags html: cannot be combined with constraints; remove one"),
        (dict(decoding="beam", nbest=2), "tags html: not with nbest 2; use nbest 1"),
    ],
)
def test_what_tags_exclude(translator, given, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        translator.translate("a", **{"tags": "html", **given})


def test_texts_that_fail(translator):
    long = "word " * 2000
    with pytest.raises(SentenceError) as raised:
        translator.translate([f"<p>{long}</p>", "Open <b>it</b>."], tags="html")
    assert list(raised.value.errors) == [0]
    assert raised.value.translations[0] is None
    assert TAG.sub("", raised.value.translations[1]) == translator.translate("Open it.")
