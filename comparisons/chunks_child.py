"""One cell of chunks.py, in a process of its own: a reader of one file, in a sequence or at random.

Called with the reader's name and what it shall do; the last line that it prints is a JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import mmap
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import lib
import packages

BLOCK = 4096
WHOLE = -1


def open_direct(path: str, flags: int) -> int:
    """An `opener`."""
    return os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC)


@contextmanager
def descriptor(path: str, *, direct: bool) -> Iterator[int]:
    fd = open_direct(path, os.O_RDONLY) if direct else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


# In a sequence, by chunks or as a whole. Each reader gives the number of bytes that it has read.


async def drain(read: Callable[[int], Awaitable[bytes]], chunk: int) -> int:
    if chunk == WHOLE:
        return len(await read(WHOLE))
    total = 0
    while data := await read(chunk):
        total += len(data)
    return total


async def fill(readinto: Callable[[mmap.mmap], Awaitable[int]], chunk: int) -> int:
    """Again and again into the same memory, which is aligned to a page."""
    buffer = mmap.mmap(-1, chunk)
    total = 0
    while count := await readinto(buffer):
        total += count
    return total


def by_open(path: str, chunk: int) -> int:
    with open(path, "rb", buffering=0) as file:
        if chunk == WHOLE:
            return len(file.read())
        total = 0
        while data := file.read(chunk):
            total += len(data)
        return total


def into_by_open(path: str, chunk: int) -> int:
    buffer = mmap.mmap(-1, chunk)
    total = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    return total


def direct_by_os(path: str, chunk: int) -> int:
    buffers = [mmap.mmap(-1, chunk)]
    total = 0
    with descriptor(path, direct=True) as fd:
        while count := os.preadv(fd, buffers, total):
            total += count
    return total


async def by_to_thread(path: str, chunk: int) -> int:
    with open(path, "rb", buffering=0) as file:  # noqa: ASYNC230 - a file that is there is opened at once

        def read(size: int) -> Awaitable[Any]:
            return asyncio.to_thread(file.read, size)

        return await drain(read, chunk)


async def direct_by_to_thread(path: str, chunk: int) -> int:
    with descriptor(path, direct=True) as fd:
        buffers = [mmap.mmap(-1, chunk)]
        total = 0
        while count := await asyncio.to_thread(os.preadv, fd, buffers, total):
            total += count
        return total


async def by_aiofiles(path: str, chunk: int) -> int:
    import aiofiles

    async with aiofiles.open(path, "rb", buffering=0) as file:
        return await drain(file.read, chunk)


async def direct_by_aiofiles(path: str, chunk: int) -> int:
    import aiofiles

    async with aiofiles.open(path, "rb", buffering=0, opener=open_direct) as file:
        return await fill(file.readinto, chunk)


async def by_aiofile(path: str, chunk: int) -> int:
    import aiofile

    async with aiofile.async_open(path, "rb") as file:
        read: Callable[[int], Awaitable[Any]] = file.read
        return await drain(read, chunk)


async def by_anyio(path: str, chunk: int) -> int:
    import anyio

    async with await anyio.open_file(path, "rb", buffering=0) as file:
        return await drain(file.read, chunk)


async def direct_by_anyio(path: str, chunk: int) -> int:
    import anyio

    async with await anyio.open_file(path, "rb", buffering=0, opener=open_direct) as file:
        return await fill(file.readinto, chunk)


async def by_read(path: str, chunk: int, *, direct: bool = False) -> int:
    import proactor

    async with proactor.open(path, "rb", direct=direct) as file:
        return await drain(file.read, chunk)


async def by_readinto(path: str, chunk: int, *, direct: bool = False) -> int:
    import proactor

    async with proactor.open(path, "rb", direct=direct) as file:
        return await fill(file.readinto, chunk)


async def by_read_bytes(path: str, chunk: int) -> int:
    import proactor

    return len(await proactor.read_bytes(path))


async def direct_by_read(path: str, chunk: int) -> int:
    return await by_read(path, chunk, direct=True)


async def direct_by_readinto(path: str, chunk: int) -> int:
    return await by_readinto(path, chunk, direct=True)


Plain = Callable[[str, int], int]
OnALoop = Callable[[str, int], Awaitable[int]]

# By state and name; the first is what the others are compared with.
BUFFERED: dict[str, Plain | OnALoop] = {
    "open(), read": by_open,
    "open(), readinto": into_by_open,
    "asyncio.to_thread": by_to_thread,
    "aiofiles": by_aiofiles,
    "aiofile": by_aiofile,
    "anyio": by_anyio,
    "proactor.open, read": by_read,
    "proactor.open, readinto": by_readinto,
    "proactor.read_bytes": by_read_bytes,
}
# aiofile has no way to read into memory that is aligned.
DIRECT: dict[str, Plain | OnALoop] = {
    "os.preadv": direct_by_os,
    "asyncio.to_thread": direct_by_to_thread,
    "aiofiles": direct_by_aiofiles,
    "anyio": direct_by_anyio,
    "proactor.open, read": direct_by_read,
    "proactor.open, readinto": direct_by_readinto,
}


def sequential_readers(state: str, chunk: int) -> list[str]:
    """The names of those that can do it."""
    not_here = ("readinto",) if chunk == WHOLE else ("read_bytes",)
    return [name for name in (DIRECT if state == "direct" else BUFFERED) if not name.endswith(not_here)]


def measure_sequential(name: str, path: str, chunk: int, *, direct: bool) -> lib.Measured:
    reader = (DIRECT if direct else BUFFERED)[name]
    costs, lateness = lib.Costs(system_calls=False), lib.Lateness()

    async def on_a_loop() -> Any:
        with costs.counted(), lateness.watch():
            return await reader(path, chunk)  # type: ignore[misc]

    if inspect.iscoroutinefunction(reader):
        total = asyncio.run(on_a_loop())
        return {**costs.as_dict(), "bytes": total, "late_max_s": lateness.max_s}
    with costs.counted():
        total = reader(path, chunk)
    return {**costs.as_dict(), "bytes": total, "late_max_s": None}


# At random. Each of `depth` workers reads one block after the other; no block is read twice. Where memory has
# to be aligned, os.preadv takes the place of os.pread.

# How many a worker has read, and the last one with its offset.
Done = tuple[int, int, "bytes | mmap.mmap"]
NOTHING: Done = (0, 0, b"")


def until(deadline: float, offsets: Iterator[int]) -> Iterator[int]:
    for offset in offsets:
        if time.perf_counter() > deadline:
            return
        yield offset


def random_by_threads(path: str, offsets: Iterator[int], deadline: float, depth: int, direct: bool) -> Any:
    """No event loop: each thread does nothing but read."""

    def work(fd: int) -> Done:
        done, page = NOTHING, mmap.mmap(-1, BLOCK)
        for count, offset in enumerate(until(deadline, offsets), 1):
            if direct:
                os.preadv(fd, [page], offset)
            data = page if direct else os.pread(fd, BLOCK, offset)
            done = count, offset, data
        return done[0], done[1], bytes(done[2])

    with descriptor(path, direct=direct) as fd, ThreadPoolExecutor(depth) as pool:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return list(pool.map(work, [fd] * depth))


async def random_by_executor(
    path: str, offsets: Iterator[int], deadline: float, depth: int, direct: bool
) -> Any:
    loop = asyncio.get_running_loop()

    async def work(fd: int, pool: ThreadPoolExecutor) -> Done:
        done, page = NOTHING, mmap.mmap(-1, BLOCK)
        for count, offset in enumerate(until(deadline, offsets), 1):
            if direct:
                await loop.run_in_executor(pool, os.preadv, fd, [page], offset)
                done = count, offset, page
            else:
                done = count, offset, await loop.run_in_executor(pool, os.pread, fd, BLOCK, offset)
        return done[0], done[1], bytes(done[2])

    with descriptor(path, direct=direct) as fd, ThreadPoolExecutor(depth) as pool:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        return await asyncio.gather(*(work(fd, pool) for _ in range(depth)))


async def random_by_pread(
    path: str, offsets: Iterator[int], deadline: float, depth: int, direct: bool
) -> Any:
    import proactor

    async def work(file: proactor.BinaryFile) -> Done:
        done = NOTHING
        for count, offset in enumerate(until(deadline, offsets), 1):
            done = count, offset, await file.pread(BLOCK, offset)
        return done

    async with proactor.open(path, "rb", direct=direct) as file:
        await file.advise(os.POSIX_FADV_RANDOM)
        return await asyncio.gather(*(work(file) for _ in range(depth)))


async def random_by_preadinto(
    path: str, offsets: Iterator[int], deadline: float, depth: int, direct: bool
) -> Any:
    import proactor

    async def work(file: proactor.BinaryFile) -> Done:
        done, page = NOTHING, mmap.mmap(-1, BLOCK)
        for count, offset in enumerate(until(deadline, offsets), 1):
            await file.preadinto(page, offset)
            done = count, offset, page
        return done[0], done[1], bytes(done[2])

    async with proactor.open(path, "rb", direct=direct) as file:
        await file.advise(os.POSIX_FADV_RANDOM)
        return await asyncio.gather(*(work(file) for _ in range(depth)))


RANDOM: dict[str, Callable[..., Any]] = {
    "threads": random_by_threads,
    "asyncio, ThreadPoolExecutor": random_by_executor,
    "proactor pread": random_by_pread,
    "proactor preadinto": random_by_preadinto,
}


def measure_random(name: str, path: str, depth: int, seconds: float, *, direct: bool) -> lib.Measured:
    blocks = os.path.getsize(path) // BLOCK
    order = list(range(0, blocks * BLOCK, BLOCK))
    random.shuffle(order)
    reader, offsets = RANDOM[name], iter(order)
    costs, lateness = lib.Costs(system_calls=False), lib.Lateness()

    async def on_a_loop() -> Any:
        with costs.counted(), lateness.watch():
            return await reader(path, offsets, time.perf_counter() + seconds, depth, direct)

    if inspect.iscoroutinefunction(reader):
        found, late = asyncio.run(on_a_loop()), lateness.max_s
    else:
        with costs.counted():
            found, late = reader(path, offsets, time.perf_counter() + seconds, depth, direct), None
    with open(path, "rb") as file:
        for _, offset, data in found:
            expected = os.pread(file.fileno(), len(data), offset)
            assert data == expected, f"{name}: wrong bytes at {offset}"
    count = sum(count for count, _, _ in found)
    assert count, f"{name}: nothing was read"
    assert all(len(data) == BLOCK for each, _, data in found if each), f"{name}: a short read"
    cpu_us = (costs.user_s + costs.system_s) / count * 1e6
    iops = count / costs.wall_s
    return {**costs.as_dict(), "reads": count, "iops": iops, "cpu_us": cpu_us, "late_max_s": late}


def main() -> None:
    parser = argparse.ArgumentParser(description="One cell of chunks.py.")
    parser.add_argument("reader")
    parser.add_argument("path")
    parser.add_argument("--chunk", type=int, default=WHOLE)
    parser.add_argument("--depth", type=int, help="random reads with so many at once")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--direct", action="store_true")
    args = parser.parse_args()
    packages.import_for(args.reader)
    if args.depth:
        seconds, direct = args.seconds, args.direct
        lib.report(measure_random(args.reader, args.path, args.depth, seconds, direct=direct))
    else:
        lib.report(measure_sequential(args.reader, args.path, args.chunk, direct=args.direct))


if __name__ == "__main__":
    main()
