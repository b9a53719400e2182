"""Detection of languages, with and without the package py3langid."""

import sys

import pytest

from fairseq_fastdec.serving.detection import MOST_CHARS, Detected, Detector
from tests.support import skips
from tests.support.at_once import at_once

TEXTS = {
    "en": "Where is the railway station, please?",
    "de": "Wo ist bitte der Bahnhof, und wann fährt der Zug?",
    "fr": "Où est la gare, s'il vous plaît ?",
    "zh": "请问火车站在哪里？",
}
OF_MODELS = {
    "NLLB-200": {"en": "eng_Latn", "de": "deu_Latn", "fr": "fra_Latn", "zh": "zho_Hans"},
    "mBART": {"en": "en_XX", "de": "de_DE", "fr": "fr_XX", "zh": "zh_CN"},
    "M2M-100": {"en": "en", "de": "de", "fr": "fr", "zh": "zh"},
}
NORWEGIAN = "Jeg vil gjerne vite hvor jernbanestasjonen er, og når toget går."


def detector_of(*languages):
    skips.needs("py3langid")
    return Detector(languages)


@pytest.mark.parametrize("names", OF_MODELS.values(), ids=OF_MODELS)
def test_the_names_are_those_of_the_server(names):
    detector = detector_of(*names.values())
    assert detector.is_installed and detector.is_possible
    for code, text in TEXTS.items():
        language, confidence = detector.detect(text)
        assert language == names[code] and 50 < confidence <= 100


def test_only_languages_of_the_server_are_detected():
    assert detector_of("de", "fr").detect(TEXTS["en"]).language in ("de", "fr")


def test_the_first_of_several_scripts():
    detector = detector_of("zho_Hant", "eng_Latn", "zho_Hans")
    assert detector.detect(TEXTS["zh"]).language == "zho_Hant"


@pytest.mark.parametrize("names", [("no", "en"), ("nob_Latn", "eng_Latn")])
def test_norwegian(names):
    assert detector_of(*names).detect(NORWEGIAN).language == names[0]


def test_codes_of_three_letters():
    """py3langid's label is ``nso``, and M2M-100's name ``ns``."""
    text = "Ke nyaka go tseba gore seteišene sa setimela se kae."
    for name in ("ns", "nso_Latn"):
        assert detector_of("en", name).detect(text).language == name


@pytest.mark.parametrize("languages", [(), ("xx", "yy"), ("en", "xx"), ("en", "eng_Latn")])
def test_languages_that_cannot_be_told_apart(languages):
    detector = detector_of(*languages)
    assert detector.is_installed and not detector.is_possible


@pytest.mark.parametrize("text", ["", " ", "12", "\0", "\ud800", "💧", "x" * 10**6])
def test_odd_texts(text):
    found = detector_of("en", "de").detect(text)
    assert isinstance(found, Detected) and found.language in ("en", "de")
    assert 50 <= found.confidence <= 100


def test_the_beginning_of_a_text_decides():
    detector = detector_of("en", "de")
    long = TEXTS["de"] * (MOST_CHARS // len(TEXTS["de"]) + 1) + TEXTS["en"] * 1000
    assert detector.detect(long) == detector.detect(long[:MOST_CHARS])
    assert detector.detect(long).language == "de"


def test_several_threads():
    detector, texts = detector_of(*TEXTS), [*TEXTS.values()] * 5
    found = at_once(*(lambda text=text: detector.detect(text).language for text in texts))
    assert found == [*TEXTS] * 5


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    detector = Detector(["en", "de"])
    assert not detector.is_installed and not detector.is_possible
