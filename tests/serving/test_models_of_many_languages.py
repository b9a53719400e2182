"""A model of many languages behind the HTTP interface."""

import asyncio

import pytest

import fairseq_fastdec
from fairseq_fastdec.serving.app import LanguagePair, create_app
from fairseq_fastdec.serving.config import ServerOptions
from fairseq_fastdec.tools.export import export
from tests.support import skips
from tests.support.compiled import compiled
from tests.support.imported_models import LANGUAGES, written
from tests.support.services import UpperCase, call, client_of, translate

LINES = ["w1 w2 w3", "w5", "w7 w7 w1 w9 w4 w2", "w0 w19"]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """The bundle of a model that translates between many languages."""
    folder = written(tmp_path_factory.mktemp("many") / "model")
    export(fairseq_fastdec.load(folder), folder / "model.fastdec")
    bundle = fairseq_fastdec.load(folder / "model.fastdec")
    bundle.schedule(threads=1, batch_size=32)
    yield bundle
    bundle.close()


def app_of_many(many, *others):
    pair = LanguagePair(many.source_lang, many.target_lang, many, 1, many.languages)
    return create_app([pair, *others], ServerOptions())


@pytest.fixture(scope="module")
def app_of_all(many):
    return app_of_many(many)


@compiled
def test_languages_of_a_model_of_many(app_of_all):
    found = call(app_of_all, "GET", "/languages").json()
    assert [language["code"] for language in found] == list(LANGUAGES)
    assert [language["name"] for language in found] == [
        "English", "German", "French", "Chinese", "Chinese (Hant)",
    ]  # fmt: skip
    for language in found:
        assert language["targets"] == [name for name in LANGUAGES if name != language["code"]]
    settings = call(app_of_all, "GET", "/frontend/settings").json()["language"]
    assert settings["source"] == {"code": "eng_Latn", "name": "English"}


@compiled
def test_names_and_codes_of_languages(many):
    app = app_of_many(many)
    for names in (("fra_Latn", "zho_Hant"), ("fr", "zh-Hant"), ("FRA-latn", "cmn_Hant")):
        expected = many.translate(LINES, source="fra_Latn", target="zho_Hant")
        answer = translate(app, q=LINES, source=names[0], target=names[1])
        assert answer.json() == {"translatedText": expected}
        fields = {"texts": LINES, "src_lang": names[0], "tgt_lang": names[1]}
        assert call(app, "POST", "/translate", json=fields).json() == {"translations": expected}
    text = call(app, "GET", "/metrics").text
    assert (
        f'fastdec_sentences_total{{source="fra_Latn",target="zho_Hant"}} {6.0 * len(LINES)}' in text
    )


@compiled
@pytest.mark.parametrize(
    "source, target, message",
    [
        ("en", "zh", "target zh: ambiguous; choose from zho_Hans, zho_Hant"),
        ("zh", "en", "source zh: ambiguous; choose from zho_Hans, zho_Hant"),
        ("en", "xx", f"target xx: not a language of the model; choose from {', '.join(LANGUAGES)}"),
    ],
)
def test_codes_that_are_ambiguous_or_unknown(app_of_all, source, target, message):
    answer = translate(app_of_all, q="w1", source=source, target=target)
    assert (answer.status_code, answer.json()) == (400, {"error": message})


@compiled
def test_a_detected_language_of_many(many, app_of_all):
    skips.needs("py3langid")
    answer = translate(
        app_of_all, q="Der Zug fährt am Montag um neun Uhr.", source="auto", target="fr"
    ).json()
    assert answer["detectedLanguage"]["language"] == "deu_Latn"
    expected = many.translate("Der Zug fährt am Montag um neun Uhr.", source="de", target="fr")
    assert answer["translatedText"] == expected


@compiled
def test_a_model_of_one_pair_comes_first(many):
    app = app_of_many(many, LanguagePair("en", "de", UpperCase()))
    assert translate(app, q="w1", source="en", target="de").json() == {"translatedText": "W1"}
    expected = many.translate("w1", source="eng_Latn", target="deu_Latn")
    answer = translate(app, q="w1", source="eng_Latn", target="deu_Latn")
    assert answer.json() == {"translatedText": expected}
    answer = translate(app, q="w1", source="en", target="zh")
    message = "en to de, any two of 5 languages, see /languages"
    assert answer.json() == {"error": f"source en, target zh: choose from {message}"}
    targets = {own["code"]: own["targets"] for own in call(app, "GET", "/languages").json()}
    assert targets["en"] == ["de"] and len(targets["eng_Latn"]) == 4


@compiled
def test_requests_of_several_pairs_share_a_running_batch(many, app_of_all):
    pairs = [(source, target) for source in LANGUAGES for target in LANGUAGES]
    expected = [
        many.translate(line, source=source, target=target)
        for source, target in pairs
        for line in LINES
    ]

    async def post():
        async with client_of(app_of_all) as client:
            return await asyncio.gather(
                *(
                    client.post("/translate", json={"q": q, "source": source, "target": target})
                    for source, target in pairs
                    for q in LINES
                )
            )

    answers = asyncio.run(post())
    assert [answer.json()["translatedText"] for answer in answers] == expected
    searches = {
        id(many.job("w1", {"source": source, "target": target}).recipe.search)
        for source, target in pairs
    }
    assert len(set(expected)) > 20 and len(searches) == 1


@compiled
def test_alternatives_and_html_of_many(many, app_of_all):
    pair = {"source": "fra_Latn", "target": "eng_Latn"}
    answer = translate(app_of_all, q="<b>w1 w2</b>", format="html", alternatives=1, **pair)
    best, second = many.translate("w1 w2", beam=2, nbest=2, **pair)
    assert answer.json()["translatedText"] == f"<b>{best}</b>"
    assert answer.json()["alternatives"] == [f"<b>{second}</b>"] * (second != best)
