"""Divides long work on an event loop into pieces, between which the loop runs other tasks."""

import asyncio
import time
import weakref
from collections.abc import Iterable
from typing import Optional, TypeVar

Collected = TypeVar("Collected")

# How long an iterator is advanced in one turn, in seconds.
TURN = 0.001

_LOCKS: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]" = (
    weakref.WeakKeyDictionary()
)


async def turn() -> None:
    """Wait until no other task has had a turn in this iteration of the event loop.

    The caller can then compute for a short time. However many tasks take turns, an iteration of the
    loop, and with it the response to a small request, is delayed by one of them alone.
    """
    loop = asyncio.get_running_loop()
    lock = _LOCKS.get(loop)
    if lock is None:
        lock = _LOCKS[loop] = asyncio.Lock()
    await lock.acquire()
    loop.call_soon(lock.release)


async def in_turns(items: Iterable[Optional[Collected]]) -> list[Collected]:
    """Collect the items of an iterator that takes long, but not from one item to the next.

    Args:
        items: ``None`` stands for a piece of work without a result.
    """
    found = []
    await turn()
    end = time.perf_counter() + TURN
    for item in items:
        if item is not None:
            found.append(item)
        if time.perf_counter() > end:
            await turn()
            end = time.perf_counter() + TURN
    return found
