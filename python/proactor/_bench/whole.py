"""Whole small files, many at once: each contender reads one, and hands its bytes over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

from proactor._bench import packages
from proactor._bench.measuring import by_workers
from proactor._bench.taken import Taken, now_ns

# Those that keep a file open across an await would run out of descriptors, all at once.
WORKERS = 64


def read_sync(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def by_open(paths: Sequence[str], taken: Taken) -> None:
    for path in paths:
        begin = now_ns()
        taken.took(begin, read_sync(path))


def by_coroutine(read: Callable[[str], Any]) -> Callable[[Sequence[str], Taken], Any]:
    async def all_of(paths: Sequence[str], taken: Taken) -> None:
        async def one(path: str) -> None:
            begin = now_ns()
            taken.took(begin, await read(path))

        await by_workers(paths, WORKERS, one)

    return all_of


def by_files_of(package: str) -> Callable[[str], Any]:
    async def read(path: str) -> Any:
        async with packages.opener(package)(path, "rb") as file:
            return await file.read()

    return read


async def by_to_thread(path: str) -> bytes:
    return await asyncio.to_thread(read_sync, path)


async def by_anyio_path(path: str) -> Any:
    return await packages.module("anyio").Path(path).read_bytes()


async def by_caio(paths: Sequence[str], taken: Taken) -> None:
    async with packages.module("caio").AsyncioContext(max_requests=WORKERS) as context:

        async def one(path: str) -> None:
            begin = now_ns()
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = await context.read(os.fstat(fd).st_size, fd, 0)
            finally:
                os.close(fd)
            taken.took(begin, data)

        await by_workers(paths, WORKERS, one)


async def by_read_bytes(path: str) -> bytes:
    import proactor

    return await proactor.read_bytes(path)


async def by_read_many(paths: Sequence[str], taken: Taken) -> None:
    """One await for all: no file has a time of its own."""
    import proactor

    async for _, data in proactor.read_many(paths, return_exceptions=False):
        taken.add(data)


CONTENDERS: dict[str, Callable[[Sequence[str], Taken], Any]] = {
    "open()": by_open,
    "asyncio.to_thread": by_coroutine(by_to_thread),
    "aiofiles": by_coroutine(by_files_of("aiofiles")),
    "aiofile": by_coroutine(by_files_of("aiofile")),
    "anyio.open_file": by_coroutine(by_files_of("anyio")),
    "anyio.Path": by_coroutine(by_anyio_path),
    "caio": by_caio,
    "proactor.open": by_coroutine(by_files_of("proactor")),
    "proactor.read_bytes": by_coroutine(by_read_bytes),
    "proactor.read_many": by_read_many,
}
