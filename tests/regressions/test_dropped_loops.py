"""Event loops that are dropped, not closed, while a call of ours waits.

Users saw the descriptors, threads and tasks of each such loop stay for ever: the collector could not see
that nobody had them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import proactor
import pytest

Pending = Callable[[Path, str], Awaitable[Any]]


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Limiter(asyncio.Semaphore):
    """A limiter that knows its file."""

    file: Any = None


async def binary_read(fifo: Path, engine: str) -> None:
    file = await proactor.open(fifo, "rb", buffering=0, engine=engine)
    await file.read(1)


async def two_readers(fifo: Path, engine: str) -> None:
    file = await proactor.open(fifo, "rb", engine=engine)
    await asyncio.gather(file.read(1), file.readinto(bytearray(8)))


async def text_line(fifo: Path, engine: str) -> None:
    async with proactor.open(fifo, engine=engine) as file:
        await file.readline()


async def with_a_limiter(fifo: Path, engine: str) -> None:
    limiter = Limiter(1)
    limiter.file = await proactor.open(fifo, "rb", engine=engine, limiter=limiter)
    await limiter.file.read(1)


async def whole_file(fifo: Path, engine: str) -> None:
    await proactor.read_bytes(fifo, engine=engine)


async def batch(fifo: Path, engine: str) -> None:
    async for _ in proactor.read_many([fifo] * 3, engine=engine):
        pass


async def lock(fifo: Path, engine: str) -> None:
    async with AsyncExitStack() as stack:
        files = [
            await stack.enter_async_context(proactor.open(fifo.with_name("disk"), "wb", engine=engine))
            for _ in range(2)
        ]
        await files[0].lock()
        await files[1].lock()


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    # Nothing ever comes, and to open it does not wait.
    writer = os.open(path, os.O_RDWR)
    yield path
    os.close(writer)


def drop(pending: Pending, fifo: Path, engine: str) -> weakref.ref[Any]:
    """Drops a loop while the call waits."""

    async def begin() -> None:
        waiting.append(asyncio.ensure_future(pending(fifo, engine)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not waiting[0].done()

    waiting: list[asyncio.Future[Any]] = []
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    loop.run_until_complete(begin())
    waiting.clear()
    return weakref.ref(loop)


@pytest.mark.parametrize(
    "pending", [binary_read, two_readers, text_line, with_a_limiter, whole_file, batch, lock]
)
def test_a_loop_that_is_dropped_is_collected(fifo: Path, engine: str, pending: Pending) -> None:
    gc.collect()
    before, threads = descriptors(), threading.active_count()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        for _ in range(3):
            gone = drop(pending, fifo, engine)
            gc.collect()
            assert gone() is None
        gc.collect()
    assert descriptors() == before
    assert threading.active_count() == threads


def test_what_was_written_is_in_the_file(tmp_path: Path, engine: str) -> None:
    """The buffers of a file that goes with its loop are written, as those of any file that is dropped."""
    path = tmp_path / "file"

    async def write() -> None:
        file = await proactor.open(path, "wb", engine=engine)
        await file.write(b"written")
        # In a circle, so that the collector decides.
        circle: list[Any] = [file]
        circle.append(circle)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(write())
        gone = weakref.ref(loop)
        del loop
        gc.collect()
    assert gone() is None
    assert path.read_bytes() == b"written"
