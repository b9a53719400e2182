"""Long work leaves the event loop to other tasks."""

import asyncio

import pytest

from fairseq_fastdec.translating import turns


async def iterations(counted):
    while True:
        counted.append(len(counted))
        await asyncio.sleep(0)


def run(work):
    """The result of a coroutine, which is passed a list that grows in each iteration."""

    async def both():
        counted = []
        counting = asyncio.ensure_future(iterations(counted))
        try:
            return await work(counted)
        finally:
            counting.cancel()

    return asyncio.run(both())


def test_an_iteration_has_one_turn():
    async def work(counted):
        async def take():
            await turns.turn()
            taken.append(len(counted))

        taken = []
        await asyncio.gather(*(take() for _ in range(50)))
        return taken

    taken = run(work)
    assert taken == sorted(set(taken)) and taken[-1] <= 3 * len(taken)


def test_turns_are_taken_in_order_and_can_be_given_up():
    async def work(counted):
        async def take(number):
            await turns.turn()
            taken.append(number)

        taken = []
        tasks = [asyncio.ensure_future(take(number)) for number in range(9)]
        await asyncio.sleep(0)
        for task in tasks[1::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return taken

    assert run(work) == [0, 2, 4, 6, 8]


def test_each_loop_has_its_turns():
    for _ in range(2):
        run(lambda counted: asyncio.gather(*(turns.turn() for _ in range(3))))


def test_an_iterator_is_interrupted(monkeypatch):
    monkeypatch.setattr(turns, "TURN", 0)

    async def work(counted):
        return await turns.in_turns(len(counted) if number % 2 else None for number in range(100))

    found = run(work)
    assert len(found) == 50 and len(set(found)) == 50


def test_errors_of_an_iterator():
    async def work(counted):
        return await turns.in_turns(1 // number for number in (1, 0))

    with pytest.raises(ZeroDivisionError):
        run(work)


def test_so_many_calls_at_once():
    now, most = 0, 0

    async def call(number):
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1
        return -number

    arguments = ((number,) for number in range(50))
    assert asyncio.run(turns.at_most(7, call, arguments)) == [-number for number in range(50)]
    assert most == 7


def test_one_failure_cancels_the_others():
    cancelled = []

    async def call(name):
        if name == "B":
            raise ValueError("no")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(name)
            raise

    async def fail():
        with pytest.raises(ValueError, match="no"):
            await turns.at_most(8, call, zip("ABC"))
        await asyncio.sleep(0)

    asyncio.run(fail())
    assert sorted(cancelled) == ["A", "C"]
