"""20,000 files of 4 KB, created and written: one after the other, and concurrently.

Every cell has new directories with 500 files each. The time includes no sync; what earlier cells left in the
page cache is written before. Nothing is deleted before the end, because creating files on ext4 is ten times
slower after that. All files are read and compared outside the time.

`write_bytes` and `asyncio.to_thread` run under one gather. Libraries that keep a file open across an await
get 64 workers, because they would otherwise run out of descriptors.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lib
import packages
import summaries
import tables

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


def by_files_of(package: str) -> Callable[[list[str]], Awaitable[Any]]:
    async def write_all(paths: list[str]) -> None:
        open_ = packages.opener(package)

        async def write(path: str) -> None:
            async with open_(path, "wb") as file:
                await file.write(DATA)

        await lib.by_workers(paths, WORKERS, write)

    return write_all


async def by_anyio_path(paths: list[str]) -> None:
    import anyio

    await lib.by_workers(paths, WORKERS, lambda path: anyio.Path(path).write_bytes(DATA))


async def by_write_bytes(paths: list[str]) -> None:
    import proactor

    await asyncio.gather(*(proactor.write_bytes(path, DATA) for path in paths))


WRITERS: dict[str, Callable[[list[str]], Any]] = {
    SYNC: by_open,
    "os.open, os.write": by_os,
    "ThreadPoolExecutor(8)": by_pool,
    "asyncio.to_thread": by_to_thread,
    "aiofiles": by_files_of("aiofiles"),
    "aiofile": by_files_of("aiofile"),
    "anyio.open_file": by_files_of("anyio"),
    "anyio.Path.write_bytes": by_anyio_path,
    "proactor.write_bytes, gather": by_write_bytes,
    "proactor.open": by_files_of("proactor"),
}


# One cell, in a process of its own


def measure(name: str, paths: list[str]) -> lib.Measured:
    packages.import_for(name)
    _, costs = lib.timed(WRITERS[name], paths)
    for path in paths:
        assert Path(path).read_bytes() == DATA, f"{name}: {path} is wrong"
    return costs


# The comparison

HEAD = ["us/file", "CPU ms (user+sys)", "max late ms"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    count, rows = data["files"], []
    for name, rounds in data["timed"].items():
        wall = tables.number(rounds, "wall_s", 1e3)
        per_file = f"{wall.median * 1e3 / count:.1f}"
        rows.append(tables.Row(name, wall, [per_file, tables.cpu_ms(rounds), tables.late_ms(rounds)]))
    yield tables.Group(f"{count:,} files of {SIZE_BYTES:,} bytes", "ms", rows, HEAD)


def main() -> None:
    parser = argparse.ArgumentParser(description="Create and write many small files, by many writers.")
    tables.add_arguments(parser, rounds=5, always=SYNC)
    parser.add_argument("--dir", type=Path, help="for the files (default: a temporary folder)")
    parser.add_argument("--cell", nargs=2, metavar=("NAME", "COUNT"), help=argparse.SUPPRESS)
    args = tables.parse(parser)
    if args.cell:
        name, count = args.cell
        lib.report(measure(name, paths_in(args.dir, int(count))))
        return

    writers = packages.installed(tables.chosen(WRITERS, args.only, SYNC))
    count = SMOKE_COUNT if args.smoke else COUNT
    with tempfile.TemporaryDirectory(prefix="create-", dir=args.dir) as folder:
        environment = lib.environment(Path(folder), packages.COMPARED)
        numbers = itertools.count()

        def cell(name: str) -> lib.Measured:
            place = Path(folder) / str(next(numbers))
            for directory in {os.path.dirname(path) for path in paths_in(place, count)}:
                os.makedirs(directory)
            if not args.smoke:
                os.sync()
                time.sleep(lib.SETTLE_S)
            return lib.fresh_process(__file__, "--dir", str(place), "--cell", name, str(count))

        found = lib.in_rounds(writers, args.rounds, cell, lib.Budget(args.minutes, 1).part())
    data = {"environment": environment, "files": count, "timed": found}
    summaries.finish("create", data, groups(data), args)


if __name__ == "__main__":
    main()
