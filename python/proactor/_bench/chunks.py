"""One file from its start to its end, by chunks. Each reader gives the number of bytes that it has read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from proactor._bench import packages

WHOLE = -1

Reader = Callable[[str, int], Any]


def by_open(path: str, chunk: int) -> int:
    with open(path, "rb", buffering=0) as file:
        if chunk == WHOLE:
            return len(file.read())
        total = 0
        while data := file.read(chunk):
            total += len(data)
        return total


async def drain(read: Callable[[int], Awaitable[Any]], chunk: int) -> int:
    if chunk == WHOLE:
        return len(await read(WHOLE))
    total = 0
    while data := await read(chunk):
        total += len(data)
    return total


async def by_to_thread(path: str, chunk: int) -> int:
    with open(path, "rb", buffering=0) as file:  # noqa: ASYNC230 - a file that is there is opened at once
        return await drain(lambda size: asyncio.to_thread(file.read, size), chunk)


def by_read(package: str, **options: Any) -> Reader:
    async def reader(path: str, chunk: int) -> int:
        async with packages.opener(package)(path, "rb", **options) as file:
            return await drain(file.read, chunk)

    return reader
