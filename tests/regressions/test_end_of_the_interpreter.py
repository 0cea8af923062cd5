"""A program whose event loop runs in a daemon thread was aborted at its end, instead of exiting with 0:
code of tasks ran below native frames, which cannot be unwound when the interpreter ends the thread.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import require

# What the loop is doing when the main thread ends: busy in Python code that is below our calls.
WORK = {
    "a woken task": "await proactor.write_bytes(path, b'x'); spin()",
    "an iterator of paths": "[_ async for _ in proactor.read_many(slow_paths())]",
    "a path-like object": "await proactor.read_bytes(SlowPath())",
    "an opener": "await (await proactor.open(path, opener=slow_opener)).close()",
    "an encoder": "await write_slowly()",
    "a limiter": "await limited()",
    "the loop's call_soon": "loop.call_soon = slow_call_soon; await proactor.write_bytes(path, b'x')",
}

PROGRAM = """
import asyncio, codecs, os, sys, threading, time
import proactor

path = sys.argv[1]
started = threading.Event()

def spin(seconds=0.05):
    started.set()
    end = time.monotonic() + seconds
    while time.monotonic() < end: pass

def slow_paths():
    while True:
        spin()
        yield path

class SlowPath:
    def __fspath__(self):
        spin()
        return path

def slow_opener(path, flags):
    spin()
    return os.open(path, flags)

class SlowEncoder(codecs.IncrementalEncoder):
    def encode(self, text, final=False):
        spin()
        return text.encode()

utf8 = codecs.lookup("utf-8")
codecs.register(lambda name: codecs.CodecInfo(
    utf8.encode, utf8.decode, incrementalencoder=SlowEncoder, incrementaldecoder=utf8.incrementaldecoder,
    name=name) if name == "slow" else None)

async def write_slowly():
    async with proactor.open(path, "w", encoding="slow") as file:
        while True: await file.write("x")

class Limiter:
    async def __aenter__(self): spin()
    async def __aexit__(self, *_): spin()

async def limited():
    async with proactor.open(path + "-new", "wb", limiter=Limiter()) as file:
        while True:
            await file.write(b"x")
            await file.flush()

def slow_call_soon(*args, **kwargs):
    spin()
    return type(loop).call_soon(loop, *args, **kwargs)

loop = asyncio.new_event_loop()

async def work():
    while True:
        WORK

def run():
    asyncio.set_event_loop(loop)
    loop.create_task(work())
    loop.run_forever()

threading.Thread(target=run, daemon=True).start()
assert started.wait(60)
"""


@pytest.mark.parametrize("work", WORK)
def test_a_daemon_threads_loop_does_not_abort_the_process(work: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    program = PROGRAM.replace("WORK", WORK[work])
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_nor_does_uvloops(tmp_path: Path) -> None:
    require("uvloop")
    program = PROGRAM.replace("asyncio.new_event_loop()", "__import__('uvloop').new_event_loop()")
    program = program.replace("WORK", WORK["a woken task"])
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "file"], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
