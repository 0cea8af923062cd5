"""Lines of text, each awaited, of many files at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from proactor._bench import packages
from proactor._bench.packages import Opener

SYNC = "open()"


def lines(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"line number {number} of this file\n"


def characters(count: int) -> int:
    return sum(map(len, lines(count)))


# The writer and the reader of one file


def write_sync(path: str, count: int) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for line in lines(count):
            file.write(line)


def read_sync(path: str) -> tuple[int, int]:
    found = total = 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            found += 1
            total += len(line)
    return found, total


async def write(open_: Opener, path: str, count: int) -> None:
    async with open_(path, "w", encoding="utf-8") as file:
        for line in lines(count):
            await file.write(line)


async def read(open_: Opener, path: str) -> tuple[int, int]:
    found = total = 0
    async with open_(path, encoding="utf-8") as file:
        async for line in file:
            found += 1
            total += len(line)
    return found, total


# All files, by one contender


def all_by_open(work: str, paths: list[str], count: int) -> list[Any]:
    if work == "write":
        for path in paths:
            write_sync(path, count)
        return []
    return [read_sync(path) for path in paths]


async def all_by_to_thread(work: str, paths: list[str], count: int) -> list[Any]:
    if work == "write":
        return await asyncio.gather(*(asyncio.to_thread(write_sync, path, count) for path in paths))
    return await asyncio.gather(*(asyncio.to_thread(read_sync, path) for path in paths))


async def all_by(package: str, work: str, paths: list[str], count: int) -> list[Any]:
    open_ = packages.opener(package)
    if work == "write":
        return await asyncio.gather(*(write(open_, path, count) for path in paths))
    return await asyncio.gather(*(read(open_, path) for path in paths))


ALL: dict[str, Callable[[str, list[str], int], Any]] = {
    SYNC: all_by_open,
    "proactor": partial(all_by, "proactor"),
    "asyncio.to_thread per file": all_by_to_thread,
    "aiofiles": partial(all_by, "aiofiles"),
    "aiofile": partial(all_by, "aiofile"),
    "anyio": partial(all_by, "anyio"),
}
