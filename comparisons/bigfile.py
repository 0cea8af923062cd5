"""One large file, which chunks.py reads in a sequence and depths.py at random: cached, cold and direct."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lib
import summaries

SIZE_MIB, SMOKE_SIZE_MIB = 2_000, 8
STATES = ("cached", "cold", "direct")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, metavar="MIB", help=f"of the file (default: {SIZE_MIB:,})")
    parser.add_argument("--dir", type=Path, default=lib.ROOT / ".demo" / "chunks", help="for the file")
    parser.add_argument("--add", action="store_true", help="keep the other groups of the newest summary")


def check_kept(name: str, environment: dict[str, str], args: argparse.Namespace) -> None:
    """Ends the program before it measures if `--add` would mix two machines or two files."""
    paths = summaries.newest(args.results, name) if args.add else []
    before = summaries.read(paths).environment if paths else environment
    for fact in ("host", "file", "a cell"):
        if before.get(fact) != environment.get(fact):
            sys.exit(f"{paths[0]}: another {fact}: leave out --add")


def open_direct(path: str, flags: int) -> int:
    """An `opener`."""
    return os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC)


@contextmanager
def descriptor(path: str, *, direct: bool) -> Iterator[int]:
    fd = open_direct(path, os.O_RDONLY) if direct else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def made(args: argparse.Namespace, states: Sequence[str]) -> Path:
    """The file, of random bytes, so that nothing below can compress them or leave out a block."""
    size_mib: int = args.size or (SMOKE_SIZE_MIB if args.smoke else SIZE_MIB)
    place: Path = args.dir
    if size_mib >= 2_048:
        sys.exit("at most 2,047 MiB: the kernel gives no more in one read, and some ask only once")
    path = place / f"{size_mib}MiB.bin"
    if not path.exists():
        lib.tell(f"making a file of {size_mib} MiB")
        place.mkdir(parents=True, exist_ok=True)
        part, dice = path.with_suffix(".part"), random.Random(size_mib)
        with open(part, "wb") as file:
            for _ in range(size_mib):
                file.write(dice.randbytes(1 << 20))
        part.rename(path)
        lib.tell("")
    if "direct" in states and not _has_direct(path):
        sys.exit(f"{path}: no O_DIRECT here: choose another --dir, or another --state")
    return path


def _has_direct(path: Path) -> bool:
    try:
        with descriptor(str(path), direct=True):
            return True
    except OSError:
        return False


def prepare(path: Path, state: str, *, gently: bool) -> str:
    """The page cache as the state wants it; the state, and how that was done."""
    if state == "cached":
        lib.make_warm([path])
        return state
    if state == "cold":
        return f"cold ({lib.make_cold([path], gently=gently)})"
    # Cached pages would have to be looked for at each direct read.
    return f"direct (O_DIRECT, {lib.make_cold([path], gently=True)})"
