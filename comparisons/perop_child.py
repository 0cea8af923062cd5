"""The Python side of perop.py: one case timed, or all of them run to be counted.

Called with a case, or with --count; the last line that it prints is a JSON object.
"""

from __future__ import annotations

import argparse
import os
import select
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import lib
from proactor import aio

ENGINES = ["io_uring", "linux_aio", "posix_aio", "threads"]
BLOCK_BYTES = 4096
FILE_BLOCKS = 16
BATCHES = (1, 64)
# A round long enough for the clock, and short enough for all of them.
ROUND_S, SMOKE_ROUND_S = 0.06, 0.002
# Whole batches. Under callgrind everything is fifty times slower.
COUNTED_OPS = 1920

Turns = Callable[[int], None]


class Case(NamedTuple):
    language: str
    op: str
    engine: str
    inline: bool | None
    batch: int


def cases() -> list[Case]:
    floors = [Case("Python", "read", name, None, 1) for name in ("os.pread", "os.preadv")]
    polls = [Case("Python", "poll", engine, False, batch) for engine in ENGINES for batch in BATCHES]
    reads = [
        Case("Python", "read", engine, inline, batch)
        for engine in ENGINES
        for inline in (True, False)
        for batch in BATCHES
    ]
    return [*floors, *polls, *reads]


@contextmanager
def turns_of(case: Case) -> Iterator[Turns]:
    """A function that does a number of batches of the op. OSError: it is not possible here."""
    with tempfile.TemporaryFile() as file:
        file.write(bytes(BLOCK_BYTES * FILE_BLOCKS))
        file.flush()
        if case.inline is None:
            yield floor(case.engine, file.fileno())
            return
        ready = os.eventfd(1)
        try:
            with aio.Context(max_jobs=max(case.batch, 64), engine=case.engine, inline=case.inline) as context:
                fd = ready if case.op == "poll" else file.fileno()
                yield through(context, case.op, fd, case.batch)
        finally:
            os.close(ready)


def floor(name: str, fd: int) -> Turns:
    def pread(turns: int) -> None:
        for turn in range(turns):
            os.pread(fd, BLOCK_BYTES, turn % FILE_BLOCKS * BLOCK_BYTES)

    buffers = [bytearray(BLOCK_BYTES)]

    def preadv(turns: int) -> None:
        for turn in range(turns):
            os.preadv(fd, buffers, turn % FILE_BLOCKS * BLOCK_BYTES)

    return pread if name == "os.pread" else preadv


def through(context: aio.Context, op: str, fd: int, batch: int) -> Turns:
    """Ops are made once and used again, as a program in a hurry would."""
    ops: list[aio.Op]
    if op == "poll":
        ops = [aio.Poll(fd, select.POLLIN) for _ in range(batch)]
        expected = select.POLLIN
    else:
        ops = [aio.Read(fd, BLOCK_BYTES, offset=i % FILE_BLOCKS * BLOCK_BYTES) for i in range(batch)]
        expected = BLOCK_BYTES

    def turns(count: int) -> None:
        submit, wait = context.submit, context.wait
        for _ in range(count):
            submit(*ops)
            for event in wait(batch):
                assert event.result == expected

    return turns


def timed(turns: Turns, batch: int, rounds: int, round_s: float) -> list[float]:
    """Nanoseconds per op, of each round."""
    count = 16
    while True:
        start = time.perf_counter()
        turns(count)
        took = time.perf_counter() - start
        if took > round_s / 8:
            break
        count *= 2
    count = max(int(count * round_s / took), 1)
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        turns(count)
        found.append((time.perf_counter() - start) / (count * batch) * 1e9)
    return found


def count() -> list[int]:
    """Does `COUNTED_OPS` of each case between two calls of getloadavg; which cases it could do, by number.

    Nothing else calls that, so callgrind can be told to begin a new count there.
    """
    counted = []
    for number, case in enumerate(cases()):
        try:
            with turns_of(case) as turns:
                turns(1)
                os.getloadavg()
                turns(COUNTED_OPS // case.batch)
                os.getloadavg()
                counted.append(number)
        except OSError:
            continue
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description="One cell of perop.py.")
    parser.add_argument("--case", type=int, metavar="NUMBER")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.count:
        lib.report({"counted": count()})
        return
    case = cases()[args.case]
    try:
        with turns_of(case) as turns:
            ns = timed(turns, case.batch, args.rounds, SMOKE_ROUND_S if args.smoke else ROUND_S)
    except OSError as error:
        lib.report({"unavailable": str(error)})
    else:
        lib.report({"ns": ns})


if __name__ == "__main__":
    main()
