"""Clients that check each byte of an echo, or of an HTTP server that echoes, and behave in different ways."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable

BEHAVIOURS = ("steady", "slow", "bytes", "half-close", "reset", "leave")
HTTP_BEHAVIOURS = ("steady", "slow", "bytes", "reset", "leave")
# At once.
CLIENTS = 60
CLIENT_S = 60


def pattern(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


async def connect(port: int, number: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    # A connection's address is as different as its bytes.
    own = (f"127.0.0.{number % 50 + 2}", 0)
    return await asyncio.open_connection("127.0.0.1", port, local_addr=own)


async def send_all(writer: asyncio.StreamWriter, data: bytes, rng: random.Random, behaviour: str) -> None:
    at = 0
    while at < len(data):
        size = 1 if behaviour == "bytes" else rng.choice([1, 100, 4096, 5000, 20_000, 100_000])
        writer.write(data[at : at + size])
        at += size
        await writer.drain()


def leave(writer: asyncio.StreamWriter, behaviour: str) -> None:
    if behaviour == "reset":
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def echo_client(port: int, number: int) -> None:
    behaviour = BEHAVIOURS[number % len(BEHAVIOURS)]
    rng = random.Random(number)
    reader, writer = await connect(port, number)
    sent = pattern(number, 3_000 if behaviour == "bytes" else rng.randrange(20_000, 400_000))

    async def send() -> None:
        await send_all(writer, sent, rng, behaviour)
        if behaviour == "half-close":
            writer.write_eof()

    sending = asyncio.create_task(send())
    try:
        got = bytearray()
        until = len(sent) // 2 if behaviour in ("reset", "leave") else len(sent)
        while len(got) < until:
            piece = await reader.read(rng.choice([10, 1000, 65_536]) if behaviour != "bytes" else 50)
            assert piece, (behaviour, len(got), len(sent))
            got += piece
            assert sent.startswith(got[-100:], len(got) - len(got[-100:]))
            if behaviour == "slow" and rng.random() < 0.05:
                await asyncio.sleep(0.005)
        assert sent.startswith(got)
        if behaviour == "half-close":
            assert await reader.read() == b""
    finally:
        if behaviour in ("reset", "leave"):
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            leave(writer, behaviour)
        else:
            await sending
            writer.close()


async def http_client(port: int, number: int) -> None:
    """Ask several times on one connection. `/stream` is answered in chunks while the body comes."""
    behaviour = HTTP_BEHAVIOURS[number % len(HTTP_BEHAVIOURS)]
    rng = random.Random(number)
    reader, writer = await connect(port, number)
    try:
        for turn in range(4):
            size = rng.choice([0, 1, 700, 2000])
            if behaviour != "bytes":
                size = rng.choice([size, 20_000, 200_000])
            body = pattern(number * 100 + turn, size)
            path = ("/whole", "/stream")[rng.randrange(2)]
            head = f"POST {path} HTTP/1.1\r\nHost: here\r\nContent-Length: {size}\r\n\r\n".encode()
            sending = asyncio.create_task(send_all(writer, head + body, rng, behaviour))
            if behaviour in ("reset", "leave") and turn == 3:
                await reader.read(10)
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                leave(writer, behaviour)
                return
            assert await http_answer(reader, rng if behaviour == "slow" else None) == body
            await sending
    finally:
        writer.close()


async def http_answer(reader: asyncio.StreamReader, slow: random.Random | None) -> bytes:
    lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 200 OK"
    headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines[1:-2])}
    if b"content-length" in headers:
        left, body = int(headers[b"content-length"]), b""
        while left:
            piece = await reader.readexactly(min(left, slow.choice([100, 10_000]) if slow else left))
            if slow and slow.random() < 0.1:
                await asyncio.sleep(0.005)
            body += piece
            left -= len(piece)
        return body
    assert headers[b"transfer-encoding"] == b"chunked"
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        assert await reader.readexactly(2) == b"\r\n"
    assert await reader.readexactly(2) == b"\r\n"
    return body


def run_clients(client: Callable[[int, int], Awaitable[None]], port: int, count: int) -> None:
    async def main() -> None:
        gate = asyncio.Semaphore(CLIENTS)

        async def one(number: int) -> None:
            async with gate:
                await asyncio.wait_for(client(port, number), CLIENT_S)

        await asyncio.gather(*(one(number) for number in range(count)))

    asyncio.run(main())
