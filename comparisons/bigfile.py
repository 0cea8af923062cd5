"""One large file, which chunks.py reads in a sequence and depths.py at random: cached, cold and direct."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import lib

SIZE_MIB, SMOKE_SIZE_MIB = 2_000, 8
STATES = ("cached", "cold", "direct")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, metavar="MIB", help=f"of the file (default: {SIZE_MIB:,})")
    parser.add_argument("--dir", type=Path, default=lib.ROOT / ".demo" / "chunks", help="for the file")
    parser.add_argument("--add", action="store_true", help="the newest result that is kept, with these cases")


def kept(name: str, environment: lib.Measured, args: argparse.Namespace) -> list[lib.Measured]:
    """With `--add`: the cases that are kept. To be asked before measuring, for they may not fit."""
    files = sorted(args.results.glob(f"*-{name}.json"))
    if not args.add or not files:
        return []
    result: lib.Measured = json.loads(files[-1].read_text())
    for fact in ("host", "file", "a cell"):
        if result["environment"].get(fact) != environment.get(fact):
            sys.exit(f"{files[-1]}: another {fact}: leave out --add")
    cases: list[lib.Measured] = result["cases"]
    return cases


def added(kept: list[lib.Measured], cases: list[lib.Measured]) -> list[lib.Measured]:
    """What is kept of other cases, and these, in its order."""

    def by_case(measured: list[lib.Measured]) -> dict[tuple[str, object], lib.Measured]:
        return {(case["state"], case.get("chunk", case.get("depth"))): case for case in measured}

    return list((by_case(kept) | by_case(cases)).values())


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
