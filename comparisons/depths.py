"""4 KiB at random from one file of 2 GB, from Python, with 1, 16, 64 and 256 reads at once: cold and direct.

The number of workers is the depth. Each awaits one read after the other for some seconds. No block is read
twice, every contender sets POSIX_FADV_RANDOM, and the last blocks are compared with the file. fio runs on
io_uring with the same depth and with registered file and buffers. It hands nothing to Python, so it is an
upper bound.
"""

from __future__ import annotations

import argparse
import array
import asyncio
import mmap
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import bigfile
import fio
import lib
import packages
import summaries
import tables

BLOCK = 4096
SECONDS, SMOKE_SECONDS = 3.0, 0.1
DEPTHS, SMOKE_DEPTHS = (1, 16, 64, 256), (1, 16)
STATES = ("cold", "direct")
GOAL, GOAL_AT = 0.6, ("direct", 64)
FIO = "fio, io_uring"

# The readers. Each of `depth` workers reads one block after the other. Where memory has to be aligned,
# os.preadv takes the place of os.pread.

# How many a worker has read, and the last one with its offset.
Done: TypeAlias = "tuple[int, int, bytes | mmap.mmap]"
NOTHING: Done = (0, 0, b"")


def until(deadline: float, offsets: Iterator[int]) -> Iterator[int]:
    """One at least."""
    for offset in offsets:
        yield offset
        if time.perf_counter() > deadline:
            return


def by_threads(path: str, offsets: Iterator[int], seconds: float, depth: int, direct: bool) -> Any:
    """No event loop: each thread does nothing but read."""

    def work(fd: int) -> Done:
        done, page = NOTHING, mmap.mmap(-1, BLOCK)
        for count, offset in enumerate(until(deadline, offsets), 1):
            if direct:
                os.preadv(fd, [page], offset)
            data = page if direct else os.pread(fd, BLOCK, offset)
            done = count, offset, data
        return done[0], done[1], bytes(done[2])

    with bigfile.descriptor(path, direct=direct) as fd, ThreadPoolExecutor(depth) as pool:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        deadline = time.perf_counter() + seconds
        return list(pool.map(work, [fd] * depth))


async def by_executor(path: str, offsets: Iterator[int], seconds: float, depth: int, direct: bool) -> Any:
    loop = asyncio.get_running_loop()

    async def work(fd: int, pool: ThreadPoolExecutor) -> Done:
        done, page = NOTHING, mmap.mmap(-1, BLOCK)
        for count, offset in enumerate(until(deadline, offsets), 1):
            if direct:
                await loop.run_in_executor(pool, os.preadv, fd, [page], offset)
                done = count, offset, page
            else:
                done = count, offset, await loop.run_in_executor(pool, os.pread, fd, BLOCK, offset)
        return done[0], done[1], bytes(done[2])

    with bigfile.descriptor(path, direct=direct) as fd, ThreadPoolExecutor(depth) as pool:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        deadline = time.perf_counter() + seconds
        return await asyncio.gather(*(work(fd, pool) for _ in range(depth)))


def by_proactor(into: bool) -> Callable[..., Any]:
    """`preadinto` fills the same page again and again, `pread` gives new bytes each time."""

    async def read(path: str, offsets: Iterator[int], seconds: float, depth: int, direct: bool) -> Any:
        import proactor

        async def pread(file: proactor.BinaryFile) -> Done:
            done = NOTHING
            for count, offset in enumerate(until(deadline, offsets), 1):
                done = count, offset, await file.pread(BLOCK, offset)
            return done

        async def preadinto(file: proactor.BinaryFile) -> Done:
            done, page = NOTHING, mmap.mmap(-1, BLOCK)
            for count, offset in enumerate(until(deadline, offsets), 1):
                await file.preadinto(page, offset)
                done = count, offset, page
            return done[0], done[1], bytes(done[2])

        work = preadinto if into else pread
        async with proactor.open(path, "rb", direct=direct) as file:
            await file.advise(os.POSIX_FADV_RANDOM)
            deadline = time.perf_counter() + seconds
            return await asyncio.gather(*(work(file) for _ in range(depth)))

    return read


READERS: dict[str, Callable[..., Any]] = {
    "threads": by_threads,
    "asyncio, ThreadPoolExecutor": by_executor,
    "proactor pread": by_proactor(into=False),
    "proactor preadinto": by_proactor(into=True),
}


# One cell, in a process of its own


def measure(name: str, path: str, depth: int, seconds: float, *, direct: bool) -> lib.Measured:
    packages.import_for(name)
    blocks = os.path.getsize(path) // BLOCK
    # No list: the garbage collector would look at each offset, which makes a loop 27 ms late.
    order = array.array("q", range(0, blocks * BLOCK, BLOCK))
    random.shuffle(order)
    found, costs = lib.timed(READERS[name], path, iter(order), seconds, depth, direct)
    with open(path, "rb") as file:
        for _, offset, data in found:
            expected = os.pread(file.fileno(), len(data), offset)
            assert data == expected, f"{name}: wrong bytes at {offset}"
    count = sum(count for count, _, _ in found)
    assert count, f"{name}: nothing was read"
    assert all(len(data) == BLOCK for each, _, data in found if each), f"{name}: a short read"
    cpu_us = (costs["user_s"] + costs["system_s"]) / count * 1e6
    return {**costs, "reads": count, "iops": count / costs["wall_s"], "cpu_us": cpu_us}


# The comparison

HEAD = ["CPU us/read", "max late ms"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for case in data["cases"]:
        rows = [
            tables.Row(
                reader,
                tables.number(rounds, "iops"),
                [f"{tables.number(rounds, 'cpu_us').median:.1f}", tables.late_ms(rounds)],
            )
            for reader, rounds in case["timed"].items()
        ]
        title = f"{case['how']}, depth {case['depth']}"
        note = f"Our goal: at least {GOAL} of fio." if (case["state"], case["depth"]) == GOAL_AT else ""
        yield tables.Group(title, "IOPS", rows, HEAD, more_is_better=True, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(description="Read blocks of one large file at random, some at once.")
    tables.add_arguments(parser, rounds=5, always="fio")
    bigfile.add_arguments(parser)
    parser.add_argument("--seconds", type=float, metavar="S", help=f"of one cell (default: {SECONDS})")
    parser.add_argument("--state", choices=STATES, action="append", help="only this one (default: both)")
    parser.add_argument("--cell", nargs=4, metavar=("NAME", "FILE", "STATE", "DEPTH"), help=argparse.SUPPRESS)
    args = tables.parse(parser)
    seconds = args.seconds or (SMOKE_SECONDS if args.smoke else SECONDS)
    if args.cell:
        name, file, state, depth = args.cell
        lib.report(measure(name, file, int(depth), seconds, direct=state == "direct"))
        return

    states = args.state or STATES
    path = bigfile.made(args, states)
    environment = {
        **lib.environment(args.dir, ["proactor"]),
        "fio": fio.version(),
        "file": f"{path.stat().st_size >> 20:,} MiB",
        "a cell": f"{seconds:g} s",
    }
    names = tables.chosen(READERS, args.only)
    if fio.is_installed():
        names.insert(0, FIO)
    else:
        print("fio is missing: there is no ceiling to compare with", file=sys.stderr)
    bigfile.check_kept("depths", environment, args)
    cases: list[lib.Measured] = []
    budget = lib.Budget(args.minutes, len(states))
    for state in states:
        how = ""

        def cell(case: tuple[int, str], state: str = state) -> lib.Measured:
            nonlocal how
            depth, name = case
            how = bigfile.prepare(path, state, gently=args.smoke)
            if name == FIO:
                return fio.random_reads(path, depth, seconds, direct=state == "direct")
            command = ["--seconds", str(seconds), "--cell", name, str(path), state, str(depth)]
            return lib.fresh_process(__file__, *command)

        depths = SMOKE_DEPTHS if args.smoke else DEPTHS
        every = [(depth, name) for depth in depths for name in names]
        found = lib.in_rounds(every, args.rounds, cell, budget.part())
        cases += [
            {
                "state": state,
                "how": how,
                "depth": depth,
                "timed": {name: found[depth, name] for name in names},
            }
            for depth in depths
        ]
    data = {"environment": environment, "cases": cases}
    summaries.finish("depths", data, groups(data), args)


if __name__ == "__main__":
    main()
