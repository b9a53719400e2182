"""Bodies: their formats and limits, and what is no body of a request at all."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.services import UpperCase, app_with, call, client_of, translate

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
        ({"q": "a", "format": "pdf"}, "format 'pdf': choose from text, html, placeholders"),
        ({"q": "a", "format": []}, "format: choose text, or some of html, placeholders"),
        ({"q": "a", "format": ["text", ""]}, "format: must be a string of 1 to 32 characters"),
        ({"q": "a", "format": ["html", 1]}, "format: must be a string of 1 to 32 characters"),
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


@pytest.mark.parametrize("text", ["a\0b", "\u202eשלום. مرحبا؟", "👩‍👩‍👧‍👦", "\ufffe", "a\x1b[0m"])
def test_odd_texts(text):
    answer = translate(app_with(), q=text)
    assert answer.json() == {"translatedText": text.upper()}


INVALID = [b"\xff", b"a\xe9", b"\xed\xa0\x80", b"\xc3", b"\xf4\x90\x80\x80"]


@pytest.mark.parametrize("name", ["q", "draft", "source", "format", "api_key", "other", None])
@pytest.mark.parametrize("bytes_", INVALID)
def test_bytes_that_are_not_utf_8(name, bytes_):
    """Also where a field or the name of a field is not used."""
    fields = {b"q": b"a", b"source": b"en", b"target": b"de"}
    if name is None:
        fields[bytes_] = b"a"
    else:
        fields[name.encode()] = bytes_
    escaped = "".join(f"%{byte:02x}" for byte in bytes_).encode()
    multipart = b"".join(
        b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % field
        for field in fields.items()
    )
    urlencoded = b"&".join(b"%b=%b" % field for field in fields.items())
    written = b", ".join(b'"%b": "%b"' % field for field in fields.items())
    for kind, body in (
        ("application/x-www-form-urlencoded", urlencoded),
        ("application/x-www-form-urlencoded", urlencoded.replace(bytes_, escaped)),
        ("multipart/form-data; boundary=x", multipart + b"--x--\r\n"),
        ("multipart/form-data; boundary=x; charset=latin-1", multipart + b"--x--\r\n"),
        ("application/json", b"{" + written + b"}"),
    ):
        answer = call(
            app_with(), "POST", "/translate", content=body, headers={"content-type": kind}
        )
        assert answer.status_code == 400, (kind, body)


def test_multipart_forms_are_in_utf_8():
    body = b'--x\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xc3\xa9\r\n--x--\r\n'
    for charset, status in (("", 200), ("; charset=UTF-8", 200), ("; charset=latin-1", 400)):
        headers = {"content-type": f"multipart/form-data; boundary=x{charset}"}
        answer = call(app_with(), "POST", "/detect", content=body, headers=headers)
        assert answer.status_code == status


def test_long_forms():
    """They are decoded in pieces, which do not divide an escape or a character."""
    text = "é%+& 漢😀a" * 9000
    fields = {"q": text, "source": "en", "target": "de"}
    for body in ({"data": fields}, {"files": {name: (None, fields[name]) for name in fields}}):
        answer = call(app_with(), "POST", "/translate", **body)
        assert answer.json() == {"translatedText": text.upper()}


@pytest.mark.parametrize("text", ["\ufeffFile", "\ufeff File. \ufeffOpen\n\ufeffSave\ufeff"])
def test_byte_order_marks(text):
    """The first one is dropped, and the others are white space."""
    translator, given = UpperCase(), []
    usual = translator.translate_async

    async def translate_async(sentence, **options):
        given.extend([sentence, *options.get("draft", ())])
        return await usual(sentence, **options)

    translator.translate_async = translate_async
    app = app_with(translator)
    expected = text[1:].upper()
    assert translate(app, q=text).json() == {"translatedText": expected}
    assert translate(app, q=[text, "a"]).json() == {"translatedText": [expected, "A"]}
    assert translate(app, q=text, draft=text).json() == {"translatedText": expected}
    assert translate(app, q=text, format="html").status_code == 200
    assert translate(app, q=f"<p>{text}</p>", format="html").status_code == 200
    fields = {"texts": [text], "src_lang": "en", "tgt_lang": "de"}
    answer = call(app, "POST", "/translate", json=fields)
    assert answer.json() == {"translations": [expected]}
    for fields in ({"data": {"q": text, "source": "en", "target": "de"}},):
        assert call(app, "POST", "/translate", **fields).json() == {"translatedText": expected}
    assert set("".join(given)).isdisjoint("\ufeff")


@pytest.mark.parametrize(
    "value", ["[0]", "[[]]", '{"a": 0}', '{"%d": 0}', '""', '",[{\\""', "1e9", "[" * 99 + "]" * 99]
)
def test_values_of_a_body_are_limited(value):
    """Parsing them would take long, also in fields that are not used."""
    fields = '"q": "a", "source": "en", "target": "de"'
    for n, status in ((400, 200), (20_000, 413)):
        values = ", ".join(value.replace("%d", str(i)) for i in range(n))
        for body in (f'{{{fields}, "other": [{values}]}}', f"[{values}]"):
            answer = call(app_with(), "POST", "/translate", content=body, headers=JSON_TYPE)
            assert answer.status_code == (400 if body[0] == "[" and status == 200 else status)


def test_punctuation_is_no_limit():
    text = '\\",[{:' * 16_000
    assert translate(app_with(), q=text).json() == {"translatedText": text}


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


@pytest.mark.parametrize("key", ["schlüssel", "à", "Å", "ключ", "鍵", "clé à moi", "\U0001f511"])
def test_keys_with_any_letters(key):
    """Clients encode a header in UTF-8 or, if they can, in Latin-1."""
    app, other = app_with(api_keys=(key,)), app_with(api_keys=(f"{key}x",))
    fields = {"q": "a", "source": "en", "target": "de"}
    encoded = {key.encode()} | ({key.encode("latin-1")} if max(key) < "\u0100" else set())
    for service, status in ((app, 200), (other, 403)):
        given = [{"json": {**fields, "api_key": key}}, {"data": {**fields, "api_key": key}}]
        given += [
            {"json": fields, "headers": {"Authorization": b"Bearer " + bytes_}}
            for bytes_ in encoded
        ]
        for request in given:
            assert call(service, "POST", "/translate", **request).status_code == status


def test_a_key_that_is_no_text():
    body = rb'{"q": "a", "source": "en", "target": "de", "api_key": "a\ud83d"}'
    answer = call(app_with(api_keys=("a?",)), "POST", "/translate", content=body, headers=JSON_TYPE)
    assert answer.status_code == 403
