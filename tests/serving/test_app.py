"""The contracts of LibreTranslate and NeMo Curator."""

import asyncio
import re
import sys

import pytest
from libretranslatepy import LibreTranslateAPI

from fairseq_fastdec.translating.languages import Pair
from fairseq_fastdec.translating.results import Problem, Translation
from tests.support import skips
from tests.support.services import UpperCase, app_with, call, client_of, running, translate


def test_a_text():
    answer = translate(app_with(), q="Hello. How are you?\n")
    assert answer.status_code == 200
    assert answer.json() == {"translatedText": "HELLO. HOW ARE YOU?\n"}


def test_a_list_of_texts():
    assert translate(app_with(), q=["a", "", "b"]).json() == {"translatedText": ["A", "", "B"]}
    assert translate(app_with(), q=[]).json() == {"translatedText": []}


def test_html():
    answer = translate(app_with(), q='<p title="a">b &amp; c</p>', format="html", alternatives=1)
    assert answer.json() == {
        "translatedText": '<p title="a">B &amp; C</p>',
        "alternatives": ['<p title="a">B &amp; C!</p>'],
    }
    answer = translate(app_with(), q=["<b>a</b>", "<br>", "c"], format="html")
    assert answer.json() == {"translatedText": ["<b>A</b>", "<br>", "C"]}
    answer = translate(app_with(), q="<br>", format="html", alternatives=2)
    assert answer.json() == {"translatedText": "<br>", "alternatives": []}


def test_alternatives():
    translator = UpperCase()
    answer = translate(app_with(translator), q=["a", "1"], alternatives=2)
    assert answer.json() == {"translatedText": ["A", "1"], "alternatives": [["A!", "A!!"], []]}
    assert translator.options == {"nbest": 3, "beam": 3, "decoding": "beam"}


def test_a_glossary_and_forbidden_phrases():
    translator = UpperCase()
    answer = translate(app_with(translator), q="A b. C.", glossary={"b": "B"}, forbidden="x")
    assert answer.json() == {"translatedText": "A B. C."}
    options = translator.options
    assert options.pop("glossary").translations("a b", Pair("en", "de")) == ["B"]
    assert options == {"forbidden": ["x"], "decoding": "beam"}
    answer = translate(app_with(translator), q="<b>a</b>", format="html", forbidden=["x", "y"])
    assert answer.status_code == 200 and translator.options == {"forbidden": ["x", "y"]}


@pytest.mark.parametrize(
    "q, given, expected",
    [
        ("A b.", "x", [["x"]]),
        ("A b.", ["x", " ", "y z"], [["x", "y z"]]),
        (["a", "Bee. Cee.", "d"], ["x", None, ["y", "z"]], [["x"], None, None, ["y", "z"]]),
        (["Bee. Cee.", ""], [None, []], [None, None]),
    ],
)
def test_constraints(q, given, expected):
    """Those of a text are those of its sentence."""
    translator = UpperCase()
    found = []
    usual = translator.translate_async

    async def translate_async(sentence, **options):
        assert options.pop("decoding") == "beam"
        found.append(options.pop("constraints", None))
        return await usual(sentence, **options)

    translator.translate_async = translate_async
    answer = translate(app_with(translator), q=q, constraints=given)
    assert answer.status_code == 200 and found == expected
    if isinstance(q, str):
        form = {"q": q, "source": "en", "target": "de", "constraints": given}
        assert call(app_with(translator), "POST", "/translate", data=form).json() == answer.json()


@pytest.mark.parametrize(
    "q, given, status, message",
    [
        ("a", 1, 400, "constraints: must be strings, lists of strings, or None"),
        ("a", [["x"]], 400, "constraints: must be strings, lists of strings, or None"),
        (["a"], "x", 400, "constraints: must be one for each of 1 texts; use null"),
        (["a", "b"], ["x"], 400, "constraints: must be one for each of 2 texts; use null"),
        ("a", ["x"] * 6, 413, "constraints: 6 texts; the limit is 5"),
        (
            "Bee. Cee.",
            "x",
            400,
            "constraints: text 0 (from 0) has 2 sentences; give them with",
        ),
        (["a", "1"], [None, "x"], 400, "constraints: text 1 (from 0) has 0 sentences"),
    ],
)
def test_bad_constraints(q, given, status, message):
    answer = translate(app_with(UpperCase(), max_texts=5), q=q, constraints=given)
    assert answer.status_code == status and answer.json()["error"].startswith(message)


@pytest.mark.parametrize(
    "fields, message",
    [
        (dict(glossary="a"), "glossary: must be an object of terms and their translations"),
        (dict(glossary={"a": 1}), "glossary: must be an object of terms and their translations"),
        (dict(glossary={"a": " "}), "glossary: an empty translation"),
        (dict(glossary={"": "a"}), "glossary: an empty term"),
        (dict(forbidden=1), "forbidden: must be a string or a list of strings"),
    ],
)
def test_bad_phrases(fields, message):
    answer = translate(app_with(UpperCase()), q="a", **fields)
    assert answer.status_code == 400 and answer.json()["error"].startswith(message)


def score(app, **fields):
    return call(app, "POST", "/score", json={"source": "en", "target": "de", **fields})


def test_scores():
    app = app_with(UpperCase(), max_chars=2000, max_texts=3)
    assert score(app, pairs=[["a", "bc"], ["", ""], ["a. b", "c"]]).json() == {
        "scores": [-1.0, 0.0, -0.5]
    }
    assert score(app, pairs=[], source="auto").json() == {"scores": []}
    metrics = call(app, "GET", "/metrics").text
    assert 'fastdec_sentences_total{source="en",target="de"} 3.0' in metrics
    assert 'fastdec_characters_total{source="en",target="de"} 5.0' in metrics


@pytest.mark.parametrize(
    "pairs, status, message",
    [
        (None, 400, "pairs: must be a list"),
        ("ab", 400, "pairs: must be a list"),
        (["ab"], 400, "pairs: must be a list"),
        ([["a", "b", "c"]], 400, "pairs: must be a list"),
        ([["a", 1]], 400, "pairs: must be a list of [TEXT, TRANSLATION], both strings"),
        ([["a", "b"]] * 4, 413, "pairs: 4 pairs; the limit is 3"),
        ([["a", "b" * 1001]], 413, "pairs: a text has 1001 characters; the limit of a sentence"),
        ([["a" * 900, "b"]] * 3, 413, "pairs: 2700 characters; the limit is 2000"),
        ([["fail", "b"]], 400, "too long: 9 tokens"),
        ([["broken", "b"]], 500, "internal error"),
    ],
)
def test_scores_that_are_refused(pairs, status, message):
    answer = score(app_with(UpperCase(), max_chars=2000, max_texts=3), pairs=pairs)
    assert answer.status_code == status and answer.json()["error"].startswith(message)


def test_scores_of_other_languages():
    answer = score(app_with(UpperCase()), pairs=[["a", "b"]], target="fr")
    assert answer.status_code == 400 and answer.json()["error"].endswith("choose from en to de")


def test_drafts():
    translator = UpperCase()
    answer = translate(app_with(translator), q="a", draft="B")
    assert answer.json() == {"translatedText": "A"} and translator.options == {"draft": ["B"]}
    answer = translate(app_with(translator), q=["a", "c"], draft=["B"])
    assert answer.json() == {"translatedText": ["A", "C"]} and translator.options == {}


@pytest.mark.parametrize(
    "fields", [dict(draft=1), dict(draft="x", alternatives=1), dict(draft="x", format="html")]
)
def test_drafts_that_cannot_be_verified(fields):
    answer = translate(app_with(UpperCase()), q="a", **fields)
    assert answer.status_code == 400 and answer.json()["error"].startswith("draft: ")


def test_alignments():
    translator = UpperCase()
    answer = translate(app_with(translator), q="Ab. C\n", alignment="hard")
    sentences = [
        {
            "sourceTokens": [*own],
            "targetTokens": [*own.upper()],
            "alignment": [[n, n] for n in range(len(own))],
        }
        for own in ("Ab.", "C")
    ]
    assert answer.json() == {"translatedText": "AB. C\n", "alignment": sentences}
    assert translator.options == {"alignment": "hard"}
    answer = translate(app_with(translator), q=["", "C"], alignment="soft", draft=["x", "y"])
    assert answer.json() == {"translatedText": ["", "C"], "alignment": [[], sentences[1:]]}
    assert translator.options == {"alignment": "soft", "draft": ["y"]}


@pytest.mark.parametrize(
    "fields",
    [
        dict(alignment="all"),
        dict(alignment=["hard"]),
        dict(alignment="hard", alternatives=1),
        dict(alignment="hard", format="html"),
    ],
)
def test_alignments_that_do_not_exist(fields):
    answer = translate(app_with(UpperCase()), q="a", **fields)
    assert answer.status_code == 400 and answer.json()["error"].startswith("alignment: ")


@pytest.mark.parametrize(
    "fields", [dict(alignment="hard"), dict(format="html"), dict(format="html", alternatives=1)]
)
def test_details_of_a_sentence_that_is_too_long(fields):
    async def translate_async(sentence, *, nbest=1, **options):
        failed = Translation(None, error=Problem("too long", "9 tokens"))
        return [failed] if nbest > 1 else failed

    translator = UpperCase()
    translator.translate_async = translate_async
    answer = translate(app_with(translator), q="a", **fields)
    assert (answer.status_code, answer.json()) == (400, {"error": "too long: 9 tokens"})


def test_the_source_language_is_known_if_there_is_one():
    app = app_with(UpperCase(), UpperCase("en", "fr"))
    detected = {"language": "en", "confidence": 0.0}
    answer = translate(app, q="a", source="auto")
    assert answer.json() == {"translatedText": "A", "detectedLanguage": detected}
    answer = translate(app, q=["a", "b"], source="auto", target="FR")
    assert answer.json()["detectedLanguage"] == [detected, detected]
    assert call(app, "POST", "/detect", data={"q": "a"}).json() == [detected]


def test_an_empty_list_has_a_language():
    app = app_with(UpperCase(), UpperCase("en", "fr"))
    answer = translate(app, q=[], source="auto")
    assert answer.json() == {"translatedText": [], "detectedLanguage": []}
    assert call(app, "POST", "/detect", json={"q": []}).status_code == 200


def test_the_source_is_detected_if_there_are_several():
    skips.needs("py3langid")
    app = app_with(UpperCase(), UpperCase("de", "en"))
    text = "Der Bahnhof ist am Ende der Straße."
    answer = translate(app, q=text, source="auto", target="en").json()
    assert answer["translatedText"] == text.upper()
    assert answer["detectedLanguage"]["language"] == "de"
    assert 50 < answer["detectedLanguage"]["confidence"] <= 100
    (found,) = call(app, "POST", "/detect", json={"q": text}).json()
    assert found == answer["detectedLanguage"]
    # The language is that of all texts of a request.
    answer = translate(app, q=[text, "a", text], source="auto", target="en").json()
    assert answer["detectedLanguage"] == [found] * 3
    # No model translates German into German.
    answer = translate(app, q=text, source="auto", target="de")
    assert answer.status_code == 400 and answer.json()["error"].startswith("source de, target de:")


@pytest.mark.parametrize(
    "languages, is_blocked, reason",
    [
        (("en", "de"), True, "pip install 'fastdec-runtime[detect]' on the server"),
        (("xx", "yy"), False, "py3langid does not know them"),
    ],
)
def test_languages_that_are_not_detected(languages, is_blocked, reason, monkeypatch):
    if is_blocked:
        monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    else:
        skips.needs("py3langid")
    app = app_with(UpperCase(*languages), UpperCase(*languages[::-1]))
    for path in ("/translate", "/detect"):
        answer = call(app, "POST", path, json={"q": "a", "source": "auto", "target": "de"})
        assert answer.status_code == 400
        message = f"languages are not detected ({reason}); give source, see /languages"
        assert answer.json() == {"error": message}
    source, target = languages
    assert translate(app, q="a", source=source, target=target).json() == {"translatedText": "A"}


def test_the_contract_of_nemo_curator():
    fields = {"texts": ["a", "b"], "src_lang": "en", "tgt_lang": "de"}
    answer = call(app_with(UpperCase("EN", "DE")), "POST", "/translate", json=fields)
    assert answer.json() == {"translations": ["A", "B"]}


def test_languages():
    app = app_with(UpperCase(), UpperCase("en", "fr"), UpperCase("de", "en"))
    assert call(app, "GET", "/languages").json() == [
        {"code": "en", "name": "English", "targets": ["de", "fr"]},
        {"code": "de", "name": "German", "targets": ["en"]},
        {"code": "fr", "name": "French", "targets": []},
    ]


def test_settings_and_health():
    answer = call(app_with(api_keys=("k",), max_chars=7), "GET", "/frontend/settings").json()
    assert (answer["charLimit"], answer["keyRequired"], answer["apiKeys"]) == (7, True, True)
    assert answer["language"]["target"] == {"code": "de", "name": "German"}
    assert call(app_with(), "GET", "/health").json() == {"status": "ok"}


def test_the_page_needs_no_other_site():
    answer = call(app_with(), "GET", "/")
    assert answer.headers["content-type"].startswith("text/html")
    assert "://" not in answer.text and "<textarea" in answer.text
    assert not re.search(r"(src|href)=", answer.text)


def test_two_models_of_one_pair_are_refused():
    with pytest.raises(ValueError, match="the same source and target"):
        app_with(UpperCase(), UpperCase("EN", "de"))


@pytest.mark.parametrize(
    "method, path, status",
    [("GET", "/translate", 405), ("POST", "/languages", 405), ("GET", "/nowhere", 404)],
)
def test_other_paths_and_methods(method, path, status):
    answer = call(app_with(), method, path)
    assert answer.status_code == status and set(answer.json()) == {"error"}


def test_errors_of_sentences():
    answer = translate(app_with(), q="Good. This fails.")
    assert (answer.status_code, answer.json()) == (400, {"error": "too long: 9 tokens"})
    answer = translate(app_with(), q="Good. This is broken.")
    assert (answer.status_code, answer.json()) == (500, {"error": "internal error"})


def test_a_full_queue():
    async def post():
        async with client_of(app_with(UpperCase(seconds=0.2, max_queue=1))) as client:
            fields = {"q": "a", "source": "en", "target": "de"}
            return await asyncio.gather(*(client.post("/translate", json=fields) for _ in range(3)))

    answers = asyncio.run(post())
    assert sorted(answer.status_code for answer in answers) == [200, 429, 429]
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert refused.json() == {"error": "the queue is full"}


def test_a_long_text_does_not_fill_the_queue():
    app = app_with(UpperCase(seconds=0.001, max_queue=100))
    assert translate(app, q="a\n" * 500).status_code == 200


def test_a_translation_that_takes_too_long():
    class Hours(UpperCase):
        """Takes two hours, which pass at once, by the clock of the event loop."""

        async def translate_async(self, text, **options):
            loop = asyncio.get_running_loop()
            time = loop.time
            loop.time = lambda: time() + 3600
            return await super().translate_async(text, **options)

    translator = Hours(seconds=7200)
    answer = translate(app_with(translator, timeout_seconds=600), q="a")
    assert (answer.status_code, answer.json()) == (
        504,
        {"error": "not done within 600 seconds"},
    )
    assert translator.cancelled == 1


def test_libretranslates_client():
    with running(api_keys=("key",)) as port:
        client = LibreTranslateAPI(f"http://127.0.0.1:{port}", "key")
        assert client.translate("Grüße. Ja?", "en", "de", timeout=120) == "GRÜSSE. JA?"
        assert client.detect("Hello") == [{"confidence": 0.0, "language": "en"}]
        assert [language["code"] for language in client.languages()] == ["en", "de"]
