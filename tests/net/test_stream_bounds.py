"""What streams receive when nobody waits for it, and what they refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from conftest import Run
from net_helpers import Side, echo, finish
from proactor import net

pytest_plugins = ["net_fixtures"]


async def until(what: Callable[[], bool]) -> None:
    async def look() -> None:
        while not what():  # noqa: ASYNC110 (nothing reports it)
            await asyncio.sleep(0.001)

    await asyncio.wait_for(look(), 30)


def test_more_is_received_once_half_is_read(run: Run, ours: Side) -> None:
    """Without a reader that waits."""

    async def give(stream: net.Stream) -> None:
        stream.write(b"x" * (4 << 20))
        await stream.drain()

    async def main() -> None:
        async with ours.serve(give) as address:
            stream = await ours.connect(address, limit=1000)
            await until(lambda: stream._native.unread() > 2000)
            left = 4 << 20
            while left > 0:
                await until(lambda: stream._native.unread() > 0)
                left -= len(await stream.read(1 << 20))
            await finish(stream)

    run(main())


def test_more_is_read_than_may_be_unread(run: Run, ours: Side) -> None:
    async def give(stream: net.Stream) -> None:
        stream.write(b"x" * (4 << 20))
        await stream.drain()

    async def main() -> None:
        async with ours.serve(give) as address:
            stream = await ours.connect(address, limit=1000)
            # From here on nothing is received.
            await until(lambda: stream._native.unread() > 2000)
            assert len(await asyncio.wait_for(stream.readexactly(4 << 20), 30)) == 4 << 20
            await finish(stream)

    run(main())


def test_who_asks_for_room_after_a_reset_hears_of_it(run: Run, ours: Side) -> None:
    async def refuse(stream: net.Stream) -> None:
        await stream.readexactly(1)
        stream.abort()

    async def main() -> None:
        async with ours.serve(refuse) as address:
            stream = await ours.connect(address)
            stream.write(b"x")
            with pytest.raises(ConnectionResetError):
                await stream.read(1)
            with pytest.raises(ConnectionResetError):
                await stream.drain()
            await finish(stream)

    run(main())


def test_bytes_that_do_not_lie_side_by_side_are_refused(run: Run, ours: Side) -> None:
    async def main() -> None:
        async with ours.serve(echo) as address:
            stream = await ours.connect(address)
            with pytest.raises((ValueError, BufferError), match="contiguous"):
                stream.write(memoryview(b"abcdef")[::2])
            stream.write(memoryview(b"abcdef")[2:4])
            assert await stream.readexactly(2) == b"cd"
            await finish(stream)

    run(main())
