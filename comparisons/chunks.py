"""One file of 2 GB, read in order: by chunks of 64 KB and 1 MB, and as a whole.

Cached: the data is in the page cache. Cold: it is not. Direct: O_DIRECT bypasses the cache. `read` returns
new bytes each time; `readinto` fills the same aligned memory again. The bytes are counted. A direct file of
proactor has a buffer of 256 KiB, so chunks of 64 KB take fewer reads there.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
from collections.abc import Iterator
from typing import Any

import bigfile
import lib
import packages
import summaries
import tables
from proactor._bench.chunks import WHOLE, Reader, by_open, by_read, by_to_thread

CHUNKS = {"64KB": 64 << 10, "1MB": 1 << 20, "whole": WHOLE}

# The readers that only this comparison has. Each gives the number of bytes that it has read.


def into_by_open(path: str, chunk: int) -> int:
    buffer = mmap.mmap(-1, chunk)
    total = 0
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            total += count
    return total


def direct_by_os(path: str, chunk: int) -> int:
    buffers = [mmap.mmap(-1, chunk)]
    total = 0
    with bigfile.descriptor(path, direct=True) as fd:
        while count := os.preadv(fd, buffers, total):
            total += count
    return total


async def direct_by_to_thread(path: str, chunk: int) -> int:
    with bigfile.descriptor(path, direct=True) as fd:
        buffers = [mmap.mmap(-1, chunk)]
        total = 0
        while count := await asyncio.to_thread(os.preadv, fd, buffers, total):
            total += count
        return total


def by_readinto(package: str, **options: Any) -> Reader:
    """Again and again into the same memory, which is aligned to a page."""

    async def reader(path: str, chunk: int) -> int:
        buffer, total = mmap.mmap(-1, chunk), 0
        async with packages.opener(package)(path, "rb", **options) as file:
            while count := await file.readinto(buffer):
                total += count
        return total

    return reader


async def by_read_bytes(path: str, chunk: int) -> int:
    import proactor

    return len(await proactor.read_bytes(path))


# The first is what the others are compared with.
BUFFERED: dict[str, Reader] = {
    "open(), read": by_open,
    "open(), readinto": into_by_open,
    "asyncio.to_thread": by_to_thread,
    "aiofiles": by_read("aiofiles", buffering=0),
    "aiofile": by_read("aiofile"),
    "anyio": by_read("anyio", buffering=0),
    "proactor.open, read": by_read("proactor"),
    "proactor.open, readinto": by_readinto("proactor"),
    "proactor.read_bytes": by_read_bytes,
}
# aiofile has no way to read into memory that is aligned.
DIRECT: dict[str, Reader] = {
    "os.preadv": direct_by_os,
    "asyncio.to_thread": direct_by_to_thread,
    "aiofiles": by_readinto("aiofiles", buffering=0, opener=bigfile.open_direct),
    "anyio": by_readinto("anyio", buffering=0, opener=bigfile.open_direct),
    "proactor.open, read": by_read("proactor", direct=True),
    "proactor.open, readinto": by_readinto("proactor", direct=True),
}


def readers_of(state: str, chunk: int) -> dict[str, Reader]:
    """Those that can do it."""
    not_here = ("readinto",) if chunk == WHOLE else ("read_bytes",)
    readers = DIRECT if state == "direct" else BUFFERED
    return {name: reader for name, reader in readers.items() if not name.endswith(not_here)}


# One cell, in a process of its own


def measure(name: str, path: str, state: str, chunk: int) -> lib.Measured:
    packages.import_for(name)
    total, costs = lib.timed(readers_of(state, chunk)[name], path, chunk)
    size = os.path.getsize(path)
    assert total == size, f"{name}: {total} of {size} bytes"
    return {**costs, "bytes": total, "mb_s": size / costs["wall_s"] / 1e6}


# The comparison

HEAD = ["ms", "CPU ms (user+sys)", "max late ms"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for case in data["cases"]:
        rows = [
            tables.Row(
                reader,
                tables.number(rounds, "mb_s"),
                [
                    f"{tables.number(rounds, 'wall_s', 1e3).median:.0f}",
                    tables.cpu_ms(rounds),
                    tables.late_ms(rounds),
                ],
            )
            for reader, rounds in case["timed"].items()
        ]
        size = "as a whole" if case["chunk"] == "whole" else f"by {case['chunk']}"
        yield tables.Group(f"{size}, {case['how']}", "MB/s", rows, HEAD, more_is_better=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Read one large file by chunks and as a whole.")
    tables.add_arguments(parser, rounds=5, always="the synchronous one")
    bigfile.add_arguments(parser)
    parser.add_argument(
        "--state", choices=bigfile.STATES, action="append", help="only this one (default: all)"
    )
    parser.add_argument("--cell", nargs=4, metavar=("NAME", "FILE", "STATE", "CHUNK"), help=argparse.SUPPRESS)
    args = tables.parse(parser)
    if args.cell:
        name, file, state, chunk = args.cell
        lib.report(measure(name, file, state, CHUNKS[chunk]))
        return

    states = args.state or bigfile.STATES
    path = bigfile.made(args, states)
    environment = {
        **lib.environment(args.dir, packages.COMPARED),
        "file": f"{path.stat().st_size >> 20:,} MiB",
    }
    bigfile.check_kept("chunks", environment, args)
    cases: list[lib.Measured] = []
    budget = lib.Budget(args.minutes, len(states) * len(CHUNKS) - ("direct" in states))
    for state in states:
        for chunk in CHUNKS:
            if state == "direct" and chunk == "whole":
                continue
            names = list(readers_of(state, CHUNKS[chunk]))
            names = packages.installed(tables.chosen(names, args.only, names[0]))
            how = ""

            def cell(name: str, state: str = state, chunk: str = chunk) -> lib.Measured:
                nonlocal how
                how = bigfile.prepare(path, state, gently=args.smoke)
                return lib.fresh_process(__file__, "--cell", name, str(path), state, chunk)

            found = lib.in_rounds(names, args.rounds, cell, budget.part())
            cases.append({"state": state, "chunk": chunk, "how": how, "timed": found})
    data = {"environment": environment, "cases": cases}
    summaries.finish("chunks", data, groups(data), args)


if __name__ == "__main__":
    main()
