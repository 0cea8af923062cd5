"""A write to a stream that could not be kept ended the process ("memory allocation of ... bytes failed")."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import require

pytest_plugins = ["memory_fixtures"]

# The peer reads nothing, and there is no memory for a copy of what is written.
PROGRAM = """
import asyncio, errno, resource, sys
import proactor.net

async def silent(stream):
    await asyncio.Event().wait()

async def echo(stream):
    stream.write(await stream.readline())
    await stream.drain()

async def main(engine):
    data = bytes(512 << 20)
    sink = await proactor.net.serve(silent, "127.0.0.1", engine=engine)
    other = await proactor.net.serve(echo, "127.0.0.1", engine=engine)
    stream = await proactor.net.connect(*sink.addresses[0][:2], engine=engine)
    with open("/proc/self/statm") as statm:
        most = int(statm.read().split()[0]) * resource.getpagesize() + (200 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        stream.write(data)
        await stream.drain()
    except OSError as error:
        print(errno.errorcode[error.errno])
    stream.abort()
    stream = await proactor.net.connect(*other.addresses[0][:2], engine=engine)
    stream.write(b"line\\n")
    print(await stream.readline())
    stream.close()
    for server in (sink, other):
        server.cancel()
        await server.wait_closed()

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.parametrize("engine", ["auto", "epoll"])
def test_a_write_without_memory(engine: str) -> None:
    if engine == "auto":
        require("io_uring")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, engine], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ENOMEM\nb'line\\n'\n"), done.stderr[-500:]


# What is received cannot be kept.
RECEIVED = """
import asyncio, ctypes, errno, sys
import proactor.net

shim, engine = ctypes.CDLL(sys.argv[1]), sys.argv[2]
shim.refuse_from.argtypes = [ctypes.c_size_t]
BYTES = 100_000

async def main():
    outcome = asyncio.get_running_loop().create_future()

    async def reads(stream):
        # The first receive makes what all share.
        await stream.readexactly(1)
        assert shim.refuse_from(BYTES)
        try:
            await stream.readexactly(8 * BYTES)
        except OSError as error:
            outcome.set_result(errno.errorcode[error.errno])
        shim.refuse_from(2**63)
        for call in (stream.readexactly(8 * BYTES), stream.drain()):
            try:
                await call
            except OSError as error:
                print(errno.errorcode[error.errno])

    server = await proactor.net.serve(reads, "127.0.0.1", engine=engine)
    _, writer = await asyncio.open_connection(*server.addresses[0][:2])
    writer.write(bytes(9 * BYTES))
    print(await outcome)
    try:
        await writer.drain()
        writer.close()
        await writer.wait_closed()
    except ConnectionError:
        pass
    server.close()
    await server.wait_closed()

asyncio.run(asyncio.wait_for(main(), 30))
"""


@pytest.mark.parametrize("engine", ["auto", "epoll"])
def test_a_read_without_memory_says_so(engine: str, shim: Path) -> None:
    """Also once the connection is closed, which has a reason of its own."""
    if engine == "auto":
        require("io_uring")
    done = subprocess.run(
        [sys.executable, "-c", RECEIVED, str(shim), engine],
        env={**os.environ, "LD_PRELOAD": str(shim)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ENOMEM\n" * 3), done.stderr[-500:]
