"""Clients that are slow hold nothing up, and those that leave are not worked for."""

import contextlib
import json
import select
import socket
import time

import httpx
import pytest

from fairseq_fastdec.serving.slow_clients import HEADER_BYTES, PatientProtocol
from tests.support.services import UpperCase, running, until

BODY = json.dumps({"q": "a", "source": "en", "target": "de"}).encode()
HEADER = (
    b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n"
)


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=120)
    connection.settimeout(120)
    return connection


def is_closed(connection):
    """Whether the server closes the connection; waits for it."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(1000):
            pass
    return True


class Timers:
    """The time limits of headers, which end when a test says so."""

    def __init__(self, monkeypatch):
        self.of = []
        watch = PatientProtocol._watch

        def watch_and_tell(protocol):
            watch(protocol)
            self.of.append((protocol._timer, protocol))

        monkeypatch.setattr(PatientProtocol, "header_seconds", 3600.0)
        monkeypatch.setattr(PatientProtocol, "_watch", watch_and_tell)

    def end(self):
        """End those that are not cancelled."""
        for timer, protocol in self.of:
            protocol.loop.call_soon_threadsafe(self._end, timer, protocol)

    def _end(self, timer, protocol):
        if not timer.cancelled():
            protocol.transport.close()


@pytest.fixture(autouse=True)
def timers(monkeypatch):
    return Timers(monkeypatch)


class Late(UpperCase):
    """While it translates, the time limits of headers end."""

    timers = None

    async def translate_async(self, text, **options):
        self.timers.end()
        return await super().translate_async(text, **options)


@pytest.fixture
def late(timers):
    translator = Late(seconds=0.01)
    translator.timers = timers
    return translator


def assert_serves(port):
    answer = httpx.post(f"http://127.0.0.1:{port}/translate", content=BODY, timeout=120,
                        headers={"content-type": "application/json"})  # fmt: skip
    assert answer.json() == {"translatedText": "A"}


@pytest.mark.parametrize("sent", [b"", b"POST /translate HTTP/1.1\r\nHost: a\r\n"])
def test_a_header_that_does_not_arrive(sent, timers):
    with running() as port:
        slow = [connect(port) for _ in range(50)]
        for connection in slow:
            connection.sendall(sent)
        assert_serves(port)
        until(lambda: len(timers.of) >= len(slow))
        timers.end()
        assert all(is_closed(connection) for connection in slow)


def test_a_header_that_arrives_byte_by_byte(monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 0.5)
    with running() as port, connect(port) as slow:
        with pytest.raises(ConnectionError):
            for _ in range(HEADER_BYTES):
                slow.sendall(b"G")
                time.sleep(0.05)
        monkeypatch.setattr(PatientProtocol, "header_seconds", 3600.0)
        assert_serves(port)


def test_a_slow_second_request_of_a_connection(timers):
    with running() as port, connect(port) as slow:
        slow.sendall(HEADER % len(BODY) + BODY)
        assert b" 200 OK" in slow.recv(1000)
        slow.sendall(b"POST ")
        until(lambda: len(timers.of) == 2)
        timers.end()
        assert is_closed(slow)


@pytest.mark.parametrize(
    "start, piece",
    [
        (b"GET / HTTP/1.1\r\nX: ", b"a" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"X: a\r\n" * 2000),
        (b"GET /", b"a" * 10_000),
    ],
    ids=["one field", "many fields", "path"],
)
def test_an_endless_header(start, piece, monkeypatch):
    n_sent = n_read = 0
    receive = PatientProtocol.data_received

    def received(protocol, data):
        nonlocal n_read
        receive(protocol, data)
        n_read += len(data)

    monkeypatch.setattr(PatientProtocol, "data_received", received)
    with running() as port, connect(port) as endless:
        next_piece = start
        while not select.select([endless], [], [], 0)[0]:
            endless.sendall(next_piece)
            n_sent += len(next_piece)
            # A connection that is closed before all is read would be reset, without an answer.
            until(lambda: n_read == n_sent)
            next_piece = piece
        assert HEADER_BYTES < n_sent < 2 * HEADER_BYTES
        answer = endless.recv(1000)
        assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert answer.endswith(b'\r\n\r\n{"error": "the header is longer than 65536 bytes"}')
        assert is_closed(endless)
        assert_serves(port)


def test_an_endless_trailer():
    chunked = HEADER.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
    with running() as port, connect(port) as endless:
        endless.sendall(chunked + b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY))
        with pytest.raises(ConnectionError):
            for _ in range(100_000):
                endless.sendall(b"X: a\r\n" * 1000)
        assert_serves(port)


def test_long_headers_and_bodies():
    """The limit is for each header alone, and not for bodies."""
    body = {"q": "a", "source": "en", "target": "de", "more": "a" * 4 * HEADER_BYTES}
    headers = {"x": "a" * (HEADER_BYTES // 2)}
    with running() as port, httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(3):
            answer = client.post("/translate", json=body, headers=headers)
            assert answer.json() == {"translatedText": "A"}


def test_a_body_that_does_not_arrive():
    with running(timeout_seconds=0.5) as port, connect(port) as slow:
        slow.sendall(HEADER % len(BODY) + BODY[:5])
        assert b" 408 " in slow.recv(1000)


def test_a_body_that_arrives_late():
    with running() as port, connect(port) as slow:
        slow.sendall(HEADER % len(BODY) + BODY[:5])
        assert_serves(port)
        slow.sendall(BODY[5:])
        assert b" 200 OK" in slow.recv(1000)


def test_a_long_translation_is_not_cut_short(late):
    with running(late) as port:
        assert_serves(port)


def test_pipelined_requests(late):
    """The header of the second one is read while the first one is answered."""
    with running(late) as port, connect(port) as fast:
        fast.sendall(2 * (HEADER % len(BODY) + BODY))
        received = b""
        while received.count(b" 200 OK") < 2:
            more = fast.recv(1000)
            assert more, received
            received += more


def test_a_client_that_leaves_cancels_its_sentences():
    translator = UpperCase(seconds=600)
    with running(translator) as port:
        body = json.dumps({"q": "One. Two. Three.\nFour", "source": "en", "target": "de"}).encode()
        with connect(port) as leaving:
            leaving.sendall(HEADER % len(body) + body)
            until(lambda: translator.under_way == 4)
        until(lambda: translator.cancelled == 4)
        counted = 'fastdec_requests_total{path="/translate",status="499"} 1.0'
        until(lambda: counted in httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=120).text)
