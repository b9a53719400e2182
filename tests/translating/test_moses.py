"""A tokeniser that skips idle work gives sacremoses' tokens."""

import functools
import importlib
import pickle
import re
import sys
from types import SimpleNamespace

import pytest
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from hypothesis import given

from fairseq_fastdec.translating import moses
from fairseq_fastdec.translating.moses import (
    LazyPattern,
    PatternWithCharacter,
    lazy_patterns,
    skip_idle_work,
)
from tests.support.odd_text import texts

# English, French and Italian have rules for apostrophes, others one; Chinese has more letters.
SETTINGS = [
    *({"source_lang": language} for language in ("en", "de", "fr", "it", "zh", "xx")),
    {"source_lang": "en", "moses_no_dash_splits": True, "moses_no_escape": True},
]


@functools.cache
def stock():
    return [MosesTokenizer(MosesTokenizerConfig(**setting)) for setting in SETTINGS]


@functools.cache
def changed():
    made = [MosesTokenizer(MosesTokenizerConfig(**setting)) for setting in SETTINGS]
    for tokenizer in made:
        skip_idle_work(tokenizer)
    return made


def encoded(tokenizers, text):
    return [own.encode(text) for own in tokenizers]


def imported_lazily():
    """A copy of sacremoses."""
    is_its = re.compile(r"sacremoses(\.|$)").match
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if is_its(name)}
    with lazy_patterns():
        made = importlib.import_module("sacremoses")
    for name in [*sys.modules]:
        if is_its(name):
            del sys.modules[name]
    sys.modules.update(kept)
    return made


@functools.cache
def lazy_and_eager():
    modules = imported_lazily(), importlib.import_module("sacremoses")
    return [[own.MosesTokenizer(language) for language in ("en", "fr", "zh")] for own in modules]


@given(text=texts)
def test_patterns_that_are_compiled_when_needed_are_the_same(text):
    lazy, eager = (
        [own.tokenize(text, aggressive_dash_splits=True) for own in tokenizers]
        for tokenizers in lazy_and_eager()
    )
    assert lazy == eager


def test_long_patterns_are_compiled_when_needed():
    fresh = imported_lazily().MosesTokenizer
    rules = [own[0] for own in vars(fresh).values() if isinstance(own, tuple)]
    lazy = [rule for rule in rules if isinstance(rule, LazyPattern)]
    assert len(lazy) > 6 and not any("sub" in vars(rule) for rule in lazy)
    assert fresh("en").tokenize("Save the file.") == ["Save", "the", "file", "."]
    assert 0 < sum("sub" in vars(rule) for rule in lazy) <= len(lazy)
    assert isinstance(re.compile("a" * 5000), re.Pattern)
    copied = pickle.loads(pickle.dumps(lazy[0]))
    assert copied.pattern == lazy[0].pattern


@given(text=texts)
def test_tokens_are_those_of_sacremoses(text):
    assert encoded(changed(), text) == encoded(stock(), text)


@pytest.mark.parametrize("text", ["a,b", "1,2", "a-b", "don't", "l'eau", "e.g. x", "No. a", "½.x"])
def test_each_rule_still_applies(text):
    assert encoded(changed(), text) == encoded(stock(), text)


@pytest.mark.parametrize("name", [*moses.SUBSTITUTIONS, *moses.LISTS_OF_SUBSTITUTIONS])
def test_the_rules_are_replaced_in_this_tokeniser_only(name):
    def patterns(tokenizer):
        rules = getattr(tokenizer.tok, name)
        return [rule[0] for rule in ([rules] if name in moses.SUBSTITUTIONS else rules)]

    assert all(isinstance(pattern, PatternWithCharacter) for pattern in patterns(changed()[0]))
    assert not any(isinstance(pattern, PatternWithCharacter) for pattern in patterns(stock()[0]))


def test_a_changed_tokeniser_can_be_pickled():
    text = "don't, e.g. x"
    assert pickle.loads(pickle.dumps(changed()[0])).encode(text) == stock()[0].encode(text)


def with_a_pattern_of_its_own():
    tokenizer = MosesTokenizer(MosesTokenizerConfig())
    tokenizer.tok.COMMA_SEPARATE_1 = (re.compile("x"), r"y")
    return tokenizer


@pytest.mark.parametrize("make", [lambda: None, SimpleNamespace, with_a_pattern_of_its_own])
def test_other_tokenisers_stay(make):
    other = make()
    before = repr(vars(other).keys()) if other is not None else None
    skip_idle_work(other)
    if isinstance(other, MosesTokenizer):
        assert not isinstance(other.tok.COMMA_SEPARATE_2[0], PatternWithCharacter)
        assert other.encode("axb") == "ayb"
    assert other is None or repr(vars(other).keys()) == before


def test_versions_with_strings_for_patterns_stay():
    old = MosesTokenizer(MosesTokenizerConfig())
    old.tok.COMMA_SEPARATE_1 = ("([^0-9])[,]", r"\1 , ")
    before = dict(vars(old.tok))
    skip_idle_work(old)
    assert vars(old.tok) == before
