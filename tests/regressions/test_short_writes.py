"""One long write to a pipe, a socket or a FUSE file that takes it in short parts.

Users saw a program at 100 % CPU whose event loop stood still: time doubled with every part.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import proactor
import pytest
from conftest import Run
from proactor.compat import aiofiles

DEADLINE_S = 30
# Each part is a page, so these are 50 parts and more: enough for a doubling to take years.
DATA = os.urandom(100_000).hex().encode()
PAGE_BYTES = 4096


async def binary(fd: int, engine: str) -> None:
    async with proactor.open(fd, "wb", engine=engine) as file:
        assert await file.write(DATA) == len(DATA)


async def unbuffered(fd: int, engine: str) -> None:
    async with proactor.open(fd, "wb", 0, engine=engine) as file:
        assert await file.write(DATA) == len(DATA)


async def buffered(fd: int, engine: str) -> None:
    async with proactor.open(fd, "wb", 2 * len(DATA), engine=engine) as file:
        assert await file.write(DATA) == len(DATA)


async def text(fd: int, engine: str) -> None:
    async with proactor.open(fd, "w", encoding="utf-8", engine=engine) as file:
        assert await file.write(DATA.decode()) == len(DATA)


async def lines(fd: int, engine: str) -> None:
    async with proactor.open(fd, "wb", engine=engine) as file:
        await file.writelines([DATA[:50_000], DATA[50_000:]])


async def compat(fd: int, engine: str) -> None:
    async with aiofiles.open(fd, "wb") as file:
        assert await file.write(DATA) == len(DATA)


WAYS = [binary, unbuffered, buffered, text, lines, compat]


def pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PAGE_BYTES)
    return reader, writer


def sockets() -> tuple[int, int]:
    reader, writer = socket.socketpair()
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PAGE_BYTES)
    return reader.detach(), writer.detach()


@pytest.mark.parametrize("ends", [pipe, sockets], ids=["pipe", "socket"])
@pytest.mark.parametrize("way", WAYS)
def test_a_write_in_many_short_parts_ends(
    run: Run,
    engine: str,
    way: Callable[[int, str], Awaitable[None]],
    ends: Callable[[], tuple[int, int]],
) -> None:
    reader, writer = ends()
    found = bytearray()

    def read() -> None:
        while part := os.read(reader, PAGE_BYTES):
            found.extend(part)

    thread = threading.Thread(target=read)
    thread.start()

    async def main() -> None:
        await asyncio.wait_for(way(writer, engine), DEADLINE_S)

    try:
        run(main())
    finally:
        thread.join(DEADLINE_S)
        os.close(reader)
    assert not thread.is_alive()
    assert found == DATA


def test_other_tasks_run_while_a_write_is_taken_in_parts(run: Run, engine: str) -> None:
    reader, writer = pipe()

    async def main() -> bytes:
        found = bytearray()
        async with proactor.open(writer, "wb", engine=engine) as file:
            writing = asyncio.ensure_future(file.write(DATA))
            # The reader is a task of the same loop: it gets its turns, or nothing goes on.
            async with proactor.open(reader, "rb", 0, engine=engine) as peer:
                while len(found) < len(DATA):
                    part: Any = await asyncio.wait_for(peer.read(PAGE_BYTES), DEADLINE_S)
                    found.extend(part)
                assert await asyncio.wait_for(writing, DEADLINE_S) == len(DATA)
        return bytes(found)

    assert run(main()) == DATA
