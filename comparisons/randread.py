"""4 KiB at random from Rust, O_DIRECT, 64 at once: proactor against fio.

Both programs get the same file, depth, run time, engine, registered files and buffers. Both submit the same
number of reads in one system call (--batch), or fewer before a wait. fio also runs with its default of one
read per call. `proactor is` gives the median of the ratios within each round, because a device shared with
other machines changes its speed from round to round.

    cargo build --release -p proactor-bench
    python comparisons/randread.py --file /data/some-big-file
    python comparisons/randread.py    # writes 1 GiB of random data to the temporary folder; deletes it
    python comparisons/randread.py --dir /mnt --name zram    # a device of its own, a result of its own
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import fio
import lib
import summaries
import tables

MIB = 1 << 20
BINARY = lib.ROOT / "target" / "release" / "randread"
# proactor's name of an engine, and fio's.
ENGINES = {"io_uring": "io_uring", "linux_aio": "libaio", "posix_aio": "posixaio"}
GOAL = 0.95
# Of a cell: until fio has begun.
STARTING_S = 0.5
FIO, BATCHED, OURS = "fio", "fio, batched", "proactor"


def ours(args: argparse.Namespace, file: Path, engine: str) -> lib.Measured:
    command = [args.binary, "--file", file, "--engine", engine, "--depth", str(args.depth)]
    command += ["--seconds", str(args.seconds), "--batch", str(args.batch)]
    if engine == "io_uring":
        command += ["--registered-file", "--registered-buffers"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    result = json.loads(done.stdout)
    return {"iops": result["iops"], "cpu_us": result["user_us_per_read"] + result["sys_us_per_read"]}


def measure(args: argparse.Namespace, file: Path, engine: str, name: str) -> lib.Measured:
    # A virtual disk's allowance recovers while nothing runs: the same pause for everybody.
    time.sleep(args.pause)
    if name == OURS:
        return ours(args, file, engine)
    batched = [f"--iodepth_batch_submit={args.batch}", f"--iodepth_batch_complete_max={args.depth}"]
    more = batched if name == BATCHED else []
    return fio.random_reads(file, args.depth, args.seconds, direct=True, engine=ENGINES[engine], more=more)


def fill(path: Path, size: int) -> None:
    """Random data, so that nothing below can compress or leave out a block, all of it on the device."""
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())


# The comparison

HEAD = ["CPU us/read", "proactor is"]


def is_times(ours: Sequence[lib.Measured], its: Sequence[lib.Measured]) -> str:
    ratios = [our["iops"] / it["iops"] for our, it in zip(ours, its, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for engine, found in data["engines"].items():
        rows = [
            tables.Row(
                name,
                tables.number(rounds, "iops"),
                [
                    f"{tables.number(rounds, 'cpu_us').median:.2f}",
                    "" if name == OURS else is_times(found[OURS], rounds),
                ],
            )
            for name, rounds in found.items()
        ]
        note = f"Our goal: at least {GOAL} of fio with the same options, which is the batched one."
        yield tables.Group(engine, "IOPS", rows, HEAD, more_is_better=True, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(description="Random reads at depth 64 from Rust, against fio.")
    tables.add_arguments(parser, rounds=7)
    parser.add_argument("--file", type=Path, help="an existing file to read from, 1 GiB or more")
    parser.add_argument("--dir", help="where to make the file (default: the temporary folder)")
    parser.add_argument("--size", type=int, metavar="MIB", default=1024)
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8, help="reads submitted in one system call, at most")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds of rest before each run")
    parser.add_argument("--engines", nargs="+", default=["io_uring", "linux_aio"], choices=ENGINES)
    parser.add_argument("--binary", type=Path, default=BINARY)
    args = tables.parse(parser)
    if args.smoke:
        args.seconds, args.pause, args.size, args.depth = 1, 0, 16, 8
    elif args.minutes:
        # Nobody sits out: the ratios are of the same rounds.
        round_s = (args.seconds + args.pause + STARTING_S) * 3 * len(args.engines)
        args.rounds = max(min(args.rounds, int(args.minutes * 60 / round_s)), 1)
    if not fio.is_installed():
        sys.exit("fio is not installed")
    if not args.binary.exists():
        sys.exit(f"{args.binary} is missing: cargo build --release -p proactor-bench")
    engines = {}
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        file = args.file or Path(folder) / "data"
        if args.file is None:
            fill(file, args.size * MIB)
        environment = {
            **lib.environment(file.parent),
            "fio": fio.version(),
            "depth": str(args.depth),
            "batch": str(args.batch),
            "a cell": f"{args.seconds} s",
        }
        for engine in args.engines:
            names = [FIO, BATCHED, OURS]
            if engine == "posix_aio":  # One function call per read is all there is.
                names.remove(BATCHED)

            def cell(name: str, engine: str = engine, file: Path = file) -> lib.Measured:
                return measure(args, file, engine, name)

            engines[engine] = lib.in_rounds(names, args.rounds, cell)
    data = {"environment": environment, "engines": engines}
    summaries.finish("randread", data, groups(data), args)


if __name__ == "__main__":
    main()
