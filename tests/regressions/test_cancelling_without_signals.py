"""What waited in a worker thread could not be cancelled without a POSIX timer, so closing the loop hung.

Timers cannot be had with RLIMIT_SIGPENDING 0 or under some seccomp filters. And a program that reset its
signal handlers was killed by the next cancellation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import needs
from seccomp import FILTER

# Starts to wait for each kind of thing that never comes, gives it up, and closes its loop.
# Arguments: the engine, a directory, and what stands in the way of signals.
PROGRAM = (
    FILTER
    + """
import asyncio, errno, fcntl, os, resource, signal, struct, sys
import proactor

engine, directory, obstacle = sys.argv[1:]
path = os.path.join(directory, "file")
fifo = os.path.join(directory, "fifo")

other = open(path, "w+b")
fcntl.fcntl(other, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))

async def lock():
    async with proactor.open(path, "r+b", engine=engine) as file:
        await file.lock()

WAITS = {
    "lock": lock,
    "open": lambda: proactor.open(fifo, "rb", engine=engine).__aenter__(),
    "read_bytes": lambda: proactor.read_bytes(fifo, engine=engine),
    "write_bytes": lambda: proactor.write_bytes(fifo, b"x", engine=engine),
}

def give_up(wait):
    async def main():
        try:
            await asyncio.wait_for(wait(), 0.02)
        except asyncio.TimeoutError:
            return
        raise AssertionError("that should have waited")
    asyncio.run(main())

def obstruct():
    if "pending" in obstacle:
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))
    if "filter" in obstacle:
        deny(errno.EPERM, TIMER_CREATE, everywhere=True)
    if "handlers" in obstacle:
        give_up(lock)
        to = signal.SIG_IGN if "ignored" in obstacle else signal.SIG_DFL
        for number in range(signal.SIGRTMIN, signal.SIGRTMAX + 1):
            signal.signal(number, to)

obstruct()
for name, wait in WAITS.items():
    give_up(wait)
    print(name, flush=True)
"""
)


@needs("seccomp filter")
@pytest.mark.parametrize(
    "obstacle", ["pending", "filter", "pending filter", "handlers", "handlers ignored", "handlers filter"]
)
def test_what_waits_is_given_up(tmp_path: Path, engine: str, obstacle: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    os.mkfifo(tmp_path / "fifo")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, engine, str(tmp_path), obstacle],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["lock", "open", "read_bytes", "write_bytes"]), (
        done.stderr
    )
