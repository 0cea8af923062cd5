"""Many whole files: read_many and read_bytes against what else there is, warm and cold.

20,000 files of 4 KB and 2,000 of 100 KB. Every reader hands each file's bytes to Python and drops them; their
number is checked. `read_bytes` and `asyncio.to_thread` run under one gather, as one would write it. Libraries
that keep a file open across an await get 64 workers: all at once, they would run out of descriptors. System
calls are counted in a run of their own, after the timed ones.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lib
import packages
import proactor

CASES = {"4KB": (20_000, 4_096), "100KB": (2_000, 100_000)}
SMOKE_CASES = {"4KB": (200, 4_096), "100KB": (20, 100_000)}
STATES = ("warm", "cold")
FILES_PER_DIRECTORY = 500
WORKERS = 64
SYNC = "open().read()"


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


async def by_to_thread(paths: list[str]) -> int:
    return sum(await asyncio.gather(*(asyncio.to_thread(_read, path) for path in paths)))


async def _by_workers(paths: list[str], read: Callable[[str], Awaitable[int]]) -> int:
    """`WORKERS` at once."""
    left: Iterable[str] = iter(paths)

    async def work() -> int:
        total = 0
        for path in left:
            total += await read(path)
        return total

    return sum(await asyncio.gather(*(work() for _ in range(WORKERS))))


async def by_aiofiles(paths: list[str]) -> int:
    import aiofiles

    async def read(path: str) -> int:
        async with aiofiles.open(path, "rb") as file:
            return len(await file.read())

    return await _by_workers(paths, read)


async def by_aiofile(paths: list[str]) -> int:
    import aiofile

    async def read(path: str) -> int:
        async with aiofile.async_open(path, "rb") as file:
            return len(await file.read())

    return await _by_workers(paths, read)


async def by_caio(paths: list[str]) -> int:
    import caio

    async with caio.AsyncioContext(max_requests=WORKERS) as context:

        async def read(path: str) -> int:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return len(await context.read(os.fstat(fd).st_size, fd, 0))
            finally:
                os.close(fd)

        return await _by_workers(paths, read)


def by_read_many(**options: Any) -> Callable[[list[str]], Awaitable[int]]:
    async def read(paths: list[str]) -> int:
        total = 0
        async for _, data in proactor.read_many(paths, return_exceptions=False, **options):
            total += len(data)
        return total

    return read


async def by_read_bytes(paths: list[str]) -> int:
    async def read(path: str) -> int:
        return len(await proactor.read_bytes(path))

    return sum(await asyncio.gather(*map(read, paths)))


PLAIN: dict[str, Callable[[list[str]], int]] = {
    SYNC: by_open,
    "os.open, os.read": by_os,
    "ThreadPoolExecutor(8)": by_pool,
}
ON_A_LOOP: dict[str, Callable[[list[str]], Awaitable[int]]] = {
    "asyncio.to_thread": by_to_thread,
    "aiofiles": by_aiofiles,
    "aiofile": by_aiofile,
    "caio": by_caio,
    "proactor.read_many": by_read_many(),
    "proactor.read_many, unordered": by_read_many(ordered=False),
    "proactor.read_many, 1 worker": by_read_many(workers=1),
    "proactor.read_many, threads": by_read_many(engine="threads"),
    "proactor.read_bytes, gather": by_read_bytes,
}


# One cell, in a process of its own


def measure(reader: str, paths: list[str], *, count: bool) -> lib.Measured:
    packages.import_for(reader)
    costs, lateness = lib.Costs(system_calls=count), lib.Lateness()

    async def on_a_loop() -> int:
        with costs.counted(), lateness.watch():
            return await ON_A_LOOP[reader](paths)

    if reader in PLAIN:
        with costs.counted():
            total = PLAIN[reader](paths)
    else:
        total = asyncio.run(on_a_loop())
    late = None if reader in PLAIN else lateness.max_s
    return {**costs.as_dict(), "bytes": total, "late_max_s": late}


# The comparison

HEAD = ["reader", "ms", "ratio", "us/file", "CPU ms (user+sys)", "system calls", "max late ms"]


def rows(
    found: dict[str, list[lib.Measured]], counted: dict[str, lib.Measured], count: int
) -> list[list[str]]:
    result = []
    base = lib.number(found[SYNC], "wall_s")
    for reader, rounds in found.items():
        wall = lib.number(rounds, "wall_s", 1e3)
        user, system = lib.number(rounds, "user_s", 1e3), lib.number(rounds, "system_s", 1e3)
        calls = counted[reader]["system_calls"]
        result.append(
            [
                reader,
                f"{wall:.0f}",
                f"{wall.median / base.median / 1e3:.2f}",
                f"{wall.median * 1e3 / count:.1f}",
                f"{user.median:.0f}+{system.median:.0f}",
                "?" if calls is None else f"{calls:,}",
                lib.late_ms(rounds),
            ]
        )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Read many whole files, by many readers.")
    lib.add_output_arguments(parser, rounds=5)
    parser.add_argument("--case", choices=CASES, action="append", help="only this one (default: both)")
    parser.add_argument("--state", choices=STATES, action="append", help="only this one (default: both)")
    parser.add_argument(
        "--only", metavar="TEXT", help="only readers with TEXT in the name, and the sync loop"
    )
    parser.add_argument("--dir", type=Path, default=lib.ROOT / ".demo" / "read_many", help="for the files")
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--cell", nargs=2, metavar=("CASE", "READER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases = SMOKE_CASES if args.smoke else CASES
    if args.cell:
        case, reader = args.cell
        lib.report(measure(reader, paths_of(args.dir, *cases[case]), count=args.count))
        return

    readers = [r for r in [*PLAIN, *ON_A_LOOP] if r == SYNC or not args.only or args.only in r]
    packages.require(readers)
    data: lib.Measured = {"environment": {}, "cases": {}}
    text = ""
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
                result = lib.fresh_process(__file__, *command)
                expected = cases[case][0] * cases[case][1]
                assert result["bytes"] == expected, f"{reader}: {result['bytes']} of {expected} bytes"
                return result

            found = lib.in_rounds(readers, 1 if args.smoke else args.rounds, cell)
            counted = {reader: cell(reader, "--count") for reader in readers}
            data["cases"][f"{case} {state}"] = {"timed": found, "counted": counted}
            text += f"\n## {count:,} files of {size:,} bytes, {state} ({how})\n\n"
            text += lib.table(HEAD, rows(found, counted, count)) + "\n"
    data["environment"] = lib.environment(args.dir, ["proactor", *packages.RIVALS])
    lib.finish(
        "read_many", lib.header("read_many", data["environment"], lib.command_line()) + text, data, args
    )


if __name__ == "__main__":
    main()
