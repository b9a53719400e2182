"""Translators of checkpoints and of bundles take the same arguments and return the same shapes."""

import asyncio
import collections
import math
import os
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairseq_fastdec
from fairseq_fastdec import SentenceError, Translation
from fairseq_fastdec.decoding.options import DecodingOptions
from fairseq_fastdec.processes.errors import flag_of
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.bundle import OPTIONS
from fairseq_fastdec.translating.generation_options import VALID
from tests.support.compiled import compiled

pytestmark = compiled

LINES = ["a b c", "j i", "", "c a b d e"]
DRAFTS = ["c b a", None, None, ["x", "e d b a c"]]
TOO_LONG = " ".join("a" * 2000)


@pytest.fixture(scope="module")
def translators(corpus, baseline, tmp_path_factory):
    """By their kind."""
    checkpoint = fairseq_fastdec.load(baseline, corpus, bpe=None)
    path = tmp_path_factory.mktemp("bundles") / "model.fastdec"
    export(checkpoint, path)
    bundle = fairseq_fastdec.load(path)
    yield {"checkpoint": checkpoint, "bundle": bundle}
    checkpoint.close()
    bundle.close()


@pytest.fixture(params=["checkpoint", "bundle"])
def translator(translators, request):
    return translators[request.param]


# --- arguments that can be read once --------------------------------------------------------------

ONCE = {
    "iterator": iter,
    "generator": lambda items: (item for item in items),
    "map": lambda items: map(lambda item: item, items),
    "deque": collections.deque,
    "dictionary": dict.fromkeys,
}


@pytest.mark.parametrize("kind", ONCE)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_texts_that_can_be_read_once(translator, kind, n):
    once, lines = ONCE[kind], LINES[:n]
    expected = translator.translate(lines)
    assert translator.translate(once(lines)) == expected
    assert [own.text for own in translator.translate(once(lines), details=True)] == expected
    found = translator.translate_stream(once(lines))
    assert [own.text for _, own in found] == expected


@pytest.mark.parametrize("kind", sorted(ONCE.keys() - {"dictionary"}))
@pytest.mark.parametrize("n", [1, 4])
def test_drafts_that_can_be_read_once(translator, kind, n):
    once, lines, drafts = ONCE[kind], LINES[:n], DRAFTS[:n]
    expected = translator.translate(lines)
    assert translator.translate(once(lines), drafts=once(drafts)) == expected
    assert [own.text for _, own in translator.translate_stream(lines, drafts=once(drafts))] == (
        expected
    )
    assert translator.translate(lines[0], drafts=once(["x", "c b a"])) == expected[0]
    nested = [once(draft) if isinstance(draft, list) else draft for draft in drafts]
    assert translator.translate(lines, drafts=nested) == expected
    found = asyncio.run(translator.translate_async(lines[0], draft=once(["c b a"])))
    assert found == expected[0]


@pytest.mark.parametrize("texts", [None, 3, b"a b c", bytearray(b"a")])
def test_what_is_no_text(translator, texts):
    kind = type(texts).__name__
    with pytest.raises(TypeError, match=f"^texts: .*{kind}; give a text|is of type int"):
        translator.translate(texts)
    for given_texts, number in ([texts], 0), (["a", texts], 1), (iter(["a", "b", texts]), 2):
        given_texts = list(given_texts)
        message = rf"^texts: sentence {number} \(from 0\) is of type {kind}"
        with pytest.raises(TypeError, match=message):
            translator.translate(iter(given_texts))
        with pytest.raises(TypeError, match=message):
            list(translator.translate_stream(given_texts))
    with pytest.raises(TypeError, match="^drafts: must be"):
        translator.translate("a", drafts=[texts])


@pytest.mark.parametrize("mark", ["\ufeff", " \ufeff", "\ufeff "])
def test_a_byte_order_mark_is_no_text(translator, mark):
    (expected,) = translator.translate(["a b c"])
    assert translator.translate(mark + "a b c") == expected
    assert translator.translate([mark + "a b c"]) == [expected]
    ((_, found),) = translator.translate_stream([mark + "a b c"])
    assert found.text == expected
    assert translator.translate(mark) == ""


# --- shapes ---------------------------------------------------------------------------------------


def shape(result):
    """The types of a result, and whether it is an error."""
    if isinstance(result, list):
        return [shape(own) for own in result]
    assert isinstance(result, (str, Translation))
    return result.error is not None if isinstance(result, Translation) else str


@pytest.mark.parametrize("options", [{}, {"beam": 3}, {"beam": 3, "nbest": 2}], ids=str)
def test_a_failed_sentence_has_the_shape_of_the_others(translators, options):
    lines = ["a b c", TOO_LONG, "", "j i"]
    n_best = options.get("nbest", 1)
    expected = [is_failed if n_best == 1 else [is_failed] for is_failed in (False, True, False)]
    expected.append(False)
    if n_best > 1:
        expected[0] = expected[3] = [False] * n_best
    for translator in translators.values():
        options = {"details": True, **options}
        assert shape(translator.translate(lines, **options)) == expected
        assert [shape(translator.translate(line, **options)) for line in lines] == expected
        assert [shape(translator.translate([line], **options)) for line in lines] == [
            [own] for own in expected
        ]
        stream = dict(options)
        del stream["details"]
        assert [shape(own) for _, own in translator.translate_stream(lines, **stream)] == expected
        one_by_one = [asyncio.run(translator.translate_async(line, **options)) for line in lines]
        assert shape(one_by_one) == expected


@pytest.mark.parametrize("options", [{}, {"beam": 3, "nbest": 2}], ids=str)
def test_the_error_of_a_call_has_the_other_translations(translators, options):
    for translator in translators.values():
        good = translator.translate("a b c", **options)
        with pytest.raises(SentenceError) as failure:
            translator.translate(["a b c", TOO_LONG, ""], **options)
        empty = [""] if "nbest" in options else ""
        assert failure.value.translations == [good, None, empty]
        assert list(failure.value.errors) == [1]
        for call in (translator.translate, lambda *a, **o: asyncio.run(
            translator.translate_async(*a, **o)
        )):  # fmt: skip
            with pytest.raises(SentenceError) as failure:
                call(TOO_LONG, **options)
            assert failure.value.translations == [None] and list(failure.value.errors) == [0]


@pytest.mark.parametrize(
    "options", [{"beam": 2.0}, {"beam": "2"}, {"lenpen": "1"}, {"temperature": None}]
)
def test_types_for_fairseqs_own_generator(translators, options):
    (name,) = options
    with pytest.raises(ValueError, match=f"^--{name} .*: must be "):
        translators["checkpoint"].translate("a b", decoding="fairseq", **options)


# --- values of any type ---------------------------------------------------------------------------

OWN = [option.name for option in fields(DecodingOptions) if option.name != "_name"]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 7),
    st.sampled_from([10**20, -(10**20), 10**400, math.inf, -math.inf, math.nan, 1e-320]),
    st.floats(-4, 4),
    st.text("ab/-0", max_size=3),
    st.sampled_from(["greedy", "beam", "no", "exact", "rough", b"1", (1,), {}, {1}, [1.5], object]),
)


@settings(max_examples=300)
@given(
    kind=st.sampled_from(["checkpoint", "bundle"]),
    options=st.dictionaries(
        st.sampled_from(sorted({*VALID, *OWN, *OPTIONS, "batch_size", "max_tokens"})),
        VALUES,
        min_size=1,
        max_size=2,
    ),
    by=st.sampled_from(["translate", "translate_stream"]),
)
def test_any_value_of_any_option(translators, tmp_path_factory, kind, options, by):
    """A call returns a translation, or its error names an option in one line."""
    where = os.getcwd()
    os.chdir(tmp_path_factory.getbasetemp())
    try:
        if by == "translate":
            found = translators[kind].translate("a b", max_len_b=9, **options)
        else:
            ((_, found),) = translators[kind].translate_stream(["a b"], max_len_b=9, **options)
    except (ValueError, OSError) as error:
        told = str(error)
        assert "\n" not in told.strip("\n")
        # Words for options that are only wrong together, or for this model.
        assert any(name in told or flag_of(name) in told for name in options), told
        return
    except TypeError as error:
        assert "max_len_b" in options and "multiple values" in str(error)
        return
    finally:
        os.chdir(where)
    first = found[0] if isinstance(found, list) else found
    assert isinstance(first, (str, Translation))
