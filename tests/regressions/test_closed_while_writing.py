"""An event loop that is closed while a file writes to a pipe or a socket that takes it in short parts.

Users saw what a forgotten file had written end after 4 KiB, without a word. And the write in place, of a file
whose loop was gone, kept all threads from running: among them the reader that it waited for.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import LoopFactory
from test_short_writes import DEADLINE_S, PAGE_BYTES, pipe, sockets

# One buffer is in flight when the loop is closed, and another is behind it.
PARTS = [bytes([at]) * 6000 for at in (1, 2)]
BUFFER_BYTES = 8192


def busy_pipe() -> tuple[int, int]:
    """In the non-blocking mode, which somebody else may have asked for."""
    reader, writer = pipe()
    os.set_blocking(writer, False)
    return reader, writer


ENDS = [pipe, busy_pipe, sockets]


async def written(fd: int, engine: str, *, as_text: bool = False) -> Any:
    file: Any = await proactor.open(fd, "w" if as_text else "wb", BUFFER_BYTES, engine=engine)
    for part in PARTS:
        await file.write(part.decode() if as_text else part)
    return file


class Reader(threading.Thread):
    """Takes a page at a time."""

    def __init__(self, fd: int, before_each: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.fd, self.before_each = fd, before_each
        self.found = bytearray()

    def run(self) -> None:
        self.before_each()
        while part := os.read(self.fd, PAGE_BYTES):
            self.found += part
            self.before_each()

    def all(self) -> bytes:
        self.join(DEADLINE_S)
        assert not self.is_alive()
        os.close(self.fd)
        return bytes(self.found)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("as_text", [False, True], ids=["bytes", "text"])
@pytest.mark.parametrize("end", ["dropped before", "dropped after", "closed in another loop"])
def test_what_was_written_arrives(
    event_loop_factory: LoopFactory,
    engine: str,
    end: str,
    as_text: bool,
    ends: Callable[[], tuple[int, int]],
) -> None:
    fd, writer = ends()
    reader = Reader(fd)
    event_loop = event_loop_factory()
    file = event_loop.run_until_complete(written(writer, engine, as_text=as_text))
    if end == "dropped before":
        file = None
    reader.start()
    event_loop.close()
    if end == "closed in another loop":
        other = event_loop_factory()
        other.run_until_complete(file.close())
        other.close()
    file = None
    assert reader.all() == b"".join(PARTS)


def test_a_signal_does_not_end_the_write(event_loop_factory: LoopFactory, engine: str) -> None:
    fd, writer = pipe()
    main_thread = threading.get_ident()
    seen: list[int] = []

    def interrupt() -> None:
        """The first one may find bytes that were written, and end the write with their number."""
        count = len(seen)
        while len(seen) == count:
            signal.pthread_kill(main_thread, signal.SIGUSR1)
            time.sleep(0.001)

    reader = Reader(fd, interrupt)
    before = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    try:
        event_loop = event_loop_factory()
        file = event_loop.run_until_complete(written(writer, engine))
        event_loop.close()
        reader.start()
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del file
        assert reader.all() == b"".join(PARTS)
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("given_up", ["write", "close"])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_who_gave_up_is_told_and_waits_for_nobody(
    event_loop_factory: LoopFactory,
    engine: str,
    given_up: str,
    kept: bool,
    ends: Callable[[], tuple[int, int]],
) -> None:
    """The reader takes nothing: to write the rest would take for ever."""
    reader, writer = ends()

    async def main() -> Any:
        if given_up == "close":
            file = await written(writer, engine)
            call = asyncio.ensure_future(file.close())
        else:
            file = await proactor.open(writer, "wb", BUFFER_BYTES, engine=engine)
            call = asyncio.ensure_future(file.write(b"x" * 100_000))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return file

    event_loop = event_loop_factory()
    file = event_loop.run_until_complete(main())
    if not kept:
        file = None
    with pytest.warns(ResourceWarning, match=r"\d+ bytes of a cancelled write\(\) or close\(\)"):
        event_loop.close()
    del file
    os.close(reader)


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("closes", ["before", "after", "never"])
def test_an_error_of_a_forgotten_file_is_told(
    event_loop_factory: LoopFactory, engine: str, closes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[BaseException | None] = []
    is_told = asyncio.Event()

    def tell(error: Any) -> None:
        told.append(error.exc_value)
        is_told.set()

    monkeypatch.setattr(sys, "unraisablehook", tell)

    async def begin() -> Any:
        file = await proactor.open("/dev/full", "wb", engine=engine)
        await file.write(b"x")
        return file

    event_loop = event_loop_factory()
    file = event_loop.run_until_complete(begin())
    if closes == "before":
        event_loop.close()
    file = None  # noqa: F841
    if closes == "never":
        event_loop.run_until_complete(asyncio.wait_for(is_told.wait(), DEADLINE_S))
    event_loop.close()
    errors = [(type(error), error.errno, error.filename) for error in told if isinstance(error, OSError)]
    assert errors == [(OSError, errno.ENOSPC, "/dev/full")]


# Arguments: the engine, a path. The write of a forgotten file fails, and would not if it was tried once more.
TRIED_AGAIN = """
import asyncio, os, resource, sys, warnings
import proactor

engine, path = sys.argv[1:]
warnings.simplefilter("ignore", ResourceWarning)

async def write():
    file = await proactor.open(path, "wb", engine=engine)
    await file.write(b"x" * 1000)
    return file

async def until_written():
    while os.stat(path).st_size < 1000:
        await asyncio.sleep(0)

loop = asyncio.new_event_loop()
file = loop.run_until_complete(write())
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
del file
# The loop does not run, and so does not hear of the result.
assert loop._selector.select(30)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
loop.run_until_complete(asyncio.wait_for(until_written(), 30))
loop.close()
"""


def test_a_forgotten_file_is_tried_once_more(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    done = subprocess.run(
        [sys.executable, "-c", TRIED_AGAIN, engine, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_bytes() == b"x" * 1000
