"""Many whole files: read_many and read_bytes against other readers, warm and cold.

20,000 files of 4 KB and 2,000 of 100 KB. Every reader hands each file's bytes to Python and drops them;
their number is checked. `read_bytes` and `asyncio.to_thread` run under one gather, as a program would write
it. "All kept" readers hold all files in memory at the end. Compare them with each other: memory that is used
for the first time costs more than a copy. Libraries that keep a file open across an await get 64 workers,
because they would otherwise run out of descriptors. System calls are counted after the timed runs, in
separate ones, on a tenth of the files.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lib
import packages
import proactor
import proactor.sync
import summaries
import tables

CASES = {"4KB": (20_000, 4_096), "100KB": (2_000, 100_000)}
SMOKE_CASES = {"4KB": (200, 4_096), "100KB": (20, 100_000)}
GOALS = {"warm": 0.5, "cold": 0.4}
STATES = tuple(GOALS)
FILES_PER_DIRECTORY = 500
WORKERS = 64
# System calls are counted on 1 in this many files.
SHARE_COUNTED = 10
SYNC = "open().read()"
# A loop that has nothing to do, on the same machine at the same time: so late the machine itself makes ticks.
IDLE = "idle loop"
IDLE_S_PER_FILE = 25e-6


# The data


def paths_of(place: Path, count: int, size: int) -> list[str]:
    return [str(place / f"{count}x{size}" / f"{i // FILES_PER_DIRECTORY}" / f"{i}.bin") for i in range(count)]


def make(place: Path, count: int, size: int) -> list[str]:
    paths = paths_of(place, count, size)
    complete = place / f"{count}x{size}" / "complete"
    if not complete.exists():
        lib.tell(f"making {count} files of {size} bytes")
        dice = random.Random(size)
        for path in paths:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Path(path).write_bytes(dice.randbytes(size))
        complete.touch()
        lib.tell("")
    return paths


# The readers. Each gives the number of bytes it has read.


def by_open(paths: list[str]) -> int:
    total = 0
    for path in paths:
        with open(path, "rb") as file:
            total += len(file.read())
    return total


def by_os(paths: list[str]) -> int:
    total = 0
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        # As open().read() has to, it asks for the size and reads until there is no more.
        size = os.fstat(fd).st_size + 1
        while data := os.read(fd, size):
            total += len(data)
        os.close(fd)
    return total


def _read(path: str) -> int:
    with open(path, "rb") as file:
        return len(file.read())


def by_pool(paths: list[str]) -> int:
    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(_read, paths))


def by_open_kept(paths: list[str]) -> int:
    def read(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    return sum(map(len, [read(path) for path in paths]))


async def by_to_thread(paths: list[str]) -> int:
    return sum(await asyncio.gather(*(asyncio.to_thread(_read, path) for path in paths)))


def by_files_of(package: str) -> Callable[[list[str]], Awaitable[int]]:
    async def read_all(paths: list[str]) -> int:
        open_ = packages.opener(package)

        async def read(path: str) -> int:
            async with open_(path, "rb") as file:
                return len(await file.read())

        return sum(await lib.by_workers(paths, WORKERS, read))

    return read_all


async def by_anyio_path(paths: list[str]) -> int:
    import anyio

    async def read(path: str) -> int:
        return len(await anyio.Path(path).read_bytes())

    return sum(await lib.by_workers(paths, WORKERS, read))


async def by_caio(paths: list[str]) -> int:
    import caio

    async with caio.AsyncioContext(max_requests=WORKERS) as context:

        async def read(path: str) -> int:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return len(await context.read(os.fstat(fd).st_size, fd, 0))
            finally:
                os.close(fd)

        return sum(await lib.by_workers(paths, WORKERS, read))


def by_read_many(**options: Any) -> Callable[[list[str]], Awaitable[int]]:
    async def read(paths: list[str]) -> int:
        total = 0
        async for _, data in proactor.read_many(paths, return_exceptions=False, **options):
            total += len(data)
        return total

    return read


def by_sync(paths: list[str]) -> int:
    return sum(len(data) for _, data in proactor.sync.read_many(paths))


async def by_read_bytes_kept(paths: list[str]) -> int:
    return sum(map(len, await asyncio.gather(*map(proactor.read_bytes, paths))))


async def by_read_bytes(paths: list[str]) -> int:
    async def read(path: str) -> int:
        return len(await proactor.read_bytes(path))

    return sum(await asyncio.gather(*map(read, paths)))


async def idle(paths: list[str]) -> int:
    """Sleeps about as long as proactor reads, and returns the size of all files."""
    size = (await proactor.os.stat(paths[0])).st_size
    await asyncio.sleep(IDLE_S_PER_FILE * len(paths))
    return size * len(paths)


READERS: dict[str, Callable[[list[str]], Any]] = {
    SYNC: by_open,
    "open().read(), all kept": by_open_kept,
    "os.open, os.read": by_os,
    "ThreadPoolExecutor(8)": by_pool,
    "asyncio.to_thread": by_to_thread,
    "aiofiles": by_files_of("aiofiles"),
    "aiofile": by_files_of("aiofile"),
    "anyio.open_file": by_files_of("anyio"),
    "anyio.Path.read_bytes": by_anyio_path,
    "caio": by_caio,
    "proactor.read_many": by_read_many(),
    "proactor.read_many, unordered": by_read_many(ordered=False),
    "proactor.read_many, 1 worker": by_read_many(workers=1),
    "proactor.read_many, threads": by_read_many(engine="threads"),
    "proactor.sync.read_many": by_sync,
    "proactor.read_bytes, gather, all kept": by_read_bytes_kept,
    "proactor.read_bytes, gather": by_read_bytes,
    IDLE: idle,
}


# One cell, in a process of its own


def measure(reader: str, paths: list[str], *, count: bool) -> lib.Measured:
    packages.import_for(reader)
    total, costs = lib.timed(READERS[reader], paths, system_calls=count)
    return {**costs, "files": len(paths), "bytes": total}


# The comparison

HEAD = ["us/file", "CPU ms (user+sys)", "system calls per file", "max late ms"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for title, measured in data["cases"].items():
        rows = []
        files, size = CASES[title.split()[0]]
        files = measured.get("files", files)
        idle = measured["timed"].get(IDLE)
        for reader, rounds in measured["timed"].items():
            if rounds is idle:
                continue
            wall = tables.number(rounds, "wall_s", 1e3)
            counted = measured["counted"].get(reader, {})
            calls = counted.get("system_calls")
            more = [
                f"{wall.median * 1e3 / files:.1f}",
                tables.cpu_ms(rounds),
                "?" if calls is None else f"{calls / counted.get('files', files):.1f}",
                tables.late_ms(rounds),
            ]
            rows.append(tables.Row(reader, wall, more))
        state = title.split()[1]
        note = (
            f"Our goal: at most {GOALS[state]} times open(), and never 10 ms late." if size == 4_096 else ""
        )
        if idle:
            note = f"{note} An idle loop's ticks were {tables.late_ms(idle)} ms late.".strip()
        how = measured.get("how", state)
        yield tables.Group(f"{files:,} files of {size:,} bytes, {how}", "ms", rows, HEAD, note=note)


# With its figures: it is a part of docs/speed.md.
SHARES = """\
Reading a cached file takes three system calls and a sixteenth of one; `open().read()` makes nine. They are
most of the CPU time, of which `read_many` takes 0.49 times as much as `open().read()`. Fewer calls cannot
save the rest: each file's name, inode and page have to be found in memory that no processor has in its
cache. Three attempts, with the CPU time of a C program that only makes the calls for 20,000 files (89 ms
before):

- Open 16 files, read them and close all by one `close_range`: 80, kept for paths in a list or a tuple.
- Let io_uring open, read and close each file as a chain, 16 at once: 69, not kept. Nothing in a chain
  checks the type of a file before it is read, so bytes of a FIFO or a terminal would be lost. With real
  descriptors, checked between opening and reading: 73, by a C program alone.
- Leave the size out and read into more memory: 82, not kept. A short read ends at the end of the file or of
  the cached part, and one more call has to find out which.

A second thread reduces the wall time only where another processor is idle."""


def remarks(_: dict[str, str]) -> str:
    """Explains what bounds the cached case."""
    return SHARES


def main() -> None:
    parser = argparse.ArgumentParser(description="Read many whole files, by many readers.")
    tables.add_arguments(parser, rounds=5, always=SYNC)
    parser.add_argument("--case", choices=CASES, action="append", help="only this one (default: both)")
    parser.add_argument("--state", choices=STATES, action="append", help="only this one (default: both)")
    parser.add_argument("--dir", type=Path, default=lib.ROOT / ".demo" / "read_many", help="for the files")
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cell", nargs=2, metavar=("CASE", "READER"), help=argparse.SUPPRESS)
    args = tables.parse(parser)
    cases = SMOKE_CASES if args.smoke else CASES
    if args.cell:
        case, reader = args.cell
        paths = paths_of(args.dir, *cases[case])
        paths = paths[:: SHARE_COUNTED if args.count else 1]
        result = measure(reader, paths, count=args.count)
        expected = len(paths) * cases[case][1]
        assert result["bytes"] == expected, f"{reader}: {result['bytes']} of {expected} bytes"
        lib.report(result)
        return

    readers = packages.installed(tables.chosen(READERS, args.only, SYNC, IDLE))
    args.dir.mkdir(parents=True, exist_ok=True)
    data: lib.Measured = {"environment": lib.environment(args.dir, packages.COMPARED), "cases": {}}
    budget = lib.Budget(args.minutes, len(args.case or CASES) * len(args.state or STATES))
    for case in args.case or CASES:
        count, size = cases[case]
        paths = make(args.dir, count, size)
        for state in args.state or STATES:
            how = ""

            def cell(
                reader: str, *flags: str, case: str = case, state: str = state, paths: list[str] = paths
            ) -> lib.Measured:
                nonlocal how
                how = lib.make_cold(paths, gently=args.smoke) if state == "cold" else lib.make_warm(paths)
                smoke = ["--smoke"] if args.smoke else []
                command = ["--dir", str(args.dir), *smoke, *flags, "--cell", case, reader]
                return lib.fresh_process(__file__, *command)

            found = lib.in_rounds(readers, args.rounds, cell, budget.part())
            counted = {reader: cell(reader, "--count") for reader in readers}
            how = how if how == state else f"{state} ({how})"
            data["cases"][f"{case} {state}"] = {
                "files": count,
                "how": how,
                "timed": found,
                "counted": counted,
            }
    summaries.finish("read_many", data, groups(data), args)


if __name__ == "__main__":
    main()
