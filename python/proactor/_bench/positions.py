"""Reads at random positions of one file, many at once.

Only the time of one read in `EACH` is taken: asking the clock twice takes a tenth of a cached read's time.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from proactor._bench import packages
from proactor._bench.measuring import by_workers
from proactor._bench.taken import Taken, now_ns

SIZE_BYTES = 4096
WORKERS = 64
EACH = 16

Read = Callable[[int], Awaitable[Any]]


async def all_at(offsets: Sequence[int], taken: Taken, reads: Sequence[Read]) -> None:
    """Each of `reads` has one read at a time."""
    free = list(reads)
    numbers = itertools.count()

    async def one(offset: int) -> None:
        read = free.pop()
        if next(numbers) % EACH:
            taken.add(await read(offset))
        else:
            begin = now_ns()
            taken.took(begin, await read(offset))
        free.append(read)

    await by_workers(offsets, len(reads), one)


def by_pread(path: str, offsets: Sequence[int], taken: Taken) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for number, offset in enumerate(offsets):
            if number % EACH:
                taken.add(os.pread(fd, SIZE_BYTES, offset))
            else:
                begin = now_ns()
                taken.took(begin, os.pread(fd, SIZE_BYTES, offset))
    finally:
        os.close(fd)


async def by_to_thread(path: str, offsets: Sequence[int], taken: Taken) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:

        async def read(offset: int) -> bytes:
            return await asyncio.to_thread(os.pread, fd, SIZE_BYTES, offset)

        await all_at(offsets, taken, [read] * WORKERS)
    finally:
        os.close(fd)


def by_seeking(package: str) -> Callable[[str, Sequence[int], Taken], Any]:
    """A file has one position, so every worker has a file of its own."""

    async def all_of(path: str, offsets: Sequence[int], taken: Taken) -> None:
        def reader(file: Any) -> Read:
            async def read(offset: int) -> Any:
                await file.seek(offset)
                return await file.read(SIZE_BYTES)

            return read

        async with AsyncExitStack() as stack:
            open_ = packages.opener(package)
            files = [await stack.enter_async_context(open_(path, "rb", buffering=0)) for _ in range(WORKERS)]
            await all_at(offsets, taken, [reader(file) for file in files])

    return all_of


async def by_aiofile(path: str, offsets: Sequence[int], taken: Taken) -> None:
    async with packages.module("aiofile").AIOFile(path, "rb") as file:

        async def read(offset: int) -> Any:
            return await file.read_bytes(SIZE_BYTES, offset)

        await all_at(offsets, taken, [read] * WORKERS)


async def by_caio(path: str, offsets: Sequence[int], taken: Taken) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        async with packages.module("caio").AsyncioContext(max_requests=WORKERS) as context:

            async def read(offset: int) -> Any:
                return await context.read(SIZE_BYTES, fd, offset)

            await all_at(offsets, taken, [read] * WORKERS)
    finally:
        os.close(fd)


async def by_proactor(path: str, offsets: Sequence[int], taken: Taken) -> None:
    async with packages.opener("proactor")(path, "rb") as file:

        async def read(offset: int) -> Any:
            return await file.pread(SIZE_BYTES, offset)

        await all_at(offsets, taken, [read] * WORKERS)


CONTENDERS: dict[str, Callable[[str, Sequence[int], Taken], Any]] = {
    "os.pread": by_pread,
    "asyncio.to_thread": by_to_thread,
    "aiofiles": by_seeking("aiofiles"),
    "aiofile": by_aiofile,
    "anyio": by_seeking("anyio"),
    "caio": by_caio,
    "proactor.open": by_proactor,
}
