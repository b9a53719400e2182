"""The target types of a sentence, and sentences with shortlists one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairseq_fastdec
from fairseq_fastdec.serving.app import LanguagePair, create_app
from fairseq_fastdec.serving.config import ServerOptions
from fairseq_fastdec.tools.export import export
from fairseq_fastdec.translating.shortlist import Shortlist
from tests.support import marian_writing as writing
from tests.support import services
from tests.support.compiled import compiled
from tests.support.imported_models import DEFAULTS, N_WORDS, written
from tests.support.together import all_at_once

N_SOURCE, N_TARGET = 12, 40
LISTS = st.lists(
    st.lists(st.integers(4, N_TARGET - 1), max_size=5), min_size=N_SOURCE, max_size=N_SOURCE
)


def shortlist_of(lists, always=(0, 1, 2, 3), copies=False, multiple=1, n_special=0):
    """A shortlist with the targets of each source type."""
    first = np.cumsum([0, *map(len, lists)])
    targets = np.array([target for own in lists for target in own], np.int32)
    return Shortlist(first, targets, np.array(always, np.int64), copies, multiple, n_special)


def by_hand(lists, source, forced, always, copies, multiple, n_special):
    """The types of a sentence, one by one."""
    types = {*always, *forced, *(target for word in source for target in lists[word])}
    if copies:
        types |= {word for word in source if word >= n_special}
    following = iter(range(n_special, N_TARGET))
    while len(types) % multiple:
        types.add(next(following))
    return sorted(types)


@settings(max_examples=150)
@given(
    lists=LISTS,
    sources=st.lists(st.lists(st.integers(0, N_SOURCE - 1), min_size=4, max_size=4), min_size=1),
    forced=st.lists(st.integers(0, N_TARGET - 1), max_size=2),
    n_always=st.integers(1, 6),
    copies=st.booleans(),
    multiple=st.sampled_from([1, 4, 8]),
    n_special=st.integers(0, 4),
)
def test_types_are_those_of_sets(lists, sources, forced, n_always, copies, multiple, n_special):
    # A type that ends all, among which there are enough free ones.
    lists = [[*own, N_TARGET - 1] for own in lists]
    always = tuple(range(n_always))
    shortlist = shortlist_of(lists, always, copies, multiple, n_special)
    prefix = np.array([forced] * len(sources), np.int64)
    found = shortlist.types_of(np.array(sources), prefix if forced else None)
    assert all(types.dtype == np.int64 for types in found)
    options = (forced, always, copies, multiple, n_special)
    assert [types.tolist() for types in found] == [
        by_hand(lists, source, *options) for source in sources
    ]


def test_forced_types_can_be_beyond_those_of_the_table():
    shortlist = shortlist_of([[5]] * N_SOURCE)
    (types,) = shortlist.types_of(np.array([[1]]), np.array([[99]]))
    assert types.tolist() == [0, 1, 2, 3, 5, 99]


def test_a_small_vocabulary_is_whole():
    shortlist = shortlist_of([[4]] * N_SOURCE, multiple=8)
    (types,) = shortlist.types_of(np.array([[1]]), None)
    assert types.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("source", [[-1, 2], [2, N_SOURCE]])
def test_sources_that_the_table_does_not_have(source):
    shortlist = shortlist_of([[4]] * N_SOURCE)
    with pytest.raises(IndexError, match=f"types {source[0]} to {source[1]}; the table has 12"):
        shortlist.types_of(np.array([source]), None)


def test_the_content_makes_the_same_shortlist():
    shortlist = shortlist_of([[4, 30]] * N_SOURCE, copies=True, multiple=4, n_special=2)
    sources = np.array([[1, 2, 3]])
    (types,) = shortlist.types_of(sources, None)
    content = shortlist.content()
    assert set(content) == {"first", "targets", "always", "copies", "multiple", "n_special"}
    assert Shortlist(**content).types_of(sources, None)[0].tolist() == types.tolist()


# Sentences one by one

LINES = ["w1 w2 w3", "w5", "w7 w7 w1 w9 w4 w2", "w0 w19"]


@pytest.fixture(scope="module")
def translators(tmp_path_factory):
    """The translators of a checkpoint with a binary shortlist, and of its bundle."""
    folder = tmp_path_factory.mktemp("short")
    # Marian's numbers: </s>, <unk> and the words.
    lists = [[2 + (3 * word + step) % N_WORDS for step in range(2)] for word in range(N_WORDS + 2)]
    writing.write_shortlist(folder / "lex.bin", 2, lists)
    files = {"shortlist.s2t.bin": (folder / "lex.bin").read_bytes()}
    defaults = {**DEFAULTS, "shortlist": "shortlist.s2t.bin"}
    written(folder / "model", "one pair", "ssru_transformer", defaults=defaults, files=files)
    checkpoint = fairseq_fastdec.load(folder / "model")
    export(checkpoint, folder / "model.fastdec")
    bundle = fairseq_fastdec.load(folder / "model.fastdec")
    yield checkpoint, bundle
    for translator in (checkpoint, bundle):
        translator.close()


@compiled
@pytest.mark.parametrize("options", [{}, {"beam": 4}, {"beam": 3, "nbest": 3}])
def test_streams_and_bundles_have_the_translations_of_checkpoints(translators, options):
    checkpoint, _ = translators
    expected = [checkpoint.translate(line, details=True, **options) for line in LINES]
    free = [checkpoint.translate(line, details=True, shortlist=None, **options) for line in LINES]
    assert expected != free
    for own in translators:
        own.schedule(threads=1, batch_size=8)
        assert own.job(LINES[0], options).recipe.shortlist is not None
        assert [own.translate(line, details=True, **options) for line in LINES] == expected
        assert [found for _, found in own.translate_stream(LINES, **options)] == expected
        assert all_at_once(own, LINES, details=True, **options) == expected
        texts = [[one.text for one in (own if "nbest" in options else [own])] for own in expected]
        batch = own.translate(LINES, **options)
        assert [[one] if isinstance(one, str) else one for one in batch] == texts


@compiled
def test_no_other_type_is_chosen(translators):
    checkpoint, bundle = translators
    words = {line: {int(word[1:]) for word in line.split()} for line in LINES}
    for own in (checkpoint, bundle):
        shortlist = own.job(LINES[0], {}).recipe.shortlist
        for line in LINES:
            source = np.array([[4 + word for word in words[line]] + [2]])
            (types,) = shortlist.types_of(source, None)
            assert len(types) == 8 or len(types) == 16
            tokens = own.translate(line, details=True).tokens
            assert {own.codec.target.indices[token] for token in tokens} <= set(types.tolist())


@compiled
def test_the_service(translators):
    checkpoint, bundle = translators
    expected = [checkpoint.translate(line) for line in LINES]
    for own in (checkpoint, bundle):
        app = create_app([LanguagePair("en", "de", own)], ServerOptions())
        answer = services.translate(app, q=LINES)
        assert answer.json() == {"translatedText": expected}
