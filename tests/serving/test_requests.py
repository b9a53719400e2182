"""Bodies: their formats and limits, and what is no body of a request at all."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.services import app_with, call, client_of, translate

FIELDS = {"q": "Hé. 😀", "source": "en", "target": "de", "alternatives": "1"}
ANSWER = {"translatedText": "HÉ. 😀", "alternatives": ["HÉ.! 😀"]}
JSON_TYPE = {"content-type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [
        {"json": FIELDS},
        {"data": FIELDS},
        {"files": {name: (None, value) for name, value in FIELDS.items()}},
        {"content": json.dumps(FIELDS), "headers": {"content-type": "Application/JSON; charset=x"}},
    ],
    ids=["json", "urlencoded", "multipart", "upper case"],
)
def test_formats(body):
    answer = call(app_with(), "POST", "/translate", **body)
    assert (answer.status_code, answer.json()) == (200, ANSWER)


def test_a_list_in_a_form():
    answer = call(app_with(), "POST", "/translate", data={**FIELDS, "q": ["a", "b"]})
    assert answer.json() == {"translatedText": ["A", "B"], "alternatives": [["A!"], ["B!"]]}


@pytest.mark.parametrize(
    "fields, message",
    [
        ({}, "q: must be a string or a list of strings"),
        ({"q": 3}, "q: must be a string or a list of strings"),
        ({"q": ["a", None]}, "q: must be a string or a list of strings"),
        ({"q": "a", "source": 3}, "source: must be a string of 1 to 32 characters"),
        ({"q": "a", "target": ""}, "target: must be a string of 1 to 32 characters"),
        ({"q": "a", "target": "x" * 33}, "target: must be a string of 1 to 32 characters"),
        ({"q": "a", "target": "fr"}, "source en, target fr: choose from en to de"),
        ({"q": "a", "target": "\udead"}, "target: has an unpaired surrogate"),
        ({"q": "a", "format": "pdf"}, "format 'pdf': choose from text, html"),
        ({"q": "a", "alternatives": -1}, "alternatives: must be a whole number from 0 to 10"),
        ({"q": "a", "alternatives": True}, "alternatives: must be a whole number from 0 to 10"),
        ({"q": "a", "alternatives": "²"}, "alternatives: must be a whole number from 0 to 10"),
        ({"q": "a", "alternatives": 10**30}, "alternatives: must be a whole number from 0 to 10"),
        ({"texts": "a"}, "texts: must be a list of strings"),
        ({"texts": ["a"]}, "src_lang: must be a string of 1 to 32 characters"),
    ],
)
def test_wrong_fields_are_named(fields, message):
    body = json.dumps({"source": "en", "target": "de", **fields})
    answer = call(app_with(), "POST", "/translate", content=body, headers=JSON_TYPE)
    assert (answer.status_code, answer.json()) == (400, {"error": message})


def test_null_is_absent():
    names = ("format", "alternatives", "api_key", "draft", "texts")
    body = {"q": "a", "target": "de", "source": None, **dict.fromkeys(names)}
    answer = call(app_with(), "POST", "/translate", json=body)
    assert answer.json()["translatedText"] == "A" and "alternatives" not in answer.json()
    answer = call(app_with(), "POST", "/translate", json={"q": None, "target": None})
    assert answer.json() == {"error": "q: must be a string or a list of strings"}


@pytest.mark.parametrize(
    "kind, body",
    [
        ("application/json", b""),
        ("application/json", b"{"),
        ("application/json", b"\xff\xfe{"),
        ("application/json", b"[" * 100_000),
        ("application/json", b"[1]"),
        ("application/json", b"9" * 10_000),
        ("application/x-www-form-urlencoded", b"q=\xff"),
        ("application/x-www-form-urlencoded", b"q&" * 5000),
        ("multipart/form-data", b"q"),
        ("multipart/form-data; boundary=x", b"--y\r\n"),
        ("multipart/form-data; boundary=x",
         b'--x\r\nContent-Disposition: form-data; name="q"; filename="/etc/passwd"\r\n\r\na\r\n'
         b"--x--\r\n"),
        ("text/plain", b"q=a"),
        ("", b"q=a"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(kind, body):
    answer = call(app_with(), "POST", "/translate", content=body, headers={"content-type": kind})
    assert answer.status_code == 400 and answer.json()["error"]


KINDS = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]


NAMES = st.sampled_from(["q", "texts", "source", "target", "api_key"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner),
)
DISPOSITION = b'Content-Disposition: form-data; name="q"'
PARTS = st.sampled_from([b"--x", b"\r\n", b"q=", DISPOSITION, b"a", b"--", b"&", b"%", b"%ff"])


@settings(max_examples=150)
@given(
    st.sampled_from(KINDS),
    st.one_of(
        st.binary(max_size=200),
        VALUES.map(lambda value: json.dumps(value).encode()),
        st.lists(PARTS).map(b"".join),
    ),
)
def test_no_body_breaks_the_server(kind, body):
    for path in ("/translate", "/detect"):
        answer = call(app_with(), "POST", path, content=body, headers={"content-type": kind})
        assert answer.status_code in (200, 400)


@pytest.mark.parametrize(
    "text", ["a\0b", "\u202eשלום. مرحبا؟", "👩‍👩‍👧‍👦", "\ufeff\ufffe", "a\x1b[0m"]
)
def test_odd_texts(text):
    answer = translate(app_with(), q=text)
    assert answer.json() == {"translatedText": text.upper()}


def test_halves_of_surrogates():
    body = rb'{"q": "a\ud83d", "source": "en", "target": "de"}'
    answer = call(app_with(), "POST", "/translate", content=body, headers=JSON_TYPE)
    assert (answer.status_code, answer.json()["error"]) == (400, "q: has an unpaired surrogate")


def test_long_texts():
    text = "Hello there. \n" * 7142
    assert translate(app_with(), q=text).json() == {"translatedText": text.upper()}
    answer = translate(app_with(), q="a" * 100_001)
    assert (answer.status_code, answer.json()["error"]) == (
        413, "q: 100001 characters; the limit is 100000",
    )  # fmt: skip
    answer = translate(app_with(max_texts=2), q=["a", "b", "c"])
    assert (answer.status_code, answer.json()["error"]) == (413, "q: 3 texts; the limit is 2")


def test_long_bodies_are_not_read_to_their_end():
    sent = 0

    async def chunks():
        nonlocal sent
        for _ in range(1000):
            sent += 1000
            yield b" " * 1000

    async def post():
        async with client_of(app_with(max_body_bytes=5000)) as client:
            headers = {"content-type": "application/json"}
            return [
                await client.post("/translate", content=content, headers=headers)
                for content in (chunks(), b" " * 5001)
            ]

    for answer in asyncio.run(post()):
        assert answer.status_code == 413
        assert answer.json() == {"error": "the body is longer than 5000 bytes"}
    assert sent < 10_000


@pytest.mark.parametrize("path", ["/translate", "/detect"])
@pytest.mark.parametrize(
    "key, status", [("one", 200), ("two", 200), ("three", 403), (None, 403), (3, 403), ("é", 403)]
)
def test_keys(path, key, status):
    fields = {"q": "a", "source": "en", "target": "de", "api_key": key}
    app = app_with(api_keys=("one", "two"))
    answer = call(app, "POST", path, json=fields)
    assert answer.status_code == status
    if status == 403:
        assert answer.json() == {"error": "api_key: missing or wrong"}


@pytest.mark.parametrize(
    "header, status",
    [("Bearer one", 200), ("bearer one", 200), ("Bearer two", 403), ("Basic one", 403)],
)
def test_keys_in_the_header(header, status):
    app, headers = app_with(api_keys=("one",)), {"Authorization": header}
    for fields in (
        {"q": "a", "source": "en", "target": "de"},
        {"q": "a", "source": "en", "target": "de", "api_key": ""},
        {"texts": ["a"], "src_lang": "en", "tgt_lang": "de"},
    ):
        answer = call(app, "POST", "/translate", json=fields, headers=headers)
        assert answer.status_code == status
