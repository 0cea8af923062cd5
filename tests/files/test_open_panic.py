"""A call that panics in the middle passes its turn on: nobody waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# `current_task` is called while the driver of the loop is in use, and a call driven from there finds it so.
PROGRAM = """
import asyncio, sys
asked = asyncio.current_task
panics = []

def current_task():
    if victim is not None and not panics:
        try:
            call().send(None)
        except BaseException as error:
            panics.append(type(error).__name__)
    return asked()

asyncio.current_task = current_task
victim = None
import proactor

def call():
    return {call}

async def main():
    global victim
    other = await proactor.open(sys.argv[1], "rb")
    victim = await proactor.open(sys.argv[1], "r+b", {buffering})
    while not panics:
        await other.seek(0)
        await other.read(10)
    assert panics == ["PanicException"], panics
    waiting = [asyncio.ensure_future(victim.pread(3, 0)), asyncio.ensure_future(victim.seek(0))]
    assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == [b"abc", 0]
    assert await asyncio.wait_for(victim.read(3), 20) == b"abc"
    assert await asyncio.wait_for(victim.write(b"xyz"), 20) == 3
    await asyncio.wait_for(victim.close(), 20)
    await other.close()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("call", "buffering"),
    [("victim.read(3)", -1), ("victim.readline()", 0), ("victim.write(b'abc')", 0), ("victim.fsync()", -1)],
)
def test_the_turn_is_passed_on(tmp_path: Path, call: str, buffering: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abcdef" * 1_000)
    program = PROGRAM.format(call=call, buffering=buffering)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == b"abcxyz" + b"abcdef" * 999
