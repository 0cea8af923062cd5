"""Reads a dataset tree with every engine, and with what Python has by itself, and compares them.

    make demo                                  # or, with proactor installed:
    python examples/demo.py --rounds 5 --engines io_uring,threads

The dataset is made once, under `.demo` in the checkout (832 MB at most by default; `make clean` removes it):
files of log-normal sizes in class directories, as in ImageNet, and a few large shards, all of incompressible
seeded bytes. Each measurement is a fresh process that reads all of it, cold where possible, in portions.
Between portions the clocks stand still while the checksum of every byte that was read is verified, which also
bounds the memory to a portion.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import random
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import proactor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "comparisons"))

import lib  # noqa: E402
import tables  # noqa: E402

FILES = 5_000
# 5,000 files with a median of 110 KB and four shards of 32 MiB.
BYTES = 832_000_000
SHARDS = 4
SHARDS_SHARE = 0.161
# The mean is then 1.27 times the median.
SIGMA = 0.69
FILES_PER_CLASS = 100
# Read between two verifications.
PORTION_BYTES = 128_000_000
# A slow disk gets fewer rounds, so that a newcomer is not kept waiting.
ROUNDS_END_S = 60.0
VERSION = 1

OPEN, TO_THREAD = "open().read()", "asyncio.to_thread"


# The dataset


@dataclass(frozen=True)
class Entry:
    path: str
    size: int
    crc32: int


def dataset(directory: Path, files: int, size_bytes: int) -> tuple[Path, list[Entry]]:
    """Where it lies and what is in it; made if it is not there yet."""
    place = directory / f"dataset-{files}-{size_bytes}-v{VERSION}"
    manifest = place / "manifest.json"
    if manifest.is_file():
        return place, [Entry(*entry) for entry in json.loads(manifest.read_text())]
    directory.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(directory).free
    if free < size_bytes * 1.1:
        sys.exit(f"demo: {directory} has {free / 1e6:.0f} MB left; take a smaller --bytes or another --dir")
    shutil.rmtree(place, ignore_errors=True)  # half of one, perhaps
    entries = []
    done = 0
    with Bar("making the dataset", size_bytes) as bar:
        for path, size in sizes(files, size_bytes):
            content = random.Random(path).randbytes(size)
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)
            # The fastest checksum of the standard library: 2.6 GB/s where blake2b makes 0.6.
            entries.append(Entry(path, size, zlib.crc32(content)))
            done += size
            bar.show(done)
    manifest.write_text(json.dumps([[e.path, e.size, e.crc32] for e in entries]))
    return place, entries


def sizes(files: int, size_bytes: int) -> Iterator[tuple[str, int]]:
    """Paths with their sizes, which add up to `size_bytes` at most."""
    shard = int(size_bytes * SHARDS_SHARE / SHARDS)
    for number in range(SHARDS):
        yield f"shards/shard-{number}.tar", shard
    dice = random.Random(VERSION)
    weights = [dice.lognormvariate(0, SIGMA) for _ in range(files)]
    scale = (size_bytes - SHARDS * shard) / sum(weights)
    for number, weight in enumerate(weights):
        name = f"train/class-{number // FILES_PER_CLASS:03}/image-{number:05}.bin"
        yield name, int(weight * scale)


# Reading it, in a process of its own

Got = list[tuple[str, Any]]
Tick = Callable[[int], None]


async def read_by_open(paths: list[str], tick: Tick) -> Got:
    got: Got = []
    for path in paths:
        with open(path, "rb") as file:  # noqa: ASYNC230 - what it costs is the question
            got.append((path, file.read()))
        tick(len(got[-1][1]))
    return got


async def read_by_to_thread(paths: list[str], tick: Tick) -> Got:
    def read(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    async def one(path: str) -> tuple[str, bytes]:
        data = await asyncio.to_thread(read, path)
        tick(len(data))
        return path, data

    return await asyncio.gather(*map(one, paths))


async def read_by_engine(engine: str, paths: list[str], tick: Tick) -> Got:
    got: Got = []
    files = proactor.read_many(paths, concurrency=64, ordered=False, return_exceptions=True, engine=engine)
    async for path, data in files:
        got.append((path, data))
        tick(len(data) if isinstance(data, bytes) else 0)
    return got


def portions(entries: list[Entry]) -> Iterator[list[Entry]]:
    portion: list[Entry] = []
    size = 0
    for entry in entries:
        if portion and size + entry.size > PORTION_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(entry)
        size += entry.size
    yield portion


def shuffled(entries: list[Entry]) -> list[Entry]:
    """As a training run reads them. The same for all."""
    return random.Random(VERSION).sample(entries, len(entries))


async def measure(
    read: Callable[[list[str], Tick], Awaitable[Got]], place: Path, entries: list[Entry]
) -> None:
    """One cell: reads everything, verifies it, and reports on stdout."""
    # With some ten calls a file, all of it read from a disk, counting them costs less than a hundredth.
    costs, lateness = lib.Costs(system_calls=True), lib.Lateness()
    total = sum(entry.size for entry in entries)
    done, told = 0, 0

    def tick(count: int) -> None:
        nonlocal done, told
        done += count
        if done - told > total / 50:
            told = done
            print(json.dumps({"done": done}), flush=True)

    for portion in portions(shuffled(entries)):
        paths = [str(place / entry.path) for entry in portion]
        with costs.counted(), lateness.watch():
            got = await read(paths, tick)
        verify(dict(zip(paths, portion, strict=True)), got)
        del got
    lib.report(
        {
            **costs.as_dict(),
            "files": len(entries),
            "bytes": total,
            "late_p99_s": lateness.p99_s,
            "late_max_s": lateness.max_s,
        }
    )


def verify(expected: dict[str, Entry], got: Got) -> None:
    for path, data in got:
        entry = expected.pop(path, None)
        if entry is None:
            sys.exit(f"demo: {path} came twice, or unasked")
        if isinstance(data, BaseException):
            sys.exit(f"demo: {path}: {data}")
        if len(data) != entry.size or zlib.crc32(data) != entry.crc32:
            sys.exit(f"demo: {path}: not what was written: {len(data)} of {entry.size} bytes")
    if expected:
        sys.exit(f"demo: {len(expected)} files never came, such as {next(iter(expected))}")


# The comparison


class Bar:
    """A progress bar on a terminal; elsewhere one line at the start."""

    WIDTH = 32

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, max(total, 1)
        self.live = sys.stderr.isatty()
        self.start = self.shown = time.monotonic()

    def __enter__(self) -> Bar:
        if not self.live:
            print(self.title, file=sys.stderr, flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def show(self, done: int) -> None:
        now = time.monotonic()
        if not self.live or now - self.shown < 0.05:
            return
        self.shown = now
        full = int(self.WIDTH * done / self.total)
        bar = "█" * full + "░" * (self.WIDTH - full)
        speed = done / 1e6 / max(now - self.start, 1e-9)
        line = f"{self.title:32} {bar} {done / self.total:4.0%} {speed:6.0f} MB/s"
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)


def run_cell(
    how: str, title: str, args: argparse.Namespace, place: Path, entries: list[Entry]
) -> lib.Measured:
    # A try-out has no business with the rest of the machine's cache.
    caches = lib.make_cold((place / entry.path for entry in entries), gently=args.smoke)
    command = [sys.executable, __file__, "--cell", how]
    command += ["--dir", str(args.dir), "--files", str(args.files), "--bytes", str(args.bytes)]
    result: lib.Measured = {}
    with (
        Bar(title, sum(entry.size for entry in entries)) as bar,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            result = json.loads(line)
            bar.show(result.get("done", 0))
    if process.returncode != 0:
        sys.exit(f"demo: {how} failed")
    return {**result, "caches": caches}


def rows(found: dict[str, list[lib.Measured]]) -> Iterator[list[str]]:
    for how, rounds in found.items():

        def median(number: Callable[[lib.Measured], float], rounds: list[lib.Measured] = rounds) -> float:
            return tables.Summary.of(map(number, rounds)).median

        counted = all(r["system_calls"] is not None for r in rounds)
        yield [
            how,
            f"{median(lambda r: r['files'] / r['wall_s']):,.0f}",
            f"{median(lambda r: r['bytes'] / 1e6 / r['wall_s']):,.0f}",
            f"{median(lambda r: r['user_s']):.2f}",
            f"{median(lambda r: r['system_s']):.2f}",
            f"{median(lambda r: r['system_calls']):,.0f}" if counted else "?",
            f"{median(lambda r: r['late_p99_s'] * 1e3):.1f}",
            f"{median(lambda r: r['device_read_bytes'] / r['bytes']):.0%}",
        ]


HEAD = ["reader", "files/s", "MB/s", "user CPU s", "system CPU s", "system calls", "p99 late ms", "from disk"]


def conclusion(found: dict[str, list[lib.Measured]], entries: list[Entry], rounds: int) -> str:
    every = [measured for one in found.values() for measured in one]
    caches = {
        "drop_caches": "cold: the page cache was dropped before each",
        "fadvise": "cold as far as posix_fadvise goes; only root may drop the page cache",
    }
    lines = [
        f"{len(entries):,} files, {sum(e.size for e in entries) / 1e6:,.0f} MB; median of {rounds} rounds; "
        + "; ".join(caches[name] for name in sorted({measured["caches"] for measured in every})),
        "Each byte was verified (crc32) with the clocks stopped.",
        "p99 late: how late the event loop ran what was due. from disk: how much a device gave.",
    ]
    missing = {measured["no_system_calls"] for measured in every} - {None}
    lines += [f"System calls could not be counted: {reason}." for reason in missing]
    return "\n".join(lines)


def size(text: str) -> int:
    unit = {"k": 10**3, "m": 10**6, "g": 10**9}.get(text[-1:].lower())
    return int(float(text[:-1]) * unit) if unit else int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Read a dataset tree with every engine, and compare.")
    parser.add_argument("--files", type=int, metavar="N", help=f"files beside the shards (default: {FILES})")
    parser.add_argument("--bytes", type=size, metavar="N", help=f"of the whole, as 300M (default: {BYTES})")
    parser.add_argument("--rounds", type=int, metavar="N", help="default: 3, less where one takes long")
    parser.add_argument("--engines", metavar="A,B", help="default: all that work here")
    parser.add_argument("--dir", type=Path, default=ROOT / ".demo", help="default: .demo in the checkout")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--smoke", action="store_true", help="tiny and quick: only to see that it runs")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.files = args.files or (60 if args.smoke else FILES)
    args.bytes = args.bytes or (6_000_000 if args.smoke else BYTES)
    return args


def main() -> None:
    args = arguments()
    place, entries = dataset(args.dir, args.files, args.bytes)
    if args.cell:
        readers = {OPEN: read_by_open, TO_THREAD: read_by_to_thread}
        read = readers.get(args.cell) or functools.partial(read_by_engine, args.cell)
        asyncio.run(measure(read, place, entries))
        return
    engines = args.engines.split(",") if args.engines else proactor.engines()
    found: dict[str, list[lib.Measured]] = {how: [] for how in [OPEN, TO_THREAD, *engines]}
    wanted = args.rounds or (1 if args.smoke else 3)
    start = time.monotonic()
    done = 0
    while done < wanted and (args.rounds or done == 0 or time.monotonic() - start < ROUNDS_END_S):
        done += 1
        for how in random.Random(done).sample(list(found), len(found)):
            found[how].append(run_cell(how, f"round {done}/{wanted} {how}", args, place, entries))
    print(tables.table(HEAD, list(rows(found))))
    print(conclusion(found, entries, done))
    if args.json:
        data = {"environment": lib.environment(place), "entries": len(entries), "cells": found}
        args.json.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
