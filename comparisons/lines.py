"""Line by line: 100 files of 10,000 lines, all files at once, each line awaited.

The work of the blog post "Asyncio: concurrent file operations". The synchronous version does one file after
the other. A writer makes the same text in each file; a reader counts lines and characters, which are checked.
Libraries that hand each line to a thread get fewer lines a file (`SHARE`), and the synchronous version is
measured with as few for their ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import lib
import packages

FILES, LINES = 100, 10_000
SMOKE_FILES, SMOKE_LINES = 5, 200
# What hops to a thread per line writes and reads 1 in so many lines.
SHARE = 20
TICK_S = 0.010
SYNC = "open()"
WORK = ("write", "read")


def lines(count: int) -> Iterator[str]:
    for number in range(count):
        yield f"line number {number} of this file\n"


def characters(count: int) -> int:
    return sum(map(len, lines(count)))


# The writers and readers of one file


def write_sync(path: str, count: int) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for line in lines(count):
            file.write(line)


def read_sync(path: str) -> tuple[int, int]:
    found = total = 0
    with open(path, encoding="utf-8") as file:
        for line in file:
            found += 1
            total += len(line)
    return found, total


async def write_proactor(path: str, count: int) -> None:
    import proactor

    async with proactor.open(path, "w", encoding="utf-8") as file:
        for line in lines(count):
            await file.write(line)


async def read_proactor(path: str) -> tuple[int, int]:
    import proactor

    found = total = 0
    async with proactor.open(path, encoding="utf-8") as file:
        async for line in file:
            found += 1
            total += len(line)
    return found, total


async def write_aiofiles(path: str, count: int) -> None:
    import aiofiles

    async with aiofiles.open(path, "w", encoding="utf-8") as file:
        for line in lines(count):
            await file.write(line)


async def read_aiofiles(path: str) -> tuple[int, int]:
    import aiofiles

    found = total = 0
    async with aiofiles.open(path, encoding="utf-8") as file:
        async for line in file:
            found += 1
            total += len(line)
    return found, total


async def write_aiofile(path: str, count: int) -> None:
    import aiofile

    async with aiofile.async_open(path, "w", encoding="utf-8") as file:
        for line in lines(count):
            await file.write(line)


async def read_aiofile(path: str) -> tuple[int, int]:
    import aiofile

    found = total = 0
    async with aiofile.async_open(path, encoding="utf-8") as file:
        async for line in file:
            found += 1
            total += len(line)
    return found, total


async def write_anyio(path: str, count: int) -> None:
    import anyio

    async with await anyio.open_file(path, "w", encoding="utf-8") as file:
        for line in lines(count):
            await file.write(line)


async def read_anyio(path: str) -> tuple[int, int]:
    import anyio

    found = total = 0
    async with await anyio.open_file(path, encoding="utf-8") as file:
        async for line in file:
            found += 1
            total += len(line)
    return found, total


async def write_to_thread(path: str, count: int) -> None:
    await asyncio.to_thread(write_sync, path, count)


async def read_to_thread(path: str) -> tuple[int, int]:
    return await asyncio.to_thread(read_sync, path)


Writer = Callable[[str, int], Awaitable[None]]
Reader = Callable[[str], Awaitable[tuple[int, int]]]
ON_A_LOOP: dict[str, tuple[Writer, Reader]] = {
    "proactor": (write_proactor, read_proactor),
    "asyncio.to_thread per file": (write_to_thread, read_to_thread),
    "aiofiles": (write_aiofiles, read_aiofiles),
    "aiofile": (write_aiofile, read_aiofile),
    "anyio": (write_anyio, read_anyio),
}
PER_FILE = (SYNC, "proactor", "asyncio.to_thread per file")


# One cell, in a process of its own


def measure(name: str, work: str, paths: list[str], count: int) -> lib.Measured:
    packages.import_for(name)
    costs, lateness = lib.Costs(system_calls=False), lib.Lateness(TICK_S)

    async def on_a_loop() -> list[Any]:
        write, read = ON_A_LOOP[name]
        with costs.counted(), lateness.watch():
            if work == "write":
                return await asyncio.gather(*(write(path, count) for path in paths))
            return await asyncio.gather(*(read(path) for path in paths))

    before_mb = peak_mb()
    if name == SYNC:
        with costs.counted():
            found: list[Any] = []
            for path in paths:
                if work == "write":
                    write_sync(path, count)
                else:
                    found.append(read_sync(path))
    else:
        found = asyncio.run(on_a_loop())
    # The writers' work is checked by the synchronous reader, out of the time.
    memory_mb = peak_mb()
    if work == "write":
        found = [read_sync(path) for path in paths]
    assert found == [(count, characters(count))] * len(paths), f"{name}: {found[:1]}"
    late = None if name == SYNC else lateness.max_s
    return {**costs.as_dict(), "late_max_s": late, "peak_mb": memory_mb, "work_mb": memory_mb - before_mb}


def peak_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise LookupError("VmHWM")


# The comparison

HEAD = ["by", "lines", "ms", "ratio", "us/line", "CPU ms (user+sys)", "max late ms", "peak RSS MB"]


def row(name: str, count: int, files: int, rounds: list[lib.Measured], base: list[lib.Measured]) -> list[str]:
    plain, wall = lib.number(base, "wall_s"), lib.number(rounds, "wall_s", 1e3)
    user, system = lib.number(rounds, "user_s", 1e3), lib.number(rounds, "system_s", 1e3)
    return [
        name,
        f"{files} x {count:,}",
        f"{wall:.0f}",
        f"{wall.median / plain.median / 1e3:.2f}",
        f"{wall.median * 1e3 / count / files:.2f}",
        f"{user.median:.0f}+{system.median:.0f}",
        lib.late_ms(rounds),
        f"{lib.number(rounds, 'peak_mb').median:.1f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Write and read lines, each awaited, in many files at once.")
    lib.add_output_arguments(parser, rounds=5)
    parser.add_argument("--only", metavar="TEXT", help="only those with TEXT in the name, and open()")
    parser.add_argument("--dir", type=Path, help="for the files (default: a temporary folder)")
    parser.add_argument("--cell", nargs=4, metavar=("NAME", "WORK", "FILES", "LINES"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cell:
        name, work, files, count = args.cell
        paths = [str(args.dir / f"{number}.txt") for number in range(int(files))]
        lib.report(measure(name, work, paths, int(count)))
        return

    files, most = (SMOKE_FILES, SMOKE_LINES) if args.smoke else (FILES, LINES)
    names = [name for name in ON_A_LOOP if not args.only or args.only in name]
    packages.require(names)
    counts = {name: most if name in PER_FILE else most // SHARE for name in names}
    cells = [(SYNC, count) for count in sorted(set(counts.values()))] + list(counts.items())
    data: lib.Measured = {"environment": {}, "work": {}}
    text = ""
    with tempfile.TemporaryDirectory(prefix="lines-", dir=args.dir) as folder:
        for work in WORK:

            def cell(case: tuple[str, int], work: str = work) -> lib.Measured:
                name, count = case
                if work == "read":
                    for number in range(files):
                        write_sync(f"{folder}/{number}.txt", count)
                return lib.fresh_process(
                    __file__, "--dir", folder, "--cell", name, work, str(files), str(count)
                )

            found = lib.in_rounds(cells, 1 if args.smoke else args.rounds, cell)
            table = [row(*case, files, found[case], found[SYNC, case[1]]) for case in cells]
            data["work"][work] = {f"{name}, {count} lines": found[name, count] for name, count in cells}
            text += f"\n## {work}\n\n{lib.table(HEAD, table)}\n"
        data["environment"] = lib.environment(Path(folder), ["proactor", *packages.RIVALS])
    head = lib.header("lines", data["environment"], lib.command_line())
    lib.finish("lines", head + text, data, args)


if __name__ == "__main__":
    main()
