"""Terms with prescribed translations."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairseq_fastdec.translating.glossary import Glossary
from fairseq_fastdec.translating.languages import Pair

EN_DE = Pair("en", "de")


def read(tmp_path, text):
    path = tmp_path / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    return Glossary.read(path)


def translations(text, terms, pair=EN_DE):
    return Glossary.given(terms).translations(text, pair)


@pytest.mark.parametrize(
    "text, found",
    [
        ("The bank has a river bank.", ["Ufer", "Bank"]),
        ("Bank, BANK and bank", ["Bank"]),
        ("embankment, banks, bank2, bank_", []),
        ("river  bank", ["Ufer"]),
        ("a (bank), \u201cbank\u201d, e-bank", ["Bank"]),
        ("", []),
    ],
)
def test_terms_are_whole_words_and_the_longest_wins(text, found):
    assert sorted(translations(text, {"bank": "Bank", "river bank": "Ufer"})) == sorted(found)


@pytest.mark.parametrize(
    "text, found",
    [("US", ["USA"]), ("us", ["uns"]), ("Us", ["uns"]), ("the US, us", ["USA", "uns"])],
)
def test_terms_with_capital_letters_are_found_as_they_are_written(text, found):
    assert translations(text, {"US": "USA", "us": "uns"}) == found


@pytest.mark.parametrize(
    "text, term", [("我喜欢机器翻译。", "机器翻译"), ("機械翻訳です", "翻訳"), ("C++ is", "c++")]
)
def test_scripts_without_spaces_and_signs(text, term):
    assert translations(text, {term: "x"}) == ["x"]


def test_languages(tmp_path):
    glossary = read(
        tmp_path, "# a comment\nbank\tBank\n\nbank\tbanque\ten-fr\nbank\tbanco\teng_Latn-spa_Latn\n"
    )
    for target, expected in (
        ("de", "Bank"),
        ("fr", "banque"),
        ("spa_Latn", "banco"),
        ("es", "banco"),
    ):
        assert glossary.translations("the bank", Pair("en", target)) == [expected]
    assert glossary.translations("the bank", Pair(None, None)) == ["Bank"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\tb\nbank\n", "terms.tsv, line 2: 1 columns; write a term, a tab and its translation"),
        ("a\tb\tc\td\n", "terms.tsv, line 1: 4 columns"),
        ("\tb\n", "terms.tsv, line 1: an empty term"),
        ("a\t \n", "terms.tsv, line 1: an empty translation"),
        ("a\tb\tende\n", "terms.tsv, line 1: the languages ende; write them as en-de"),
        ("a\tb\na\tc\n", "line 2: translates a as c, and .*line 1 as b; remove one"),
    ],
)
def test_bad_lines(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_the_same_line_twice(tmp_path):
    assert read(tmp_path, "a\tb\na\tb\n").translations("a", EN_DE) == ["b"]


words = st.text("abAB ", min_size=1, max_size=4).filter(str.strip)


@given(terms=st.dictionaries(words, st.just("x"), max_size=4), text=st.text("abAB .", max_size=30))
def test_a_term_is_found_where_a_regular_expression_finds_it(terms, text):
    text = " ".join(text.split())
    glossary = Glossary.given({term: f"[{' '.join(term.split())}]" for term in terms})
    found = glossary.translations(text, EN_DE)

    def occurs(term):
        flags = re.IGNORECASE if term == term.lower() else 0
        return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text, flags)

    normal = {" ".join(term.split()) for term in terms}
    assert {own[1:-1] for own in found} <= {term for term in normal if occurs(term)}
    assert bool(found) == any(map(occurs, normal))
