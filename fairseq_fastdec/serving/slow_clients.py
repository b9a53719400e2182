"""Time limits for slow clients, and cancellation for clients that disconnect."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Optional

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADER_SECONDS = 10.0


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, closing connections whose request header does not arrive in time."""

    header_seconds = HEADER_SECONDS
    _timer: Optional[asyncio.TimerHandle] = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._stop()
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        self._stop()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        # For the next request, if the connection stays open. The headers of pipelined requests
        # have already arrived.
        if not self.pipeline:
            self._watch()
        super().on_response_complete()

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
