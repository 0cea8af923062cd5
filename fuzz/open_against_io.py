"""Random programs on files of `proactor.open` and of the built-in `open`, which must do the same.

A case is a file's content, the arguments of `open` and a list of ops. Each op is done on both sides, and what
it gives or raises must be equal, as must the files at the end. A case that differs is made as small as it
gets and printed with the seed that leads to it.

usage: open_against_io.py [--seconds N] [--seed S] [--case I]
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import random
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proactor
from open_cases import Case, Op, make, smaller

# A case that takes longer has met a call that does not end.
DEADLINE_S = 20
READS = {"read", "read1", "readline", "readlines", "readinto", "peek", "next"}
WRITES = {"write", "writelines"}
# Before 3.13, a write during an iteration loses the lines that `io` has read ahead.
ITERATION_KEEPS = sys.version_info >= (3, 13)
SINGLE_BYTE = {"ascii", "latin-1", "cp1252", "cp037"}
PAGE_BYTES = 4096
PIPE_BYTES = 1 << 20


class Differs(Exception):
    """What was done, and what came of it on both sides."""


class Side:
    """An open file's end that the other process has: what a pipe is fed from, or written to."""

    def __init__(self, case: Case, directory: Path, name: str) -> None:
        self.target: Any = directory / name
        self._thread: threading.Thread | None = None
        self._found = bytearray()
        self._kind = case.kind
        if case.kind == "file":
            self.target.write_bytes(case.content)
            return
        reader, writer = os.pipe()
        if case.kind == "pipe":
            self.target = reader
            # Where bytes are no text, how much the pipe holds at a read decides which call raises.
            part_bytes = 3000 if case.is_decodable else fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            self._thread = threading.Thread(target=self._feed, args=(writer, case.content, part_bytes))
        else:
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PAGE_BYTES)
            self.target = writer
            self._thread = threading.Thread(target=self._drain, args=(reader,))
        self._thread.start()
        if case.kind == "pipe" and not case.is_decodable:
            self._thread.join(DEADLINE_S)

    @staticmethod
    def _feed(writer: int, content: bytes, part_bytes: int) -> None:
        # The reader may have gone: EPIPE.
        try:
            with open(writer, "wb", 0) as pipe:
                rest = memoryview(content)
                while rest:
                    rest = rest[pipe.write(rest[:part_bytes]) or 0 :]
        except BrokenPipeError:
            pass

    def _drain(self, reader: int) -> None:
        while part := os.read(reader, 3000):
            self._found += part
        os.close(reader)

    def content(self) -> bytes:
        """All that was written, when the file is closed."""
        if self._thread is not None:
            self._thread.join(DEADLINE_S)
        if self._kind == "file":
            data: bytes = self.target.read_bytes()
            return data
        return bytes(self._found)


def outcome(error: BaseException) -> tuple[str, str]:
    return "raises", type(error).__name__


async def theirs_done(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (OSError, ValueError, TypeError, OverflowError) as error:
        return outcome(error)


async def ours_done(call: Callable[[], Any]) -> Any:
    try:
        return await asyncio.wait_for(call(), DEADLINE_S)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, asyncio.TimeoutError):
            return "raises", "TIMEOUT"
        return outcome(error)


class Pair:
    """One case on both sides."""

    def __init__(self, case: Case, ours: Any, theirs: Any) -> None:
        self.case = case
        self.ours, self.theirs = ours, theirs
        self.places = [0]
        # `io` has no position, or a wrong one, from a step of an iteration on.
        self.iterated = False
        # `io` does not always look for what it has not written yet, when it reads.
        self.written = False

    async def do(self, op: Op) -> bool:
        """False: the two are in states of their own from here on."""
        name, *arguments = op
        if self.case.is_text and self.written and name in READS:
            await self.do(("flush",))
        self.written = name in WRITES
        if "a" in self.case.mode and self.written and self.case.kind == "file":
            # Where such a write went is known to the kernel, and to ours. `io` counts on from where it was.
            await self.do(("seek", 0, 2))
            self.written = True
        if self.case.is_text and self.iterated and name in WRITES and self.loses_at_write():
            return False
        special = getattr(self, f"do_{name}", None)
        if special is not None:
            ours, theirs = await special(*arguments)
        else:
            ours = await ours_done(lambda: getattr(self.ours, name)(*arguments))
            theirs = await theirs_done(lambda: getattr(self.theirs, name)(*arguments))
        if ours != theirs:
            raise Differs(f"{op!r:.200}: {shown(ours)}, io: {shown(theirs)}")
        failed = isinstance(ours, tuple) and ours[:1] == ("raises",)
        return not (failed and ours[1].startswith("Unicode") and (name in WRITES or self.case.kind != "file"))

    def loses_at_write(self) -> bool:
        """Whether `io` may forget something of an iteration: lines, or what its decoder has kept."""
        text = dict(self.case.text)
        keeps_nothing = text["newline"] not in (None, "") and text["encoding"] in SINGLE_BYTE
        return not (ITERATION_KEEPS and keeps_nothing)

    async def do_next(self, count: int) -> tuple[Any, Any]:
        self.iterated = True
        ours, theirs = [], []
        for _ in range(count):
            try:
                ours.append(await asyncio.wait_for(self.ours.__anext__(), DEADLINE_S))
            except StopAsyncIteration:
                ours.append(None)
            except ValueError as error:
                ours.append(outcome(error))
            try:
                theirs.append(next(self.theirs))
            except StopIteration:
                theirs.append(None)
                self.iterated = False
            except (OSError, ValueError) as error:
                theirs.append(outcome(error))
            if ours[-1] is None or isinstance(ours[-1], tuple) or ours[-1] != theirs[-1]:
                break
        if isinstance(ours[-1], tuple) and ours == theirs:
            return ours[-1], theirs[-1]
        return ours, theirs

    async def do_readlines(self, hint: int) -> tuple[Any, Any]:
        ours = await ours_done(lambda: self.ours.readlines(hint))
        theirs = await theirs_done(lambda: self.theirs.readlines(hint))
        # An iteration, to `io`, which may have come to the end.
        self.iterated = hint > 0 or isinstance(theirs, tuple)
        return ours, theirs

    @property
    def only_reads(self) -> bool:
        """Nothing is written, which `io` does not look for when it reads past its buffer."""
        return self.case.mode == "rb" and self.case.kind == "file" and self.case.buffering != 0

    async def do_read1(self, size: int) -> tuple[Any, Any]:
        """How many bytes is each side's affair where something is written, and with pipes."""
        if self.only_reads:
            return (
                await ours_done(lambda: self.ours.read1(size)),
                await theirs_done(lambda: self.theirs.read1(size)),
            )
        ours = await ours_done(lambda: self.ours.read1(size))
        if not isinstance(ours, bytes):
            return ours, await theirs_done(lambda: self.theirs.read1(size))
        if size > 0 and not ours:
            return ours, await theirs_done(lambda: self.theirs.read(1))
        return ours, await self.theirs_read(len(ours))

    async def theirs_read(self, count: int) -> Any:
        parts = b""
        while len(parts) < count and (part := self.theirs.read(count - len(parts))):
            parts += part
        return parts

    async def do_read(self, size: int) -> tuple[Any, Any]:
        if self.case.kind == "pipe" and not self.case.is_text and self.case.buffering == 0 and size > 0:
            ours = await ours_done(lambda: self.ours.read(size))
            return ours, await self.theirs_read(len(ours)) if ours else self.theirs.read(1)
        return (
            await ours_done(lambda: self.ours.read(size)),
            await theirs_done(lambda: self.theirs.read(size)),
        )

    async def do_readinto(self, size: int) -> tuple[Any, Any]:
        target = bytearray(size)
        ours = await ours_done(lambda: self.ours.readinto(target))
        if self.case.kind == "pipe" and self.case.buffering == 0 and isinstance(ours, int):
            theirs: Any = await self.theirs_read(ours) if ours or not size else self.theirs.read(1)
            return bytes(target[:ours]), theirs
        other = bytearray(size)
        theirs = await theirs_done(lambda: self.theirs.readinto(other))
        return (ours, target), (theirs, other)

    async def do_peek(self) -> tuple[Any, Any]:
        """What is common to both, where something is written."""
        if not hasattr(self.theirs, "peek"):
            return None, None
        ours = await ours_done(lambda: self.ours.peek())
        theirs = await theirs_done(lambda: self.theirs.peek())
        if not self.only_reads and isinstance(ours, bytes) and isinstance(theirs, bytes):
            length = min(len(ours), len(theirs)) or max(len(ours), len(theirs))
            return ours[:length], theirs[:length]
        return ours, theirs

    async def do_write(self, data: Any) -> tuple[Any, Any]:
        ours = await ours_done(lambda: self.ours.write(data))
        theirs = await theirs_done(lambda: self.theirs.write(data))
        # An unbuffered write of io may be short. Ours is not.
        if self.case.buffering == 0 and isinstance(theirs, int) and isinstance(data, bytes):
            while theirs < len(data):
                theirs += self.theirs.write(data[theirs:])
        return ours, theirs

    async def do_tell(self) -> tuple[Any, Any]:
        ours = await ours_done(lambda: self.ours.tell())
        if self.iterated and self.case.is_text:
            # Ours tells while it is iterated.
            return None, None
        theirs = await theirs_done(lambda: self.theirs.tell())
        if isinstance(ours, int):
            self.places.append(ours)
        return ours, theirs

    async def do_seek_known(self, which: int) -> tuple[Any, Any]:
        place = self.places[which % len(self.places)]
        return await self.do_seek(place, 0)

    async def do_seek(self, place: int, whence: int) -> tuple[Any, Any]:
        if whence == 1 and self.iterated and self.case.is_text:
            return None, None
        ours = await ours_done(lambda: self.ours.seek(place, whence))
        theirs = await theirs_done(lambda: self.theirs.seek(place, whence))
        self.iterated = False
        return ours, theirs

    async def do_truncate(self, size: int | None) -> tuple[Any, Any]:
        return (
            await ours_done(lambda: self.ours.truncate(size)),
            await theirs_done(lambda: self.theirs.truncate(size)),
        )


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:200]}...{text[-80:]} ({len(text)} characters)"


async def play(case: Case) -> None:
    """Raises Differs if the two sides do."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        here, there = Side(case, directory, "ours"), Side(case, directory, "theirs")
        options = dict(case.text)
        ours = await proactor.open(here.target, case.mode, case.buffering, engine=case.engine, **options)
        theirs: Any = open(there.target, case.mode, case.buffering, **options)  # noqa: ASYNC230, SIM115
        try:
            pair = Pair(case, ours, theirs)
            for op in case.ops:
                if not await pair.do(op):
                    break
            ended = await ours_done(ours.close), await theirs_done(theirs.close)
            if ended[0] != ended[1]:
                raise Differs(f"close: {ended[0]}, io: {ended[1]}")
        finally:
            await ours_done(ours.close)
            await theirs_done(theirs.close)
            contents = here.content(), there.content()
        if contents[0] != contents[1]:
            raise Differs(f"the files: {shown(contents[0])}, io: {shown(contents[1])}")


async def difference(case: Case) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            await play(case)
        except Differs as differs:
            return str(differs)
    return None


async def shrunk(case: Case, seconds: float = 30) -> Case:
    end = time.monotonic() + seconds
    again = True
    while again and time.monotonic() < end:
        again = False
        for candidate in smaller(case):
            if time.monotonic() > end:
                break
            if await difference(candidate) is not None:
                case, again = candidate, True
                break
    return case


async def fuzz(seed: int, seconds: float, first: int, only: bool) -> int:
    """Plays cases until the time is up, and returns how many differ: none or one."""
    end = time.monotonic() + seconds
    number = first
    while True:
        case = make(random.Random(f"{seed}/{number}"))
        if (why := await difference(case)) is not None:
            print(f"seed {seed}, case {number}: {why}")
            case = await shrunk(case)
            print(f"shrunk: {await difference(case)}")
            fields = {
                name: getattr(case, name)
                for name in ("content", "mode", "buffering", "text", "kind", "engine")
            }
            for name, value in fields.items():
                print(f"  {name} = {shown(value)}")
            for op in case.ops:
                print(f"  {shown(op)}")
            print(f"again: {sys.argv[0]} --seed {seed} --case {number}")
            return 1
        number += 1
        if only or time.monotonic() > end:
            print(f"seed {seed}: {number - first} cases are equal")
            return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=30, help="how long (default: 30)")
    parser.add_argument("--seed", type=int, help="the seed (default: a new one)")
    parser.add_argument("--case", type=int, help="only the case of this number")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    only = options.case is not None
    return asyncio.run(fuzz(seed, options.seconds, options.case or 0, only))


if __name__ == "__main__":
    sys.exit(main())
