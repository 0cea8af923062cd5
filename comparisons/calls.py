"""What one call costs: open and close, stat, mkdir and rmdir, rename, and a directory of 10,000 entries.

Each call is awaited before the next one begins, on files and directories that are cached. The first call,
which starts threads, is outside the time. `anyio.Path` has neither scandir nor listdir: its row is
`iterdir`, whose entries are paths. aiofiles' scandir returns the standard library's entries, whose `is_file`
is not awaited.

The files are in memory (/dev/shm) by default. ext4 does not reuse an inode soon after it was deleted, so
making directories there becomes slower the more of them were just removed.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import lib
import packages
import summaries
import tables

ENTRIES, SMOKE_ENTRIES = 10_000, 50
SECONDS, SMOKE_SECONDS = 0.5, 0.005
SYNC, TO_THREAD = "synchronous", "asyncio.to_thread"


# The calls: a function that is given a folder and returns what is called again and again. Those of a loop
# return what is awaited. The folder has a file `file` and a directory `entries`.

Maker = Callable[[str], Callable[[], Any]]


def open_sync(folder: str) -> Callable[[], Any]:
    def call() -> None:
        with open(f"{folder}/file", "rb"):
            return

    return call


def open_by(package: str) -> Maker:
    def make(folder: str) -> Callable[[], Any]:
        open_ = packages.opener(package)
        path = f"{folder}/file"

        async def call() -> None:
            async with open_(path, "rb"):
                return

        return call

    return make


def in_thread(maker: Maker) -> Maker:
    """A synchronous call under `asyncio.to_thread`."""
    return lambda folder: partial(asyncio.to_thread, maker(folder))


def os_call(module: str, name: str, inside: str) -> Maker:
    """A function of `os`, or of a module with the same names, on a path in the folder."""
    return lambda folder: partial(getattr(packages.module(module), name), f"{folder}/{inside}")


def anyio_call(name: str, inside: str) -> Maker:
    return lambda folder: getattr(packages.module("anyio").Path(f"{folder}/{inside}"), name)


def names_sync(folder: str) -> Callable[[], Any]:
    def call() -> int:
        with os.scandir(f"{folder}/entries") as entries:
            return sum(1 for entry in entries if entry.name)

    return call


def files_sync(folder: str) -> Callable[[], Any]:
    def call() -> int:
        with os.scandir(f"{folder}/entries") as entries:
            return sum(1 for entry in entries if entry.is_file())

    return call


def names_aiofiles(folder: str) -> Callable[[], Any]:
    import aiofiles.os

    async def call() -> int:
        with await aiofiles.os.scandir(f"{folder}/entries") as entries:
            return sum(1 for entry in entries if entry.name)

    return call


def files_aiofiles(folder: str) -> Callable[[], Any]:
    import aiofiles.os

    async def call() -> int:
        with await aiofiles.os.scandir(f"{folder}/entries") as entries:
            return sum(1 for entry in entries if entry.is_file())

    return call


def names_anyio(folder: str) -> Callable[[], Any]:
    import anyio

    async def call() -> int:
        return len([entry async for entry in anyio.Path(f"{folder}/entries").iterdir() if entry.name])

    return call


def files_anyio(folder: str) -> Callable[[], Any]:
    import anyio

    async def call() -> int:
        return len(
            [entry async for entry in anyio.Path(f"{folder}/entries").iterdir() if await entry.is_file()]
        )

    return call


def names_proactor(folder: str) -> Callable[[], Any]:
    import proactor

    async def call() -> int:
        count = 0
        async with proactor.os.scandir(f"{folder}/entries") as entries:
            async for entry in entries:
                count += bool(entry.name)
        return count

    return call


def files_proactor(folder: str) -> Callable[[], Any]:
    import proactor

    async def call() -> int:
        count = 0
        async with proactor.os.scandir(f"{folder}/entries") as entries:
            async for entry in entries:
                count += await entry.is_file()
        return count

    return call


def mkdir_sync(folder: str) -> Callable[[], Any]:
    def call() -> None:
        os.mkdir(f"{folder}/new")
        os.rmdir(f"{folder}/new")

    return call


def mkdir_by(module: str) -> Maker:
    def make(folder: str) -> Callable[[], Any]:
        functions = packages.module(module)

        async def call() -> None:
            await functions.mkdir(f"{folder}/new")
            await functions.rmdir(f"{folder}/new")

        return call

    return make


def mkdir_anyio(folder: str) -> Callable[[], Any]:
    import anyio

    path = anyio.Path(f"{folder}/new")

    async def call() -> None:
        await path.mkdir()
        await path.rmdir()

    return call


def rename_sync(folder: str) -> Callable[[], Any]:
    def call() -> None:
        os.rename(f"{folder}/file", f"{folder}/other")
        os.rename(f"{folder}/other", f"{folder}/file")

    return call


def rename_by(module: str) -> Maker:
    def make(folder: str) -> Callable[[], Any]:
        rename = packages.module(module).rename

        async def call() -> None:
            await rename(f"{folder}/file", f"{folder}/other")
            await rename(f"{folder}/other", f"{folder}/file")

        return call

    return make


def rename_anyio(folder: str) -> Callable[[], Any]:
    import anyio

    one, other = anyio.Path(f"{folder}/file"), anyio.Path(f"{folder}/other")

    async def call() -> None:
        await one.rename(other)
        await other.rename(one)

    return call


# What is called, and by whom. A scan's result is the number of entries.
CALLS: dict[str, dict[str, Maker]] = {
    "open and close": {
        SYNC: open_sync,
        "proactor": open_by("proactor"),
        TO_THREAD: in_thread(open_sync),
        "aiofiles": open_by("aiofiles"),
        "aiofile": open_by("aiofile"),
        "anyio": open_by("anyio"),
    },
    "stat": {
        SYNC: os_call("os", "stat", "file"),
        "proactor": os_call("proactor.os", "stat", "file"),
        TO_THREAD: in_thread(os_call("os", "stat", "file")),
        "aiofiles": os_call("aiofiles.os", "stat", "file"),
        "anyio": anyio_call("stat", "file"),
    },
    "scandir, names": {
        SYNC: names_sync,
        "proactor": names_proactor,
        TO_THREAD: in_thread(names_sync),
        "aiofiles": names_aiofiles,
        "anyio, iterdir": names_anyio,
    },
    "scandir, is_file": {
        SYNC: files_sync,
        "proactor": files_proactor,
        TO_THREAD: in_thread(files_sync),
        "aiofiles": files_aiofiles,
        "anyio, iterdir": files_anyio,
    },
    "listdir": {
        SYNC: os_call("os", "listdir", "entries"),
        "proactor": os_call("proactor.os", "listdir", "entries"),
        TO_THREAD: in_thread(os_call("os", "listdir", "entries")),
        "aiofiles": os_call("aiofiles.os", "listdir", "entries"),
    },
    "mkdir and rmdir": {
        SYNC: mkdir_sync,
        "proactor": mkdir_by("proactor.os"),
        TO_THREAD: in_thread(mkdir_sync),
        "aiofiles": mkdir_by("aiofiles.os"),
        "anyio": mkdir_anyio,
    },
    "rename, there and back": {
        SYNC: rename_sync,
        "proactor": rename_by("proactor.os"),
        TO_THREAD: in_thread(rename_sync),
        "aiofiles": rename_by("aiofiles.os"),
        "anyio": rename_anyio,
    },
}
# Calls between two looks at the clock. A scan is long enough to look each time.
BATCH = {"open and close": 100, "stat": 500, "mkdir and rmdir": 50, "rename, there and back": 50}


# One cell, in a process of its own


def measure(what: str, who: str, folder: str, seconds: float, entries: int) -> lib.Measured:
    packages.import_for(who)
    call = CALLS[what][who](folder)
    costs, batch, calls = lib.Costs(system_calls=False), BATCH.get(what, 1), 0

    async def on_a_loop() -> Any:
        nonlocal calls
        first = await call()
        with costs.counted():
            deadline = time.perf_counter() + seconds
            while time.perf_counter() < deadline:
                for _ in range(batch):
                    await call()
                calls += batch
        return first

    def plainly() -> Any:
        nonlocal calls
        first = call()
        with costs.counted():
            deadline = time.perf_counter() + seconds
            while time.perf_counter() < deadline:
                for _ in range(batch):
                    call()
                calls += batch
        return first

    first = plainly() if who == SYNC else asyncio.run(on_a_loop())
    assert not inspect.isawaitable(first), f"{who}: {what} is to be awaited"
    if what.startswith("scandir"):
        assert first == entries, f"{who}: {first} of {entries} entries"
    elif what == "listdir":
        assert len(first) == entries, f"{who}: {len(first)} of {entries} entries"
    cpu_us = (costs.user_s + costs.system_s) / calls * 1e6
    return {**costs.as_dict(), "calls": calls, "us": costs.wall_s / calls * 1e6, "cpu_us": cpu_us}


# The comparison

HEAD = ["CPU us/call"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    by_call: dict[str, list[tables.Row]] = {}
    for case, rounds in data["timed"].items():
        what = next(call for call in CALLS if case.startswith(f"{call}, "))
        cpu = f"{tables.number(rounds, 'cpu_us').median:,.2f}"
        row = tables.Row(case.removeprefix(f"{what}, "), tables.number(rounds, "us"), [cpu])
        by_call.setdefault(what, []).append(row)
    for what, rows in by_call.items():
        entries = f" of {data['entries']:,} entries" if what.startswith(("scandir", "listdir")) else ""
        yield tables.Group(what + entries, "us per call", rows, HEAD, digits=2)


def memory() -> Path:
    """A file system in memory, if there is one."""
    place = Path("/dev/shm")
    return place if os.access(place, os.W_OK) else Path(tempfile.gettempdir())


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of one call, by many callers.")
    tables.add_arguments(parser, rounds=7, always=SYNC)
    parser.add_argument("--call", choices=CALLS, action="append", help="only this one (default: all)")
    parser.add_argument("--dir", type=Path, default=memory(), help="for the files (default: in memory)")
    parser.add_argument("--cell", nargs=2, metavar=("CALL", "BY"), help=argparse.SUPPRESS)
    args = tables.parse(parser)
    seconds, entries = (SMOKE_SECONDS, SMOKE_ENTRIES) if args.smoke else (SECONDS, ENTRIES)
    if args.cell:
        what, who = args.cell
        lib.report(measure(what, who, str(args.dir), seconds, entries))
        return

    everybody = dict.fromkeys(who for makers in CALLS.values() for who in makers)
    callers = packages.installed(tables.chosen(everybody, args.only, SYNC))
    cells = [(what, who) for what in args.call or CALLS for who in CALLS[what] if who in callers]
    with tempfile.TemporaryDirectory(prefix="calls-", dir=args.dir) as folder:
        environment = lib.environment(Path(folder), packages.COMPARED)
        Path(folder, "file").write_bytes(bytes(4_096))
        Path(folder, "entries").mkdir()
        for number in range(entries):
            Path(folder, "entries", f"{number}.bin").touch()

        def cell(case: tuple[str, str]) -> lib.Measured:
            smoke = ["--smoke"] if args.smoke else []
            return lib.fresh_process(__file__, "--dir", folder, *smoke, "--cell", *case)

        found = lib.in_rounds(cells, args.rounds, cell, lib.Budget(args.minutes, 1).part())
    timed = {f"{what}, {who}": found[what, who] for what, who in cells}
    data = {"environment": environment, "entries": entries, "timed": timed}
    summaries.finish("calls", data, groups(data), args)


if __name__ == "__main__":
    main()
