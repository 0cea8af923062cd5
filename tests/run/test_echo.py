"""Python's event loops on a ring: each byte comes back once and in its place, however clients behave."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import sys
from pathlib import Path

import pytest
from capabilities import needs, require
from run_helpers import HERE, RUN, free_port, server

pytestmark = needs("io_uring")

BEHAVIOURS = ("steady", "slow", "bytes", "half-close", "reset", "leave")


def pattern(number: int, size: int) -> bytes:
    return random.Random(number).randbytes(size)


async def client(port: int, number: int) -> None:
    behaviour = BEHAVIOURS[number % len(BEHAVIOURS)]
    rng = random.Random(number)
    # A connection's address is as different as its bytes.
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, local_addr=(f"127.0.0.{number % 50 + 2}", 0)
    )
    sent = pattern(number, 3_000 if behaviour == "bytes" else rng.randrange(20_000, 400_000))

    async def send() -> None:
        at = 0
        while at < len(sent):
            size = 1 if behaviour == "bytes" else rng.choice([1, 100, 4096, 5000, 20_000, 100_000])
            writer.write(sent[at : at + size])
            at += size
            await writer.drain()
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
        if behaviour == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    finally:
        if behaviour in ("reset", "leave"):
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            writer.transport.abort()
        else:
            await sending
            writer.close()


async def all_clients(port: int, count: int) -> None:
    gate = asyncio.Semaphore(60)

    async def one(number: int) -> None:
        async with gate:
            await asyncio.wait_for(client(port, number), 60)

    await asyncio.gather(*(one(number) for number in range(count)))


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("options", [[], ["--pool=1", "--per-socket=4096"]], ids=["", "little memory"])
def test_echo(loop: str, options: list[str], tmp_path: Path) -> None:
    if loop == "uvloop":
        require("uvloop")
    port = free_port()
    stats = tmp_path / "stats"
    said = tmp_path / "said"
    command = [*RUN, "--strict", f"--stats={stats}", *options, "--"]
    with (
        said.open("wb") as out,
        server(
            [*command, sys.executable, str(HERE / "echo_server.py"), str(port), loop],
            port,
            stdout=out,
        ) as child,
    ):
        asyncio.run(all_clients(port, 180))
    assert child.returncode == 0
    assert said.read_text() == "0\n"
    found = json.loads(stats.read_text().splitlines()[-1])
    # libuv adds descriptors by a ring of its own, where no hook sees them: they stay on epoll.
    assert found["sockets"] >= 180 or loop == "uvloop"
    assert found["handed_back"] == {}
