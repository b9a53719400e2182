"""Limits for clients: time limits, the size of headers, and cancellation if they disconnect."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, Optional

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0
HEADER_BYTES = 1 << 16


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, closing connections whose request header is late or too large.

    A header is too large if more than :data:`HEADER_BYTES` bytes are read after its first piece.
    The limit also applies to the trailer of a chunked body.
    """

    header_seconds = HEADER_SECONDS
    _timer: Optional[asyncio.TimerHandle] = None
    # The bytes that have been read since the last complete header or piece of a body.
    _n_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._n_bytes += len(data)
        super().data_received(data)
        if self._n_bytes > HEADER_BYTES and not self.transport.is_closing():
            self._refuse()

    def on_message_begin(self) -> None:
        self._n_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._n_bytes = 0
        self._stop()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._n_bytes = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        # For the next request, if the connection stays open. The headers of pipelined requests
        # have already arrived.
        if not self.pipeline:
            self._watch()
        super().on_response_complete()

    def _refuse(self) -> None:
        """Close the connection, with status 431 unless an earlier request is being answered."""
        if self.cycle is None or self.cycle.response_complete:
            body = json.dumps({"error": f"the header is longer than {HEADER_BYTES} bytes"})
            lines = [
                "HTTP/1.1 431 Request Header Fields Too Large",
                "content-type: application/json",
                f"content-length: {len(body)}",
                "connection: close",
            ]
            self.transport.write("\r\n".join([*lines, "", body]).encode())
        self.transport.close()

    def _watch(self) -> None:
        self._stop()
        self._timer = self.loop.call_later(self.header_seconds, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def in_time(work: Coroutine[Any, Any, Any], seconds: float, status: int, error: str) -> Any:
    """Await some work with a time limit.

    Raises:
        HTTPException: with the given status and error if the work takes longer; it is cancelled.
    """
    # Python 3.10 has no asyncio.timeout, and asyncio.wait_for creates a task.
    task, is_late = _own_task(), False

    def end() -> None:
        nonlocal is_late
        is_late = True
        task.cancel()

    timer = asyncio.get_running_loop().call_later(seconds, end)
    try:
        return await work
    except asyncio.CancelledError:
        if not is_late:
            raise
        _uncancel(task)
        raise HTTPException(status, error) from None
    finally:
        timer.cancel()


async def while_connected(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Await some work for a client; it is cancelled if the client disconnects.

    Args:
        request: the request, whose body must have been read.

    Raises:
        ClientDisconnect: if the client disconnects before the work is done.
    """
    task, has_left = _own_task(), False

    async def watch() -> None:
        nonlocal has_left
        while (await request.receive())["type"] != "http.disconnect":
            pass
        has_left = True
        task.cancel()

    watching = asyncio.ensure_future(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if not has_left:
            raise
        _uncancel(task)
        raise ClientDisconnect from None
    finally:
        watching.cancel()


def _own_task() -> Any:
    task = asyncio.current_task()
    assert task is not None
    return task


def _uncancel(task: Any) -> None:
    """Undo a handled cancellation; asyncio counts them since Python 3.11."""
    if hasattr(task, "uncancel"):
        task.uncancel()
