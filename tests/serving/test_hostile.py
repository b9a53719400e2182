"""Requests that are made to take long: their time is proportional to their length, and they do not
hold up other requests.

Times are those of the processor, and are compared with each other.
"""

import asyncio
import contextlib
import gc
import json
import time
from itertools import repeat

import pytest
from starlette.requests import Request

from fairseq_fastdec.serving import requests
from fairseq_fastdec.serving.texts import split_tagged
from fairseq_fastdec.translating.results import Translation
from fairseq_fastdec.translating.tagged import KINDS
from tests.support import hostile
from tests.support.services import UpperCase, app_with, client_of
from tests.support.split_text import split

FOUND = Translation("a b", tokens=("a", "b"), source_tokens=("a",), alignment=[(0, 0)])
TAGS = [("placeholders",), KINDS]
PLACEHOLDERS = [hostile.repeated(part) for part in ("{0}", "a {0}", "{", "a%", "a a a a. {0}")]
PLACEHOLDERS += [f"%s {hostile.TEXTS[name][3:]}" for name in ("words", "spaces", "line breaks")]
# The bound of one iteration of the event loop, in units of the time below.
MOST_UNITS = 12


def time_of(work):
    """The processor time of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def least_time(work):
    """The least of three calls, which other processes disturb least."""
    return min(time_of(work) for _ in range(3))


@pytest.fixture(scope="module")
def unit():
    """The time for adding up a million numbers."""
    return least_time(lambda: sum(range(1_000_000)))


def split_document(document):
    for kinds in ((), *TAGS):
        (tagged,) = asyncio.run(split_tagged([document], kinds, bool(kinds), "en"))
        list(tagged.joined(repeat(FOUND)))


async def parse_form(body):
    return await requests._urlencoded(body)


def parse_json(body):
    with pytest.raises((requests.HTTPException, ValueError, RecursionError)):
        requests._json(body, 3100)


def parse_multipart(body, kind=b"multipart/form-data; boundary=x"):
    request = Request({"type": "http", "method": "POST", "headers": [(b"content-type", kind)]})
    with contextlib.suppress(requests.HTTPException):
        asyncio.run(requests._multipart(request, body))


def parse_type(parameters):
    parse_multipart(b"--x--", b"multipart/form-data; boundary=x" + parameters)


# html.parser takes minutes for some of these.
PARTS = ["<", "<a ", "</", "<!--", "&", "<![CDATA[", "<p>", "<p></b>", "&#", "<script>", "a <",
         "<i></b>a", "<b><i></b>", '<p class="', "= ", "<p translate a", "<p>a</p>"]  # fmt: skip
START = b'--x\r\nContent-Disposition: form-data; name="q"'
BODIES = {
    **{f"text: {name}": (lambda text: split(text, "en"), text)
       for name, text in hostile.TEXTS.items()},
    **{f"text in Japanese: {name}": (lambda text: split(text, "ja"), text)
       for name, text in hostile.TEXTS.items()},
    **{f"document: {name}": (split_document, text) for name, text in hostile.DOCUMENTS.items()},
    **{f"document of {part}": (split_document, hostile.repeated(part)) for part in PARTS},
    **{f"tag with {part}": (split_document, "<p translate " + hostile.repeated(part) + ">")
       for part in PARTS if ">" not in part},  # which would end it
    **{f"form: {part}": (lambda body: asyncio.run(parse_form(body)), part.encode() * 200_000)
       for part in ("%", "%4", "%41", "+", "a=", "=", "&")[:-1]},
    **{f"JSON: {part}": (parse_json, b"[" + part.encode() * 200_000)
       for part in ("[", "[],", "0,", "9", '"",', "{", '\\"', '"', '{"a":', '"\\u')},
    **{f"multipart: {part}": (parse_multipart, START + b"\r\n\r\n" + part * 100_000)
       for part in (b"\r", b"\n", b"\r\n--x", b"\r\n--y", b"a")},
    **{f"header of a part: {part}": (parse_multipart, START + part * 100_000)
       for part in (b";", b";a=b", b"\r\nA: b")},
    **{f"content type: {part}": (parse_type, part * 10_000)
       for part in (b";", b";a=b", b';a="', b'\\"')},
}  # fmt: skip


@pytest.mark.parametrize("work, body", BODIES.values(), ids=BODIES)
def test_time_is_linear(work, body, unit):
    """Four times the length takes about four times as long, not 16 times."""
    start = body[: len(body) // 4]
    whole = time_of(lambda: work(body))
    # Mostly, one look is enough.
    if whole < unit or whole < 6 * time_of(lambda: work(start)):
        return
    quarter = least_time(lambda: work(start))
    assert any(time_of(lambda: work(body)) < 9 * quarter + unit for _ in range(3))


@pytest.fixture(scope="module")
def few_objects():
    """The garbage collector skips the objects of earlier tests, as in the service."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def longest(monkeypatch, few_objects):
    """A list with the processor times of the iterations of event loops."""
    times, run_once = [], asyncio.BaseEventLoop._run_once

    def timed(loop):
        start = time.thread_time()
        run_once(loop)
        times.append(time.thread_time() - start)

    monkeypatch.setattr(asyncio.BaseEventLoop, "_run_once", timed)
    return times


def post(app, fields):
    async def answers():
        async with client_of(app) as client:
            return await asyncio.gather(*(
                client.post("/translate", content=body, headers=headers, timeout=None)
                for body in bodies
            ))  # fmt: skip

    headers = {"content-type": "application/json"}
    bodies = [json.dumps({"source": "en", "target": "de", **one}).encode() for one in fields]
    return asyncio.run(answers())


TEXTS = [{"q": text} for text in hostile.TEXTS.values()]
TEXTS += [{"q": text, "format": "html"} for text in hostile.DOCUMENTS.values()]
TEXTS += [{"q": text, "format": [*KINDS]} for text in hostile.DOCUMENTS.values()]
TEXTS += [{"q": text, "format": "placeholders"} for text in PLACEHOLDERS]
TEXTS += [
    {"q": hostile.TEXTS["short lines"], "alternatives": 10},
    {"q": hostile.TEXTS["words"], "draft": hostile.TEXTS["full stops of Chinese"]},
    {"q": [hostile.TEXTS["full stops of Chinese"][:100]] * 1000},
]
IDS = [*hostile.TEXTS, *(f"HTML: {name}" for name in hostile.DOCUMENTS)]
IDS += [*(f"both: {name}" for name in hostile.DOCUMENTS), *(own[:6] for own in PLACEHOLDERS)]


@pytest.mark.parametrize("fields", TEXTS, ids=[*IDS, "alternatives", "draft", "many texts"])
def test_no_request_holds_up_others(fields, longest, unit):
    """The event loop is free again after a short time, whatever it works on."""

    def longest_iteration():
        longest.clear()
        (answer,) = post(app_with(UpperCase(), timeout_seconds=600), [fields])
        assert answer.status_code == 200
        return max(longest)

    # The machine itself can hold up one of them.
    assert any(longest_iteration() < MOST_UNITS * unit for _ in range(3))
