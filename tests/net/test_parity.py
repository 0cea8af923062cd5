"""What asyncio's streams do, ours do: each test runs on both."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from typing import Any

import pytest
from conftest import Run
from net_helpers import Side, echo, finish

pytest_plugins = ["net_fixtures"]


def test_bytes_come_back(run: Run, side: Side) -> None:
    async def main() -> None:
        async with side.serve(echo) as address:
            stream = await side.connect(address)
            for size in (1, 2, 1000, 70_000, 300_000):
                message = os.urandom(size)
                stream.write(message)
                await stream.drain()
                assert await stream.readexactly(size) == message
            await finish(stream)

    run(main())


def test_connections_keep_their_bytes_apart(run: Run, side: Side) -> None:
    async def client(address: tuple[Any, ...], number: int) -> None:
        stream = await side.connect(address)
        for turn in range(10):
            message = bytes([number]) * (number * 37 + turn + 1)
            stream.write(message)
            assert await stream.readexactly(len(message)) == message
        await finish(stream)

    async def main() -> None:
        async with side.serve(echo) as address:
            await asyncio.gather(*(client(address, number) for number in range(40)))

    run(main())


def test_all_up_to_the_end(run: Run, side: Side) -> None:
    sent = os.urandom(3_000_000)

    async def give(stream: Any) -> None:
        for start in range(0, len(sent), 100_000):
            stream.write(sent[start : start + 100_000])
            await stream.drain()

    async def main() -> None:
        async with side.serve(give) as address:
            stream = await side.connect(address)
            assert await stream.read() == sent
            assert await stream.read() == b""
            assert await stream.read(5) == b""
            assert stream.at_eof()
            await finish(stream)

    run(main())


def test_half_close(run: Run, side: Side) -> None:
    """The peer's end is seen, and the other direction still works."""

    async def reply(stream: Any) -> None:
        data = await stream.read()
        stream.write(data[::-1])
        await stream.drain()

    async def main() -> None:
        async with side.serve(reply) as address:
            stream = await side.connect(address)
            stream.write(b"abc")
            stream.write(b"def")
            assert stream.can_write_eof()
            stream.write_eof()
            assert await stream.read() == b"fedcba"
            await finish(stream)

    run(main())


def test_lines(run: Run, side: Side) -> None:
    async def give(stream: Any) -> None:
        stream.writelines([b"one\n", b"\n", bytearray(b"two"), memoryview(b"\nlast")])
        await stream.drain()

    async def main() -> None:
        async with side.serve(give) as address:
            stream = await side.connect(address)
            assert [line async for line in stream] == [b"one\n", b"\n", b"two\n", b"last"]
            assert await stream.readline() == b""
            await finish(stream)

    run(main())


@pytest.mark.parametrize("separator", [b"\n", b"\r\n\r\n", b"ab"])
def test_a_separator_that_comes_in_pieces(run: Run, side: Side, separator: bytes) -> None:
    async def give(stream: Any) -> None:
        for byte in b"xx" + separator + b"yy" + separator + b"rest":
            stream.write(bytes([byte]))
            await stream.drain()
            await asyncio.sleep(0)

    async def main() -> None:
        async with side.serve(give) as address:
            stream = await side.connect(address)
            assert await stream.readuntil(separator) == b"xx" + separator
            assert await stream.readuntil(separator) == b"yy" + separator
            with pytest.raises(asyncio.IncompleteReadError) as raised:
                await stream.readuntil(separator)
            assert (raised.value.partial, raised.value.expected) == (b"rest", None)
            await finish(stream)

    run(main())


def test_a_separator_after_others_and_after_bytes_that_were_read(run: Run, side: Side) -> None:
    """What was searched in vain is searched again for another one, and does not move with what is read."""

    async def main() -> None:
        async with side.serve(echo) as address:
            stream = await side.connect(address)

            async def search_in_vain(separator: bytes) -> None:
                searching = asyncio.ensure_future(stream.readuntil(separator))
                await asyncio.sleep(0)
                searching.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await searching

            stream.write(b"abcdefgh")
            assert await stream.readexactly(1) == b"a"
            await search_in_vain(b"\n")
            assert await stream.readuntil(b"d") == b"bcd"
            await search_in_vain(b"\n")
            stream.write(b"\nijkl\n")
            assert await stream.readexactly(6) == b"efgh\ni"
            assert await stream.readuntil(b"\n") == b"jkl\n"
            await finish(stream)

    run(main())


def test_too_few_bytes(run: Run, side: Side) -> None:
    async def give(stream: Any) -> None:
        stream.write(b"abc")
        await stream.drain()

    async def main() -> None:
        async with side.serve(give) as address:
            stream = await side.connect(address)
            assert await stream.readexactly(0) == b""
            with pytest.raises(asyncio.IncompleteReadError) as raised:
                await stream.readexactly(10)
            assert (raised.value.partial, raised.value.expected) == (b"abc", 10)
            with pytest.raises(ValueError, match="less than zero"):
                await stream.readexactly(-1)
            await finish(stream)

    run(main())


def test_lines_beyond_the_limit(run: Run, side: Side) -> None:
    async def give(stream: Any) -> None:
        stream.write(b"x" * 150 + b"\nshort\n" + b"y" * 400)
        await stream.drain()

    async def main() -> None:
        async with side.serve(give) as address:
            stream = await side.connect(address, limit=100)
            with pytest.raises(asyncio.LimitOverrunError):
                await stream.readuntil(b"\n")
            # They are still there.
            assert await stream.readexactly(10) == b"x" * 10
            with pytest.raises(ValueError, match="Separator is found, but chunk is longer than limit"):
                await stream.readline()
            await finish(stream)

    run(main())


def test_to_read_no_bytes_waits_for_none(run: Run, side: Side) -> None:
    async def main() -> None:
        async with side.serve(echo) as address:
            stream = await side.connect(address)
            assert await asyncio.wait_for(stream.read(0), 30) == b""
            assert await asyncio.wait_for(stream.readexactly(0), 30) == b""
            await finish(stream)

    run(main())


def test_an_empty_separator(run: Run, side: Side) -> None:
    async def main() -> None:
        async with side.serve(echo) as address:
            stream = await side.connect(address)
            with pytest.raises(ValueError, match="Separator should be at least one-byte"):
                await stream.readuntil(b"")
            await finish(stream)

    run(main())


def test_addresses(run: Run, side: Side) -> None:
    seen: list[Any] = []

    async def look(stream: Any) -> None:
        seen.append((stream.get_extra_info("sockname"), stream.get_extra_info("peername")))
        await stream.read()

    async def main() -> None:
        async with side.serve(look) as address:
            stream = await side.connect(address)
            assert stream.get_extra_info("peername") == address
            assert stream.get_extra_info("nothing", 7) == 7
            own = stream.get_extra_info("sockname")
            stream.write_eof()
            assert await stream.read() == b""
            await finish(stream)
            assert seen == [(address, own)]

    run(main())


def test_a_refused_connection(run: Run, side: Side) -> None:
    async def main() -> None:
        async with side.serve(echo) as address:
            pass
        with pytest.raises(ConnectionRefusedError) as raised:
            await side.connect(address)
        assert raised.value.errno is not None

    run(main())


def test_a_reset_is_an_error_of_the_reader(run: Run, side: Side) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            stream = await side.connect(listener.getsockname())
            peer, _ = await loop.sock_accept(listener)
            reading = asyncio.ensure_future(stream.read(1))
            await asyncio.sleep(0)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
            with pytest.raises(ConnectionResetError):
                await reading
            await finish(stream)

    run(main())


def test_a_reader_that_was_cancelled_loses_nothing(run: Run, side: Side) -> None:
    async def main() -> None:
        async with side.serve(echo) as address:
            stream = await side.connect(address)
            reading = asyncio.ensure_future(stream.readexactly(4))
            await asyncio.sleep(0)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            stream.write(b"abcd")
            assert await stream.readexactly(4) == b"abcd"
            await finish(stream)

    run(main())


def test_two_readers_at_once(run: Run, side: Side) -> None:
    async def main() -> None:
        async with side.serve(echo) as address:
            stream = await side.connect(address)
            first = asyncio.ensure_future(stream.read(1))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError):
                await stream.read(1)
            stream.write(b"x")
            assert await first == b"x"
            await finish(stream)

    run(main())


def test_a_writer_waits_for_a_slow_reader(run: Run, side: Side) -> None:
    """`drain` waits once the bound is passed, and goes on when the peer reads."""
    total = 40 << 20
    chunk = b"x" * (1 << 20)

    async def main() -> None:
        waits = asyncio.Event()

        async def give(stream: Any) -> None:
            for _ in range(total // len(chunk)):
                stream.write(chunk)
                drained = asyncio.ensure_future(stream.drain())
                done, _ = await asyncio.wait([drained], timeout=0.05)
                if not done:
                    waits.set()
                await drained

        async with side.serve(give) as address:
            stream = await side.connect(address)
            await waits.wait()
            assert len(await stream.read()) == total
            await finish(stream)

    run(main())
