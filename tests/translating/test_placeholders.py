"""Placeholders are carried over by alignment, each once."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_fastdec.translating import placeholders
from fairseq_fastdec.translating.placeholders import MOST_CHARS, PLACEHOLDER
from fairseq_fastdec.translating.runs import MOST_TAGS, Run, with_tags
from fairseq_fastdec.translating.tagged import whole
from tests.support.word_translations import drawn_words, reversed_words


def runs(source, is_html=False):
    return placeholders.runs(Run(source, source, is_html=is_html))


@pytest.mark.parametrize(
    "source, text, expected",
    [
        ("{0} new files", "new files", "FILES {0} NEW"),
        ("open {name} now", "open now", "{name} NOW OPEN"),
        ("hello {name}, you", "hello, you", "{name} YOU HELLO,"),
        ("hello %(name)s!", "hello!", "HELLO! %(name)s"),
        ("one %1$s two %s", "one two", "%1$s TWO ONE %s"),
        ("one%stwo", "one%stwo", "ONE%STWO"),
        ("one{0}", "one", "ONE{0}"),
        ("{{count}} ${n}", "", "{{count}} ${n}"),
        ("50% off", "50% off", "OFF 50%"),
    ],
)
def test_texts(source, text, expected):
    (run,) = runs(source)
    assert (run.source, run.text) == (source, text)
    assert restored(run, reversed_words) == expected


def restored(run, translate):
    parts = whole(run.text)
    *_, found = with_tags(run, parts, [*map(translate, parts.sentences)])
    return found


def visible(text):
    return "".join(text.split())


TEXTS = st.lists(
    st.text("ab {}%$s0d.,\n", max_size=6)
    | st.sampled_from(["{name}", "%s", "{{x}}", "%1$d", "${1}", "{", "}", "%"]),
    max_size=12,
).map("".join)


@settings(max_examples=500, deadline=None)
@given(source=TEXTS, data=st.data())
@example(source="{{{0}}0}", data=None)
@example(source="%{0}s {a{0}b}", data=None)
def test_any_alignment_keeps_each_placeholder(source, data):
    """The translation is that of the text without them, which contains none."""

    def translate(sentence):
        if data is None:
            return reversed_words(sentence)
        return drawn_words(data, sentence, "xyZ,.")

    (run,) = runs(source)
    wanted = [own[0] for own in PLACEHOLDER.finditer(source)]
    assert [own.tags[0] for own in run.elements] == wanted
    assert PLACEHOLDER.search(run.text) is None
    without = PLACEHOLDER.sub("", source)
    assert visible(run.text) == visible(without)
    parts = whole(run.text)
    translations = [*map(translate, parts.sentences)]
    *_, found = with_tags(run, parts, translations)
    text = parts.join(own.text for own in translations)
    # Both in their order, or placeholders in another one.
    assert sorted(visible(found)) == sorted(visible(text) + "".join(wanted))
    assert all(found.count(own) >= wanted.count(own) for own in wanted)
    if data is not None and not set("{}%$") & set(text):
        assert sorted(own[0] for own in PLACEHOLDER.finditer(found)) == sorted(wanted)
        assert visible(PLACEHOLDER.sub("", found)) == visible(text)


def test_many_placeholders():
    source = "a {0} " * (2 * MOST_TAGS + 1)
    several = list(runs(source))
    assert [len(run.elements) for run in several] == [MOST_TAGS, MOST_TAGS, 1]
    assert "".join(run.source for run in several) == source
    several = list(runs("< {0}" * (MOST_TAGS + 1), is_html=True))
    assert "".join(run.source for run in several) == "&lt; {0}" * (MOST_TAGS + 1)


def test_no_placeholder_is_longer():
    longest = "%(" + "x" * 64 + ")#123.123lld"
    assert len(longest) <= MOST_CHARS and PLACEHOLDER.fullmatch(longest)
    assert PLACEHOLDER.fullmatch("${{" + "x" * 64 + "}}")
    assert PLACEHOLDER.search("{" + "x" * 65 + "}") is None
