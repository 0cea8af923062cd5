"""Calls that are cancelled while somebody keeps them, as a task does.

Users saw a `bytearray` refuse to be resized (BufferError) for as long as the cancelled task lived that had
read into it, and cancelled batches read gigabytes on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run

DEADLINE_S = 30


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 (descriptors have no events)
        await asyncio.sleep(0.001)


def in_time(coroutine: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None]:
    return asyncio.wait_for(coroutine, DEADLINE_S)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    # Nothing ever comes, and to open it does not wait.
    writer = os.open(path, os.O_RDWR)
    yield path
    os.close(writer)


async def cancelled(call: Any) -> asyncio.Future[Any]:
    task: asyncio.Future[Any] = asyncio.ensure_future(call)
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return task


@pytest.mark.parametrize("buffering", [0, 8192])
@pytest.mark.parametrize("name", ["readinto", "readinto1"])
@pytest.mark.parametrize("queued", [False, True])
def test_its_memory_is_the_callers_again(
    run: Run, fifo: Path, engine: str, name: str, buffering: int, queued: bool
) -> None:
    if name == "readinto1" and buffering == 0:
        name = "readinto"

    async def main() -> None:
        async with proactor.open(fifo, "rb", buffering=buffering, engine=engine) as file:
            first = asyncio.ensure_future(file.read(1)) if queued else None
            buffer = bytearray(100)
            call = getattr(file, name)(buffer)
            task = await cancelled(call)
            # The task and the coroutine are alive.
            buffer.extend(b"longer")
            with pytest.raises(RuntimeError, match="already awaited"):
                await call
            assert task.cancelled()
            if first is not None:
                first.cancel()

    run(in_time(main()))


def test_a_call_that_has_just_got_its_turn_passes_it_on(run: Run, fifo: Path, engine: str) -> None:
    async def main() -> None:
        writer = os.open(fifo, os.O_WRONLY)
        async with proactor.open(fifo, "rb", buffering=0, engine=engine) as file:

            async def first() -> bytes | None:
                data = await file.read(1)
                # Its turn has come, and it has not run since.
                second.cancel()
                return data

            one = asyncio.ensure_future(first())
            await asyncio.sleep(0)
            second = asyncio.ensure_future(file.read(1))
            await asyncio.sleep(0)
            os.write(writer, b"a")
            assert await one == b"a"
            with pytest.raises(asyncio.CancelledError):
                await second
            os.write(writer, b"b")
            assert await file.read(1) == b"b"
        os.close(writer)

    run(in_time(main()))


@pytest.mark.parametrize("dropped", [False, True])
def test_a_call_gives_up_its_file(run: Run, fifo: Path, engine: str, dropped: bool) -> None:
    async def main() -> None:
        await proactor.read_bytes("/proc/self/status", engine=engine)
        before = descriptors()
        call = proactor.read_bytes(fifo, engine=engine)
        if dropped:
            call.send(None)
            await until(lambda: descriptors() - before)
            del call
        else:
            task = asyncio.ensure_future(call)
            # It has been opened, and waits.
            await until(lambda: descriptors() - before)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await until(lambda: not descriptors() - before)

    run(in_time(main()))


@pytest.mark.parametrize("options", [{}, {"ordered": False}, {"concurrency": 2}, {"workers": 2}])
def test_a_batch_that_nobody_has_gives_up_its_files(
    run: Run, fifo: Path, engine: str, options: dict[str, Any]
) -> None:
    async def consume() -> None:
        async for _ in proactor.read_many([fifo] * 4, engine=engine, **options):
            pass

    async def main() -> None:
        await proactor.read_bytes("/proc/self/status", engine=engine)
        before = descriptors()
        task = asyncio.ensure_future(consume())
        # They have been opened, and wait.
        await until(lambda: len(descriptors() - before) >= 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: not descriptors() - before)

    run(in_time(main()))


def test_a_cancelled_step_loses_no_file(run: Run, fifo: Path, engine: str) -> None:
    """Whoever still has the batch goes on with it."""

    async def main() -> None:
        batch = proactor.read_many([fifo], engine=engine)
        await cancelled(batch.__anext__())
        writer = os.open(fifo, os.O_WRONLY)
        following = asyncio.ensure_future(batch.__anext__())
        await asyncio.sleep(0)
        os.write(writer, b"data")
        os.close(writer)
        await asyncio.sleep(0)
        assert not following.done()
        following.cancel()

    run(in_time(main()))
