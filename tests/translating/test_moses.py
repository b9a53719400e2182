"""A tokeniser that skips idle work gives sacremoses' tokens."""

import pickle
import re
from types import SimpleNamespace

import pytest
from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from hypothesis import given

from fairseq_fastdec.translating import moses
from fairseq_fastdec.translating.moses import PatternWithCharacter, skip_idle_work
from tests.support.odd_text import texts

# English, French and Italian have rules for apostrophes, others one; Chinese has more letters.
SETTINGS = [
    *({"source_lang": language} for language in ("en", "de", "fr", "it", "zh", "xx")),
    {"source_lang": "en", "moses_no_dash_splits": True, "moses_no_escape": True},
]
STOCK = [MosesTokenizer(MosesTokenizerConfig(**setting)) for setting in SETTINGS]
CHANGED = [MosesTokenizer(MosesTokenizerConfig(**setting)) for setting in SETTINGS]
for tokenizer in CHANGED:
    skip_idle_work(tokenizer)


@given(text=texts)
def test_tokens_are_those_of_sacremoses(text):
    assert [changed.encode(text) for changed in CHANGED] == [stock.encode(text) for stock in STOCK]


@pytest.mark.parametrize("text", ["a,b", "1,2", "a-b", "don't", "l'eau", "e.g. x", "No. a", "½.x"])
def test_each_rule_still_applies(text):
    assert [changed.encode(text) for changed in CHANGED] == [stock.encode(text) for stock in STOCK]


@pytest.mark.parametrize("name", [*moses.SUBSTITUTIONS, *moses.LISTS_OF_SUBSTITUTIONS])
def test_the_rules_are_replaced_in_this_tokeniser_only(name):
    def patterns(tokenizer):
        rules = getattr(tokenizer.tok, name)
        return [rule[0] for rule in ([rules] if name in moses.SUBSTITUTIONS else rules)]

    assert all(isinstance(pattern, PatternWithCharacter) for pattern in patterns(CHANGED[0]))
    assert not any(isinstance(pattern, PatternWithCharacter) for pattern in patterns(STOCK[0]))


def test_a_changed_tokeniser_can_be_pickled():
    text = "don't, e.g. x"
    assert pickle.loads(pickle.dumps(CHANGED[0])).encode(text) == STOCK[0].encode(text)


def with_a_pattern_of_its_own():
    tokenizer = MosesTokenizer(MosesTokenizerConfig())
    tokenizer.tok.COMMA_SEPARATE_1 = (re.compile("x"), r"y")
    return tokenizer


@pytest.mark.parametrize("other", [None, SimpleNamespace(), with_a_pattern_of_its_own()])
def test_other_tokenisers_stay(other):
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
