"""``tags``: texts with tags or placeholders in calls of a translator."""

import asyncio
import html
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_fastdec.translating.errors import QueueFull
from fairseq_fastdec.translating.placeholders import PLACEHOLDER
from fairseq_fastdec.translating.results import Problem, SentenceError, Translation
from fairseq_fastdec.translating.runs import MOST_TAGS, Run
from fairseq_fastdec.translating.sentences import Sentence
from fairseq_fastdec.translating.tagged import KINDS, TaggedSentence, pieces_of
from tests.support.documents import Parsed, content_of
from tests.support.word_translations import drawn_words, reversed_words

TAG = re.compile(r"<[^>]*>")
BEAM = dict(decoding="beam", beam=3)


# --- without a model ------------------------------------------------------------------------------


def restored(document, translate=reversed_words, kinds=KINDS):
    own = TaggedSentence(Sentence(document), 0, kinds)
    (found,) = own.found([[translate(part.text)] for part in own.sentences])
    return found


@pytest.mark.parametrize(
    "document, expected",
    [
        ("<p>open <b>{name}</b>, %s files</p>", "<p><b>{name}</b> %s FILES OPEN,</p>"),
        ("{0} <b>new files</b>", "<b>FILES </b>{0} <b>NEW</b>"),
        ("<b>{0}</b> files &amp; more", "MORE &amp; <b>{0}</b> FILES"),
        ("one {a&lt;b} &#123;c}", "ONE {a&lt;b} {c}"),
        ("one <i>{na<b>me}</b></i>", "ONE <i>{name}<b></b></i>"),
        ("one<br>{0} <b>two</b>", "ONE<br>{0} <b>TWO</b>"),
        # No text to translate.
        ("<p>{name}&nbsp;<b>%d</b>\n</p>", "<p>{name}&nbsp;<b>%d</b>\n</p>"),
        ("one <code>{x} is</code> <b translate=no>{0}</b>", "ONE <code>{x} is</code> "
         "<b translate=no>{0}</b>"),
        # Separate texts.
        ("<pre>one\n<b>{0}</b> two {a}</pre>", "<pre>ONE\n<b>{0}</b> TWO {a}</pre>"),
        ("one {0} <b>two {1}", "ONE {0} <b>TWO {1}"),
    ],
)  # fmt: skip
def test_placeholders_in_html(document, expected):
    assert restored(document) == expected


PLACEHOLDERS = st.sampled_from(["{name}", "%s", "{{x}}", "%1$d", "${1}", "{", "}", "%"])
WORDS = st.text("abé &<>.{}%$s0", min_size=1, max_size=6) | PLACEHOLDERS


def visible(text):
    return "".join(text.split())


@settings(max_examples=400, deadline=None)
@given(content=content_of(WORDS.map(html.escape)), data=st.data())
@example(content="{<b>a</b>}<i>%</i>s", data=None)
def test_any_alignment_gives_well_formed_documents_with_each_placeholder(content, data):
    """They have the text of the translations, all tags, and all placeholders of the text."""

    def translate(sentence):
        return drawn_words(data, sentence, "xyZ,.&<") if data else reversed_words(sentence)

    document = f"<p>one {content} two</p>"
    own = TaggedSentence(Sentence(document), 0, KINDS)
    best = [[translate(part.text), translate(part.text)] for part in own.sentences]
    assert [PLACEHOLDER.search(part.text) for part in own.sentences] == [None]
    before = Parsed(document)
    wanted = PLACEHOLDER.findall(before.text)
    for found, translation in zip(own.found(best), best[0]):
        after = Parsed(found)
        assert after.tags == before.tags
        if not set("{}%$") & set(translation.text):
            assert sorted(PLACEHOLDER.findall(after.text)) == sorted(wanted)
            assert visible(PLACEHOLDER.sub("", after.text)) == visible(translation.text)


def test_html_with_many_placeholders():
    for document in ("a {0} " * (MOST_TAGS + 1), "<b>a</b> {0} " * (MOST_TAGS // 2)):
        pieces = [piece for piece in pieces_of(document, KINDS) if piece is not None]
        assert max(len(own.elements) for own in pieces if isinstance(own, Run)) <= MOST_TAGS
        assert "".join(piece.source for piece in pieces).replace(" ", "") == document.replace(
            " ", ""
        )
        assert restored(document).count("{0}") == document.count("{0}")


def test_alternatives_are_of_whole_texts():
    own = TaggedSentence(Sentence("<p>a</p><p>b</p>"), 0, ("html",))
    several = [[Translation("x"), Translation("y"), Translation("z")], [Translation("u")]]
    assert own.found(several) == ["<p>x</p><p>u</p>", "<p>y</p><p>u</p>", "<p>z</p><p>u</p>"]
    # Each has its own alignment.
    both = Translation("A B", "", ("A", "B"), (), ("one", "two"), [(0, 0), (1, 1)])
    own = TaggedSentence(Sentence("one <b>two</b>"), 0, ("html",))
    assert own.found([[reversed_words("one two"), both]]) == ["<b>TWO</b> ONE", "A <b>B</b>"]
    problem = Problem("too long", "9 tokens")
    assert own.found([problem]) is problem


# --- with a model ---------------------------------------------------------------------------------


@pytest.fixture(params=["translator", "bundle"])
def either(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("options", [{}, BEAM])
def test_placeholders(translator, options):
    texts = ["The file {name} has %d pages.", "Open {0}.", "{0}", "", "Save the document!"]
    found = translator.translate(texts, tags="placeholders", **options)
    plain = ["The file has pages.", "Open.", "", "", "Save the document!"]
    expected = translator.translate(plain, **options)
    assert found[2:4] == ["{0}", ""] and found[4] == expected[4]
    for own, placeholders, text in zip(found, (["{name}", "%d"], ["{0}"]), expected):
        assert all(own.count(placeholder) == 1 for placeholder in placeholders)
        without = re.sub("|".join(map(re.escape, placeholders)), "", own)
        assert without.split() == text.split() or visible(without) == visible(text)
    assert translator.translate(texts[0], tags="placeholders", **options) == found[0]


def test_html(translator):
    text = "Click the <b>Save</b> button &amp; close <a href='x'>the <i>document</i></a>."
    found = translator.translate(f"<p>{text}</p><p>Print it.</p>", tags="html")
    plain = ["Click the Save button & close the document.", "Print it."]
    first, second = translator.translate(plain)
    assert TAG.sub("", found) == first.replace("&", "&amp;") + second
    assert re.search("<b>Speichern[^<]*</b>", found)
    assert found.startswith("<p>") and found.endswith(f"</p><p>{second}</p>")


TEXTS = {
    "html": [
        "<p>Click the <b>Save</b> button.</p><p>Print it.</p>",
        "<br>",
        "",
        "Close <i>it</i>.",
    ],
    "placeholders": ["The file {name} has %d pages.", "{0}", "", "Open {0}."],
    KINDS: ["<p>Open <b>{name}</b>, %s files.</p><p>Print {0}.</p>", "<b>{0}</b>", "a < %s"],
}


@pytest.mark.parametrize("options", [{}, dict(nbest=2, **BEAM)], ids=["greedy", "nbest"])
@pytest.mark.parametrize("tags", TEXTS, ids=str)
def test_all_calls_have_the_same_results(either, tags, options):
    texts, given = TEXTS[tags], {"tags": tags, **options}
    expected = either.translate(texts, **given)
    assert [either.translate(text, **given) for text in texts] == expected

    async def several():
        return await asyncio.gather(*(either.translate_async(text, **given) for text in texts))

    assert asyncio.run(several()) == expected
    for in_order in (True, False):
        found = dict(either.translate_stream(iter(texts), in_order=in_order, **given))
        assert [found[number] for number in range(len(texts))] == [
            [*map(Translation, own)] if isinstance(own, list) else Translation(own)
            for own in expected
        ]


def test_nbest(translator):
    text, options = "The file {name} could not be <i>opened</i>.", dict(beam=6, nbest=6)
    found = translator.translate(text, tags=["html", "placeholders"], **options)
    plain = translator.translate("The file could not be opened.", **options)
    assert len(found) == len(plain) == 6
    for own, expected in zip(found, plain):
        Parsed(own)
        assert own.count("{name}") == 1
        assert visible(TAG.sub("", own).replace("{name}", "")) == visible(expected)


def test_glossaries_find_terms_in_the_text_without_tags(either):
    given = dict(glossary={"text editor": "Schreibprogramm"}, **BEAM)
    for text, tags in (("Open the text {0} editor.", "placeholders"),
                       ("Open the text <b>editor</b>.", "html"),
                       ("Open the <i>te</i>xt <b>{x} editor</b>.", KINDS)):  # fmt: skip
        found = either.translate(text, tags=tags, **given)
        assert "Schreibprogramm" in TAG.sub("", found)


def test_phrases(either):
    texts = ["Open the <b>editor</b> {0}.", "<p>Close it.</p><p>Open the editor.</p>"]
    wanted, unwanted = [["Schreibprogramm"], None], [None, "Editor"]
    given = dict(constraints=wanted, forbidden=unwanted, tags=KINDS, **BEAM)
    first, second = either.translate(texts, **given)
    assert "Schreibprogramm" in TAG.sub("", first) and first.count("{0}") == 1
    assert "Editor" not in second and "Editor" in either.translate(texts[1], tags=KINDS, **BEAM)
    found = [text.text for _, text in either.translate_stream(texts, **given)]
    assert found == [first, second]
    given |= dict(constraints=wanted[0], forbidden=None)
    assert asyncio.run(either.translate_async(texts[0], **given)) == first
    with pytest.raises(ValueError, match=r"^constraints: text 1 \(from 0\) has 2 sentences; give"):
        either.translate(texts, constraints=[None, "Editor"], tags=KINDS, **BEAM)


CANNOT = "cannot be combined with {}; remove one of them"


@pytest.mark.parametrize(
    "given, message",
    [
        (dict(tags="xml"), "tags 'xml': choose from html, placeholders"),
        (dict(tags=["html", "xml"]), "tags 'xml': choose from html, placeholders"),
        (dict(tags=[]), r"tags \[\]: choose from html, placeholders"),
        (dict(tags=1), "tags 1: choose from html, placeholders"),
        (dict(alignment="soft"), f"tags html: {CANNOT.format('alignment')}"),
        (dict(tags=KINDS, alignment=True), f"tags html, placeholders: {CANNOT.format('align')}"),
        (dict(constraints="x"), "constraints, glossary: only with decoding beam"),
    ],
)  # fmt: skip
def test_what_tags_exclude(translator, given, message):
    given, message = {"tags": "html", **given}, f"^{message.replace('align;', 'alignment;')}"
    with pytest.raises(ValueError, match=message):
        translator.translate("a", **given)
    with pytest.raises(ValueError, match=message):
        asyncio.run(translator.translate_async("a", **given))
    with pytest.raises(ValueError, match=message):
        list(translator.translate_stream(
            ["a"], **{name: [own] if name == "constraints" else own for name, own in given.items()}
        ))  # fmt: skip


def test_drafts_and_details_are_of_sentences(translator):
    message = f"^tags html: {CANNOT}"
    with pytest.raises(ValueError, match=message.format("drafts")):
        translator.translate("a", tags="html", drafts="x")
    with pytest.raises(ValueError, match=message.format("drafts")):
        list(translator.translate_stream(["a"], tags="html", drafts=["x"]))
    with pytest.raises(ValueError, match=message.format("draft")):
        asyncio.run(translator.translate_async("a", tags="html", draft="x"))
    with pytest.raises(ValueError, match=message.format("details")):
        translator.translate("a", tags="html", details=True)
    with pytest.raises(ValueError, match=message.format("details")):
        asyncio.run(translator.translate_async("a", tags="html", details=True))


def test_texts_that_fail(either):
    texts = [f"<p>Open it.</p><p>{'word ' * 2000}</p>", "Open <b>it</b>."]
    with pytest.raises(SentenceError) as raised:
        either.translate(texts, tags="html")
    assert list(raised.value.errors) == [0]
    assert raised.value.translations[0] is None
    assert TAG.sub("", raised.value.translations[1]) == either.translate("Open it.")
    with pytest.raises(SentenceError, match="too long"):
        asyncio.run(either.translate_async(texts[0], tags="html"))
    (_, first), (_, second) = either.translate_stream(texts, tags="html")
    assert first.text is None and first.error.kind == "too long"
    assert second == Translation(raised.value.translations[1])


def test_a_text_has_as_many_sentences_as_it_likes(bundle):
    """More than can wait, and more than a stream reads ahead."""
    text = "<p>Open it.</p>" * 600
    expected = f"<p>{bundle.translate('Open it.')}</p>" * 600
    bundle.schedule(max_queue=4)
    try:
        assert asyncio.run(bundle.translate_async(text, tags="html")) == expected
        ((_, found),) = bundle.translate_stream([text], tags="html")
        assert found.text == expected
    except QueueFull:
        pytest.fail("the queue had room for one sentence after another")
    finally:
        bundle.schedule()
