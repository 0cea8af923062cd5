"""Reads to the end, or of many bytes, of files that do not say how long they are, and without a buffer.

Users saw b"3" for a file of /proc/sys that has b"32768\\n", three seconds for a megabyte of a pipe, and
1 MiB of a regular file where `io` gives all that was asked for.
"""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from proactor.compat import aiofiles

DEADLINE_S = 30
# They state a size of 0, and answer the first read only.
PROC_FILES = ["/proc/sys/kernel/pid_max", "/proc/sys/net/ipv4/ip_local_port_range", "/proc/self/maps"]
BUFFERINGS = [0, 2, 3, 8, 100, -1]
MIB = 1 << 20


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


@pytest.mark.parametrize("buffering", BUFFERINGS)
@pytest.mark.parametrize("path", PROC_FILES[:2])
def test_all_of_a_file_that_states_no_size(run: Run, engine: str, path: str, buffering: int) -> None:
    want = Path(path).read_bytes()

    async def main() -> None:
        async with proactor.open(path, "rb", buffering, engine=engine) as file:
            assert await file.read() == want
        async with proactor.open(path, "rb", buffering, engine=engine) as file:
            assert await file.readall() == want
        async with proactor.open(path, "rb", buffering, engine=engine) as file:
            assert await file.readlines() == lines_of(want)
        async with proactor.open(path, "rb", buffering, engine=engine) as file:
            assert await file.read(2 * MIB) == want
        if buffering:
            async with proactor.open(path, "r", buffering, engine=engine) as text:
                assert await text.read() == want.decode()
        async with aiofiles.open(path, "rb", buffering) as file:
            assert await file.read() == want

    run(main())


class CountedReads:
    """How many system calls of this process read, until now."""

    def __init__(self) -> None:
        self._before = self._now()

    @staticmethod
    def _now() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("syscr"))

    def __call__(self) -> int:
        return self._now() - self._before


@pytest.mark.parametrize("buffering", [0, 2, 8])
@pytest.mark.parametrize("how", ["read", "readall", "readlines", "2 MiB"])
def test_a_pipe_is_not_read_a_byte_at_a_time(run: Run, buffering: int, how: str) -> None:
    reader, writer = os.pipe()
    data = b"x" * 60_000
    os.write(writer, data)
    os.close(writer)

    async def main() -> None:
        async with proactor.open(reader, "rb", buffering, engine="threads") as file:
            reads = CountedReads()
            got: Any = await (file.read(2 * MIB) if how == "2 MiB" else getattr(file, how)())
            assert got == ([data] if how == "readlines" else data)
            assert reads() < 100

    run(main())


@pytest.mark.parametrize("buffering", [0, -1])
def test_one_read_of_a_regular_file_brings_all_that_is_asked_for(
    run: Run, engine: str, tmp_path: Path, buffering: int
) -> None:
    path = tmp_path / "f"
    data = os.urandom(3 * MIB + 5)
    path.write_bytes(data)

    async def main() -> None:
        async with proactor.open(path, "rb", buffering, engine=engine) as file:
            assert await file.read1(2 * MIB) == data[: 2 * MIB]
            assert await file.read1(100 * MIB) == data[2 * MIB :]
            assert await file.read1(100 * MIB) == b""
            await file.seek(1)
            assert await file.read(3 * MIB) == data[1 : 3 * MIB + 1]
            await file.seek(2)
            target = bytearray(4 * MIB)
            count = await file.readinto1(target)
            assert target[:count] == data[2:]

    run(main())


def test_a_slow_pipe_gives_what_is_there_to_an_unbuffered_read(run: Run, engine: str) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"first")

    def finish() -> None:
        os.write(writer, b"second")
        os.close(writer)

    async def main() -> None:
        async with proactor.open(reader, "rb", 0, engine=engine) as file:
            assert await asyncio.wait_for(file.read(4 * MIB), DEADLINE_S) == b"first"
            reading = asyncio.ensure_future(file.read())
            thread = threading.Thread(target=finish)
            thread.start()
            assert await asyncio.wait_for(reading, DEADLINE_S) == b"second"
            thread.join()

    run(main())
