"""The tasks of `proactor bench files`: their data, who takes part, and a round of one of them.

Every contender does the same work on the same files; what it has read is compared with what is there, out of
the time.
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from proactor._bench import chunks, lines, positions, whole
from proactor._bench.measuring import Measured, timed
from proactor._bench.taken import Taken

MIB = 1 << 20
CHUNK_BYTES = 64 << 10
SMALL_BYTES = 4 << 10
# A quick look has so much less of everything.
QUICK = 10


@dataclass(frozen=True)
class Sizes:
    """How much there is of each."""

    small_files: int
    file_mib: int
    reads: int
    text_files: int
    text_lines: int

    @classmethod
    def of(cls, quick: bool) -> Sizes:
        part = QUICK if quick else 1
        return cls(5_000 // part, 256 // part, 50_000 // part, 20, 5_000 // part)


class Wrong(Exception):
    """A contender has not done the work."""


@dataclass(frozen=True)
class Task:
    """`about` has names of `Sizes`, `size` is what they need. `run` gives what was done and what it cost."""

    about: str
    contenders: Sequence[str]
    size: Callable[[Sizes], int]
    make: Callable[[Path, Sizes], None]
    run: Callable[..., tuple[Taken, Measured]]

    def words(self, sizes: Sizes) -> str:
        return self.about.format(**{name: f"{value:,}" for name, value in vars(sizes).items()})


# Whole small files


def small_paths(place: Path, sizes: Sizes) -> list[str]:
    return [str(place / f"{number // 500}" / f"{number}.bin") for number in range(sizes.small_files)]


def size_of_small(sizes: Sizes) -> int:
    return sizes.small_files * SMALL_BYTES


def make_small(place: Path, sizes: Sizes) -> None:
    bits = random.Random(1)
    for path in small_paths(place, sizes):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_bytes(bits.randbytes(SMALL_BYTES))


def run_small(
    contender: str, place: Path, sizes: Sizes, verify: bool, **options: Any
) -> tuple[Taken, Measured]:
    paths, taken = small_paths(place, sizes), Taken(verify)
    _, costs = timed(whole.CONTENDERS[contender], paths, taken, **options)
    expect(taken, len(paths), sum(map(os.path.getsize, paths)))
    if verify:
        expect_sum(taken, sum(zlib.crc32(whole.read_sync(path)) for path in paths))
    return taken, costs


# One large file


def size_of_large(sizes: Sizes) -> int:
    return sizes.file_mib * MIB


def make_large(place: Path, sizes: Sizes) -> None:
    bits = random.Random(2)
    with open(place / "large.bin", "wb") as file:
        for _ in range(sizes.file_mib):
            file.write(bits.randbytes(MIB))


CHUNKS: Mapping[str, chunks.Reader] = {
    "open()": chunks.by_open,
    "asyncio.to_thread": chunks.by_to_thread,
    "aiofiles": chunks.by_read("aiofiles", buffering=0),
    "aiofile": chunks.by_read("aiofile"),
    "anyio": chunks.by_read("anyio", buffering=0),
    "proactor.open": chunks.by_read("proactor"),
}


def run_chunks(
    contender: str, place: Path, sizes: Sizes, verify: bool, **options: Any
) -> tuple[Taken, Measured]:
    total, costs = timed(CHUNKS[contender], str(place / "large.bin"), CHUNK_BYTES, **options)
    taken = Taken(ops=total // CHUNK_BYTES, bytes=total)
    expect(taken, sizes.file_mib * MIB // CHUNK_BYTES, sizes.file_mib * MIB)
    return taken, costs


def run_random(
    contender: str, place: Path, sizes: Sizes, verify: bool, **options: Any
) -> tuple[Taken, Measured]:
    bits, blocks = random.Random(3), sizes.file_mib * MIB // positions.SIZE_BYTES
    offsets = [bits.randrange(blocks) * positions.SIZE_BYTES for _ in range(sizes.reads)]
    path, taken = str(place / "large.bin"), Taken(verify)
    _, costs = timed(positions.CONTENDERS[contender], path, offsets, taken, **options)
    expect(taken, len(offsets), len(offsets) * positions.SIZE_BYTES)
    if verify:
        there = Taken(verify)
        positions.by_pread(path, offsets, there)
        expect_sum(taken, there.checksum)
    return taken, costs


# Lines


def text_paths(place: Path, sizes: Sizes) -> list[str]:
    return [str(place / f"{number}.txt") for number in range(sizes.text_files)]


def size_of_text(sizes: Sizes) -> int:
    return sizes.text_files * lines.characters(sizes.text_lines)


def make_text(place: Path, sizes: Sizes) -> None:
    for path in text_paths(place, sizes):
        lines.write_sync(path, sizes.text_lines)


def run_lines(
    work: str, contender: str, place: Path, sizes: Sizes, verify: bool, **options: Any
) -> tuple[Taken, Measured]:
    paths = text_paths(place, sizes)
    found, costs = timed(lines.ALL[contender], work, paths, sizes.text_lines, **options)
    if work == "write":
        found = [lines.read_sync(path) for path in paths]
    each = (sizes.text_lines, lines.characters(sizes.text_lines))
    if found != [each] * len(paths):
        raise Wrong(f"{contender}: {found[:1]} lines and characters in a file instead of {each}")
    return Taken(ops=each[0] * len(paths), bytes=each[1] * len(paths)), costs


def expect(taken: Taken, ops: int, size: int) -> None:
    if (taken.ops, taken.bytes) != (ops, size):
        raise Wrong(f"{taken.ops} reads of {taken.bytes} bytes together instead of {ops} of {size}")


def expect_sum(taken: Taken, checksum: int) -> None:
    if taken.checksum != checksum:
        raise Wrong("other bytes than those in the files")


TASKS: dict[str, Task] = {
    "small-files": Task(
        "small-files: {small_files} files of 4 KiB, each read whole, 64 at once",
        tuple(whole.CONTENDERS),
        size_of_small,
        make_small,
        run_small,
    ),
    "chunks": Task(
        "chunks: a file of {file_mib} MiB, read by 64 KiB",
        tuple(CHUNKS),
        size_of_large,
        make_large,
        run_chunks,
    ),
    "random": Task(
        "random: {reads} reads of 4 KiB at random from {file_mib} MiB, 64 at once",
        tuple(positions.CONTENDERS),
        size_of_large,
        make_large,
        run_random,
    ),
    "lines": Task(
        "lines: {text_files} files of {text_lines} lines at once, each line awaited",
        tuple(lines.ALL),
        size_of_text,
        make_text,
        partial(run_lines, "read"),
    ),
    "write-lines": Task(
        "write-lines: {text_lines} lines to each of {text_files} files at once, each line awaited",
        tuple(lines.ALL),
        size_of_text,
        make_text,
        partial(run_lines, "write"),
    ),
}
