"""Divides long work on an event loop into pieces, between which the loop runs other tasks."""

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Optional, TypeVar

Collected = TypeVar("Collected")
Returned = TypeVar("Returned")

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


async def at_most(
    n: int, call: Callable[..., Awaitable[Returned]], arguments: Iterable[tuple[Any, ...]]
) -> list[Returned]:
    """Await calls with each of the arguments, n at the same time; their results, in order."""
    found: dict[int, Returned] = {}

    async def work() -> None:
        # All workers take from the same iterator.
        for number, own in calls:
            found[number] = await call(*own)

    calls = enumerate(arguments)
    await gather([work() for _ in range(n)])
    return [found[number] for number in range(len(found))]


async def gather(awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
    """Await all; if one fails, or the caller is cancelled, cancel the others."""
    if len(awaitables) == 1:  # most requests: no task needed
        return [await awaitables[0]]
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
