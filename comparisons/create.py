"""20,000 files of 4 KB, created and written: one after the other, and concurrently.

Every cell has new directories, of 500 files each. Nothing is synced in the time; what earlier cells left in
the page cache is written before. Nothing is deleted before the end either: on ext4 creates are ten times
slower after that. All files are read and compared, out of the time.

`write_bytes` and `asyncio.to_thread` run under one gather. Those that keep a file open across an await get 64
workers: all at once, they would run out of descriptors.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lib
import packages

COUNT, SMOKE_COUNT = 20_000, 100
SIZE_BYTES = 4_096
FILES_PER_DIRECTORY = 500
WORKERS = 64
SYNC = "open().write()"

DATA = random.Random(SIZE_BYTES).randbytes(SIZE_BYTES)


def paths_in(place: Path, count: int) -> list[str]:
    return [str(place / f"{number // FILES_PER_DIRECTORY}" / f"{number}.bin") for number in range(count)]


# The writers


def _write(path: str) -> None:
    with open(path, "wb") as file:
        file.write(DATA)


def by_open(paths: list[str]) -> None:
    for path in paths:
        _write(path)


def by_os(paths: list[str]) -> None:
    for path in paths:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        os.write(fd, DATA)
        os.close(fd)


def by_pool(paths: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(_write, paths):
            pass


async def by_to_thread(paths: list[str]) -> None:
    await asyncio.gather(*(asyncio.to_thread(_write, path) for path in paths))


async def _by_workers(paths: list[str], write: Callable[[str], Awaitable[Any]]) -> None:
    """`WORKERS` at once."""
    left: Iterable[str] = iter(paths)

    async def work() -> None:
        for path in left:
            await write(path)

    await asyncio.gather(*(work() for _ in range(WORKERS)))


async def by_aiofiles(paths: list[str]) -> None:
    import aiofiles

    async def write(path: str) -> None:
        async with aiofiles.open(path, "wb") as file:
            await file.write(DATA)

    await _by_workers(paths, write)


async def by_aiofile(paths: list[str]) -> None:
    import aiofile

    async def write(path: str) -> None:
        async with aiofile.async_open(path, "wb") as file:
            await file.write(DATA)

    await _by_workers(paths, write)


async def by_anyio(paths: list[str]) -> None:
    import anyio

    async def write(path: str) -> None:
        async with await anyio.open_file(path, "wb") as file:
            await file.write(DATA)

    await _by_workers(paths, write)


async def by_anyio_path(paths: list[str]) -> None:
    import anyio

    await _by_workers(paths, lambda path: anyio.Path(path).write_bytes(DATA))


async def by_write_bytes(paths: list[str]) -> None:
    import proactor

    await asyncio.gather(*(proactor.write_bytes(path, DATA) for path in paths))


async def by_proactor_open(paths: list[str]) -> None:
    import proactor

    async def write(path: str) -> None:
        async with proactor.open(path, "wb") as file:
            await file.write(DATA)

    await _by_workers(paths, write)


WRITERS: dict[str, Callable[[list[str]], Any]] = {
    SYNC: by_open,
    "os.open, os.write": by_os,
    "ThreadPoolExecutor(8)": by_pool,
    "asyncio.to_thread": by_to_thread,
    "aiofiles": by_aiofiles,
    "aiofile": by_aiofile,
    "anyio.open_file": by_anyio,
    "anyio.Path.write_bytes": by_anyio_path,
    "proactor.write_bytes, gather": by_write_bytes,
    "proactor.open": by_proactor_open,
}


# One cell, in a process of its own


def measure(name: str, paths: list[str]) -> lib.Measured:
    packages.import_for(name)
    writer = WRITERS[name]
    costs, lateness = lib.Costs(system_calls=False), lib.Lateness()

    async def on_a_loop() -> None:
        with costs.counted(), lateness.watch():
            await writer(paths)

    if inspect.iscoroutinefunction(writer):
        asyncio.run(on_a_loop())
        late = lateness.max_s
    else:
        with costs.counted():
            writer(paths)
        late = None
    for path in paths:
        assert Path(path).read_bytes() == DATA, f"{name}: {path} is wrong"
    return {**costs.as_dict(), "late_max_s": late}


# The comparison

HEAD = ["writer", "ms", "ratio", "us/file", "CPU ms (user+sys)", "max late ms"]


def rows(found: dict[str, list[lib.Measured]], count: int) -> list[list[str]]:
    base = lib.number(found[SYNC], "wall_s", 1e3).median
    result = []
    for name, rounds in found.items():
        wall = lib.number(rounds, "wall_s", 1e3)
        cpu = "+".join(f"{lib.number(rounds, key, 1e3).median:.0f}" for key in ("user_s", "system_s"))
        per_file = f"{wall.median * 1e3 / count:.1f}"
        result.append([name, f"{wall:.0f}", f"{wall.median / base:.2f}", per_file, cpu, lib.late_ms(rounds)])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Create and write many small files, by many writers.")
    lib.add_output_arguments(parser, rounds=5)
    parser.add_argument(
        "--only", metavar="TEXT", help="only writers with TEXT in the name, and the sync loop"
    )
    parser.add_argument("--dir", type=Path, help="for the files (default: a temporary folder)")
    parser.add_argument("--cell", nargs=2, metavar=("NAME", "COUNT"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cell:
        name, count = args.cell
        lib.report(measure(name, paths_in(args.dir, int(count))))
        return

    writers = [name for name in WRITERS if name == SYNC or not args.only or args.only in name]
    packages.require(writers)
    count = SMOKE_COUNT if args.smoke else COUNT
    with tempfile.TemporaryDirectory(prefix="create-", dir=args.dir) as folder:
        numbers = iter(range(len(writers) * args.rounds))

        def cell(name: str) -> lib.Measured:
            place = Path(folder) / str(next(numbers))
            for directory in {os.path.dirname(path) for path in paths_in(place, count)}:
                os.makedirs(directory)
            if not args.smoke:
                os.sync()
                time.sleep(lib.SETTLE_S)
            return lib.fresh_process(__file__, "--dir", str(place), "--cell", name, str(count))

        found = lib.in_rounds(writers, 1 if args.smoke else args.rounds, cell)
        environment = lib.environment(Path(folder), ["proactor", *packages.RIVALS])
    text = f"\n## {count:,} files of {SIZE_BYTES:,} bytes\n\n{lib.table(HEAD, rows(found, count))}\n"
    data = {"environment": environment, "files": count, "timed": found}
    lib.finish("create", lib.header("create", environment, lib.command_line()) + text, data, args)


if __name__ == "__main__":
    main()
