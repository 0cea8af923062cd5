"""Cached reads through `compat.caio` held the event loop until the last one: a task that read thousands of
files did not suspend once, and other tasks ran hundreds of milliseconds late.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from proactor.compat import caio
from proactor.compat.caio import turn

Run = Callable[[Coroutine[Any, Any, Any]], Any]

READS = 100


@pytest.fixture
def cached(tmp_path: Path) -> Any:
    path = tmp_path / "file"
    path.write_bytes(b"hello world")
    path.read_bytes()
    fd = os.open(path, os.O_RDONLY)
    yield fd
    os.close(fd)


async def turns_of_another_task(work: Coroutine[Any, Any, None]) -> int:
    """How often another task ran until the work was done."""
    count = 0

    async def other() -> None:
        nonlocal count
        while True:
            await asyncio.sleep(0)
            count += 1

    task = asyncio.ensure_future(other())
    await work
    task.cancel()
    return count


def test_others_run_once_the_share_of_a_turn_is_used_up(
    monkeypatch: pytest.MonkeyPatch, run: Run, cached: int
) -> None:
    # All of a turn is used up by its first read.
    monkeypatch.setattr(turn, "TURN_S", -1)

    async def main() -> int:
        async with caio.AsyncioContext() as context:

            async def work() -> None:
                for _ in range(READS):
                    assert await context.read(11, cached, 0) == b"hello world"

            return await turns_of_another_task(work())

    assert run(main()) >= READS - 1


def test_all_tasks_get_their_turn(monkeypatch: pytest.MonkeyPatch, run: Run, cached: int) -> None:
    monkeypatch.setattr(turn, "TURN_S", -1)

    async def main() -> Any:
        async with caio.AsyncioContext(4) as context:
            return await asyncio.gather(*(context.read(11, cached, 0) for _ in range(READS)))

    assert run(main()) == [b"hello world"] * READS


def test_closing_ends_the_wait_for_a_turn(monkeypatch: pytest.MonkeyPatch, run: Run, cached: int) -> None:
    monkeypatch.setattr(turn, "TURN_S", -1)

    async def main() -> list[Any]:
        context = caio.AsyncioContext()
        reads = [asyncio.ensure_future(context.read(11, cached, 0)) for _ in range(READS)]
        await asyncio.sleep(0)
        context.close()
        return await asyncio.gather(*reads, return_exceptions=True)

    outcomes = run(main())
    assert any(isinstance(outcome, RuntimeError) for outcome in outcomes)
    assert all(outcome == b"hello world" or isinstance(outcome, RuntimeError) for outcome in outcomes)


def test_a_cancelled_wait_for_a_turn_passes_it_on(
    monkeypatch: pytest.MonkeyPatch, run: Run, cached: int
) -> None:
    monkeypatch.setattr(turn, "TURN_S", -1)

    async def main() -> list[Any]:
        async with caio.AsyncioContext() as context:
            reads = [asyncio.ensure_future(context.read(11, cached, 0)) for _ in range(READS)]
            await asyncio.sleep(0)
            for read in reads[::2]:
                read.cancel()
            return await asyncio.gather(*reads[1::2])

    assert run(main()) == [b"hello world"] * (READS // 2)
