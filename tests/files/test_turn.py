"""The turn that the calls of a text file take."""

from __future__ import annotations

import asyncio
import gc
import weakref

from conftest import LoopFactory, Run
from file_helpers import in_time
from proactor._text_base import Turn


def test_in_the_order_of_asking_whoever_is_cancelled(run: Run) -> None:
    async def main() -> None:
        turn = Turn()
        order: list[int] = []

        async def use(number: int) -> None:
            async with turn:
                order.append(number)
                await asyncio.sleep(0)

        await turn.__aenter__()
        tasks = [asyncio.ensure_future(use(number)) for number in range(5)]
        await asyncio.sleep(0)
        assert (turn.users, order) == (6, [])
        turn.leave()
        # It has the turn and never uses it; the other gives up its place.
        tasks[0].cancel()
        tasks[2].cancel()
        newcomer = asyncio.ensure_future(use(9))
        await asyncio.gather(*tasks, newcomer, return_exceptions=True)
        assert (turn.users, order) == (0, [1, 3, 4, 9])

    run(in_time(main()))


def test_all_who_wait_are_cancelled(run: Run) -> None:
    async def main() -> None:
        turn = Turn()

        async def use() -> None:
            async with turn:
                await asyncio.sleep(0)

        await turn.__aenter__()
        tasks = [asyncio.ensure_future(use()) for _ in range(3)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        turn.leave()
        # Before they have heard of it.
        await use()
        await asyncio.gather(*tasks, return_exceptions=True)
        await use()
        assert turn.users == 0

    run(in_time(main()))


def test_no_loop_is_kept_alive(event_loop_factory: LoopFactory) -> None:
    turn = Turn()

    async def use() -> None:
        async with turn:
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(*(use() for _ in range(3)))

    loop = event_loop_factory()
    loop.run_until_complete(main())
    loop.close()
    gone = weakref.ref(loop)
    del loop
    gc.collect()
    assert gone() is None
