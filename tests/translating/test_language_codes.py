"""ISO 639 codes of the names that models give to languages."""

import pytest

from fairseq_fastdec.translating.language_codes import (
    CODES,
    SHORT,
    are_same,
    language_of,
    plain,
    script_of,
)


@pytest.mark.parametrize(
    "name, code, script",
    [
        ("eng_Latn", "en", "Latn"),
        ("zho_Hant", "zh", "Hant"),
        ("cmn-hans", "zh", "Hans"),
        ("arb_Arab", "ar", "Arab"),
        ("en_XX", "en", ""),
        ("pt-BR", "pt", ""),
        ("DE", "de", ""),
        ("nob_Latn", "nb", "Latn"),
        ("ast", "ast", ""),
        ("yue_Hant", "yue", "Hant"),
        ("ca_ES_valencia", "ca", ""),
        ("sr_RS_Latn", "sr", "Latn"),
        ("", "", ""),
    ],
)
def test_names(name, code, script):
    assert (language_of(name), script_of(name)) == (code, script)


def test_one_spelling():
    assert plain("pt-BR") == plain("PT_br") == "pt_br"


@pytest.mark.parametrize(
    "name, code, is_same",
    [
        ("eng_Latn", "en", True),
        ("en", "eng_Latn", False),  # the model does not name a script
        ("zho_Hans", "zh", True),
        ("zho_Hans", "zh-Hans", True),
        ("zho_Hans", "zh-Hant", False),
        ("zho_Hans", "zh_CN", True),
        ("deu", "de", True),
        ("deu", "en", False),
    ],
)
def test_languages_that_are_the_same(name, code, is_same):
    assert are_same(name, code) == is_same


def test_a_code_is_of_one_language():
    codes = [code for codes in CODES.values() for code in codes.split()]
    assert len(set(codes)) == len(codes) == len(SHORT)
    assert all(code.islower() and len(code) in (2, 3) for code in (*codes, *CODES))
    assert not {code for code in codes if CODES.get(code, code) != code}
