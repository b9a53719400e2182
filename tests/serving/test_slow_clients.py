"""Clients that are slow hold nothing up, and those that leave are not worked for."""

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
    while connection.recv(1000):
        pass
    return True


def assert_serves(port):
    answer = httpx.post(f"http://127.0.0.1:{port}/translate", content=BODY, timeout=120,
                        headers={"content-type": "application/json"})  # fmt: skip
    assert answer.json() == {"translatedText": "A"}


@pytest.mark.parametrize("sent", [b"", b"POST /translate HTTP/1.1\r\nHost: a\r\n"])
def test_a_header_that_does_not_arrive(sent, monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 0.5)
    with running() as port:
        slow = [connect(port) for _ in range(50)]
        for connection in slow:
            connection.sendall(sent)
        assert_serves(port)
        assert all(is_closed(connection) for connection in slow)


def test_a_header_that_arrives_byte_by_byte(monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 0.5)
    with running() as port, connect(port) as slow:
        with pytest.raises(OSError):
            for _ in range(100):
                slow.sendall(b"G")
                time.sleep(0.05)
        assert_serves(port)


def test_a_slow_second_request_of_a_connection(monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 0.5)
    with running() as port, connect(port) as slow:
        slow.sendall(HEADER % len(BODY) + BODY)
        assert b" 200 OK" in slow.recv(1000)
        slow.sendall(b"POST ")
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
def test_an_endless_header(start, piece):
    with running() as port, connect(port) as endless:
        endless.sendall(start)
        n_pieces = 0
        while not select.select([endless], [], [], 0.05)[0]:
            endless.sendall(piece)
            n_pieces += 1
        assert HEADER_BYTES < n_pieces * len(piece) < 10 * HEADER_BYTES
        answer = endless.recv(1000)
        assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert answer.endswith(b'\r\n\r\n{"error": "the header is longer than 65536 bytes"}')
        assert is_closed(endless)
        assert_serves(port)


def test_an_endless_trailer():
    chunked = HEADER.replace(b"Content-Length: %d", b"Transfer-Encoding: chunked")
    with running() as port, connect(port) as endless:
        endless.sendall(chunked + b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY))
        with pytest.raises(OSError):
            for _ in range(1000):
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
        assert_serves(port)
        assert b" 408 " in slow.recv(1000)


def test_a_long_translation_is_not_cut_short(monkeypatch):
    monkeypatch.setattr(PatientProtocol, "header_seconds", 0.2)
    with running(UpperCase(seconds=0.6)) as port:
        assert_serves(port)


def test_pipelined_requests(monkeypatch):
    """The header of the second one is read while the first one is answered."""
    monkeypatch.setattr(PatientProtocol, "header_seconds", 0.2)
    with running(UpperCase(seconds=0.6)) as port, connect(port) as fast:
        fast.sendall(2 * (HEADER % len(BODY) + BODY))
        received = b""
        while received.count(b" 200 OK") < 2:
            more = fast.recv(1000)
            assert more, received
            received += more


def test_a_client_that_leaves_cancels_its_sentences():
    translator = UpperCase(seconds=60)
    with running(translator) as port:
        body = json.dumps({"q": "One. Two. Three.\nFour", "source": "en", "target": "de"}).encode()
        with connect(port) as leaving:
            leaving.sendall(HEADER % len(body) + body)
            until(lambda: translator.under_way == 4)
        until(lambda: translator.cancelled == 4)
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    assert 'fastdec_requests_total{path="/translate",status="499"} 1.0' in metrics
