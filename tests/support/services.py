"""Translators to upper case, and servers that use them."""

import asyncio
import contextlib
import socket
import threading
import time

import httpx

from fairseq_fastdec.serving.app import LanguagePair, create_app
from fairseq_fastdec.serving.command import server_of
from fairseq_fastdec.serving.config import ServerOptions
from fairseq_fastdec.translating.errors import QueueFull
from fairseq_fastdec.translating.results import Translation


class UpperCase:
    """Translates into upper case; hypothesis i has i exclamation marks.

    Attributes:
        under_way: the number of sentences in progress.
        cancelled: the number of cancelled sentences.
        options: the options of the last call.
    """

    aligns = False

    def __init__(self, source="en", target="de", seconds=0.0, max_queue=10_000):
        self.source_lang, self.target_lang = source, target
        self.languages = None
        self.under_way = self.cancelled = 0
        self.options = {}
        self.closed = False
        self._seconds, self._max_queue = seconds, max_queue

    async def translate_async(self, text, *, details=False, **options):
        if self.under_way >= self._max_queue:
            raise QueueFull("the queue is full")
        if "fail" in text:
            raise ValueError("too long: 9 tokens")
        if "broken" in text:
            raise RuntimeError("a bug")
        self.options = options
        self.under_way += 1
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        n = options.get("nbest", 1)
        best = [text.upper() + "!" * i for i in range(n)]
        if details:
            pairs = [(place, place) for place in range(len(text))]
            best = [
                Translation(own, tokens=(*own,), source_tokens=(*text,), alignment=pairs)
                for own in best
            ]
        return best if n > 1 else best[0]

    async def score_async(self, text, translation, **options):
        await self.translate_async(text, **options)
        return -0.5 * len(translation)

    def queued(self):
        return 0, self.under_way

    def close(self):
        self.closed = True


def app_with(*translators, **options):
    """The application of some translators."""
    pairs = [LanguagePair(t.source_lang, t.target_lang, t) for t in translators or [UpperCase()]]
    return create_app(pairs, ServerOptions(**options))


def client_of(app):
    """An asynchronous client of an application in this process."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://service")


def call(app, method, path, **keywords):
    """A response of an application."""

    async def answer():
        async with client_of(app) as client:
            return await client.request(method, path, **keywords)

    return asyncio.run(answer())


def translate(app, **fields):
    """The response to a JSON request."""
    return call(app, "POST", "/translate", json={"source": "en", "target": "de", **fields})


def free_port():
    """An unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def running(*translators, **options):
    """Run a server in a thread, and yield its port."""
    port = free_port()
    server = server_of(app_with(*translators, port=port, **options), ServerOptions(port=port))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive())
        yield port
    finally:
        server.should_exit = True
        thread.join()


def until(is_so, seconds=120):
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.01)
