"""What the tests of whole files share."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import proactor
import pytest
from conftest import Run

T = TypeVar("T")

MIB = 1 << 20
# Above this a file always goes to the engine.
LARGE_BYTES = 3 * MIB + 12345
COLD_BYTES = 2 * MIB + 4321
DEADLINE_S = 30

# Errors among the results, as most tests look at both.
read_many: Any = functools.partial(proactor.read_many, return_exceptions=True)


def content(size_bytes: int, seed: int = 0) -> bytes:
    block = _block(seed % 251)
    return (block * (size_bytes // len(block) + 1))[:size_bytes]


@functools.cache
def _block(seed: int) -> bytes:
    return bytes((at * 7 + seed) % 251 for at in range(4099))


def evict(*paths: Path) -> None:
    """Take files out of the page cache, and their names out of the kernel's. Needs "drop caches"."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    Path("/proc/sys/vm/drop_caches").write_text("2")


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def resizable(data: bytearray) -> bool:
    """Whether nobody holds its memory. Adds a byte."""
    try:
        data.append(0)
    except BufferError:
        return False
    return True


def failure(run: Run, awaitable: Callable[[], Awaitable[object]]) -> OSError:
    async def main() -> OSError:
        with pytest.raises(OSError, match=r"Errno") as caught:
            await in_time(awaitable())
        return caught.value

    return run(main())


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until it holds."""

    async def wait() -> None:
        while not condition():
            gc.collect()
            await asyncio.sleep(0.001)

    await asyncio.wait_for(wait(), DEADLINE_S)


async def gathered(iterator: AsyncIterator[T]) -> list[T]:
    return [item async for item in iterator]


async def in_time(awaitable: Awaitable[T]) -> T:
    return await asyncio.wait_for(awaitable, DEADLINE_S)


@contextmanager
def turns() -> Iterator[Callable[[], int]]:
    """Count the loop's iterations."""
    count, handle = 0, None
    loop = asyncio.get_running_loop()

    def tick() -> None:
        nonlocal count, handle
        count += 1
        handle = loop.call_soon(tick)

    handle = loop.call_soon(tick)
    try:
        yield lambda: count
    finally:
        handle.cancel()


def warns_here(code: str, path: Path) -> None:
    """Runs a program that prints which of its lines it is warned of: those that end with `# here`."""
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", code, path],
        stdout=subprocess.PIPE,
        check=True,
    )
    here = [number for number, line in enumerate(code.splitlines(), 1) if line.endswith("# here")]
    assert done.stdout.decode() == f"{here}\n"
