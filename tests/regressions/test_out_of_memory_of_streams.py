"""A write to a stream that could not be kept ended the process ("memory allocation of ... bytes failed")."""

from __future__ import annotations

import subprocess
import sys

import pytest
from capabilities import require

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
