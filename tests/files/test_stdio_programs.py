"""Programs that wait for their input, or for a reader of their output: they end when they are told to."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

TIMEOUT_S = 30

Ends = tuple[int, int]


@pytest.fixture(params=["pipe", "terminal"])
def ends(request: pytest.FixtureRequest) -> Iterator[Ends]:
    """A program's end and ours, of something that goes both ways as far as a test needs it."""
    if request.param == "terminal":
        ours, theirs = pty.openpty()
    else:
        theirs, ours = os.pipe()
    yield theirs, ours
    os.close(theirs)
    os.close(ours)


@contextmanager
def start(code: str, engine: str, **streams: int) -> Iterator[subprocess.Popen[str]]:
    """A program that does not outlive the test."""
    program: subprocess.Popen[str] = subprocess.Popen(
        # A warning would be seen on stderr.
        [sys.executable, "-W", "always", "-c", textwrap.dedent(code)],
        stdin=streams.get("stdin", subprocess.DEVNULL),
        stdout=streams.get("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PROACTOR_ENGINE": engine},
    )
    with program:
        try:
            yield program
        finally:
            program.kill()


ASKING = """
    import asyncio, sys, warnings
    import proactor

    if sys.version_info < (3, 11):
        # There a signal may come between a call and its await; from 3.11 on asyncio.run() cancels instead.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)

    async def main():
        print("ready", flush=True)
        while True:
            print(await proactor.stdin.readline(), end="", flush=True)

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted")
"""


def test_interrupted_while_it_waits(engine: str, ends: Ends) -> None:
    theirs, ours = ends
    before = fcntl.fcntl(theirs, fcntl.F_GETFL)
    with start(ASKING, engine, stdin=theirs) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        os.write(ours, b"a line\n")
        assert program.stdout.readline() == "a line\n"
        # It is about to wait, or waits.
        program.send_signal(signal.SIGINT)
        output, errors = program.communicate(timeout=TIMEOUT_S)
        assert (output, errors, program.returncode) == ("interrupted\n", "", 0)
    assert fcntl.fcntl(theirs, fcntl.F_GETFL) == before


def test_cancelled_while_it_waits(engine: str, ends: Ends) -> None:
    code = """
        import asyncio
        import proactor

        async def main():
            try:
                await asyncio.wait_for(proactor.stdin.readline(), 0.05)
            except asyncio.TimeoutError:
                print("too late")

        asyncio.run(main())
    """
    with start(code, engine, stdin=ends[0]) as program:
        assert program.communicate(timeout=TIMEOUT_S) == ("too late\n", "")
        assert program.returncode == 0


def test_nobody_reads_what_it_writes(engine: str, ends: Ends) -> None:
    code = """
        import asyncio, select, sys
        import proactor

        async def main():
            task = asyncio.ensure_future(proactor.stdout.write("x" * 1_000_000))
            while select.select([], [1], [], 0)[1]:
                await asyncio.sleep(0.001)
            assert not task.done()
            task.cancel()

        asyncio.run(main())
        print("ended", file=sys.stderr)
    """
    # Of a terminal either end can be written to.
    writable = ends[0] if os.isatty(ends[0]) else ends[1]
    with start(code, engine, stdout=writable) as program:
        errors = program.communicate(timeout=TIMEOUT_S)[1]
        # One warning, with a line of the code that closes the loop.
        lost = r".*ResourceWarning: .* before \d+ bytes of a cancelled write\(\) .*\n.*\n"
        assert re.fullmatch(lost + "ended\n", errors), errors
        assert program.returncode == 0


def test_order_and_encoding(engine: str) -> None:
    code = """
        import asyncio, sys
        import proactor

        async def main():
            for at in range(50):
                print("printed", at)
                await proactor.stdout.write(f"ours {at} é☃\\n")
                sys.stdout.write("direct\\n")
                await proactor.stdout_bytes.write(b"bytes\\n")

        sys.stdout.reconfigure(encoding="latin-1", errors="replace")
        asyncio.run(main())
        asyncio.run(proactor.stdout.write("another loop\\n"))
        print("end")
    """
    expected = "".join(f"printed {at}\nours {at} é?\ndirect\nbytes\n" for at in range(50))
    program = subprocess.run(
        [sys.executable, "-W", "always", "-c", textwrap.dedent(code)],
        capture_output=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PROACTOR_ENGINE": engine},
        check=True,
    )
    assert program.stderr == b""
    assert program.stdout.decode("latin-1") == f"{expected}another loop\nend\n"


def test_a_filter(engine: str) -> None:
    """Megabytes through a program, line by line."""
    code = """
        import asyncio
        import proactor

        async def main():
            lines = []
            async for line in proactor.stdin:
                lines.append(line.upper())
                if len(lines) == 1000:
                    await proactor.stdout.writelines(lines)
                    lines.clear()
            await proactor.stdout.writelines(lines)

        asyncio.run(main())
        assert asyncio.run(proactor.stdin.read()) == ""
    """
    text = "".join(f"line {at} {'x' * (at % 60)}\n" for at in range(20_500))
    with start(code, engine, stdin=subprocess.PIPE) as program:
        assert program.communicate(text, timeout=TIMEOUT_S) == (text.upper(), "")
