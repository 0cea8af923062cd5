"""What one op costs, from Rust and from Python: nanoseconds, and instructions in user space.

A nop's round trip through an engine, and a read of 4 KiB from the page cache, one at a time and in batches of
64, with and without the attempt to finish at once. The floors are the plain system call, and Python's own
wrapper of it. `proactor.aio` has no nop; a poll of a descriptor that is ready takes its place.

Instructions are counted by callgrind (nothing is needed of the CPU, and the kernel's are left out), as the
difference of two runs of different length, so that starting up does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from typing import NamedTuple

import lib
import tables
from proactor import aio

ENGINES = ["io_uring", "linux_aio", "posix_aio", "threads"]
BLOCK_BYTES = 4096
FILE_BLOCKS = 16
BATCHES = (1, 64)
# A round long enough for the clock, and short enough for all of them.
ROUND_S = 0.06
# Two lengths, in ops; both are whole batches. Under callgrind everything is fifty times slower.
SHORT_OPS, LONG_OPS = 640, 2560


class Case(NamedTuple):
    language: str
    op: str
    engine: str
    inline: bool | None
    batch: int


@dataclass
class Cost:
    ns: tables.Summary | None = None
    instructions: float | None = None
    unavailable: str | None = None


# Rust: the binary of crates/bench


def build() -> str:
    command = ["cargo", "build", "--release", "--quiet", "--package", "proactor-bench", "--bin", "perop"]
    command += ["--message-format", "json"]
    done = subprocess.run(command, cwd=lib.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable"):
            return str(artifact["executable"])
    raise RuntimeError("cargo has built no perop")


def rust_times(binary: str, rounds: int, smoke: bool) -> dict[Case, Cost]:
    command = [binary, "--rounds", str(rounds), "--millis", "2" if smoke else str(int(ROUND_S * 1e3))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        case = Case("Rust", row["op"], row["engine"], row["inline"], row["batch"])
        ns = row.get("ns")
        found[case] = Cost(tables.Summary.of(ns) if ns else None, unavailable=row.get("unavailable"))
    return found


def rust_command(binary: str, case: Case) -> list[str]:
    command = [binary, "--engine", case.engine, "--op", case.op, "--batch", str(case.batch)]
    return command + (["--inline", "on" if case.inline else "off"] if case.inline is not None else [])


# Python: this script, once per case


def python_cases() -> list[Case]:
    floors = [Case("Python", "read", name, None, 1) for name in ("os.pread", "os.preadv")]
    polls = [Case("Python", "poll", engine, False, batch) for engine in ENGINES for batch in BATCHES]
    reads = [
        Case("Python", "read", engine, inline, batch)
        for engine in ENGINES
        for inline in (True, False)
        for batch in BATCHES
    ]
    return [*floors, *polls, *reads]


def python_command(case: Case) -> list[str]:
    inline = "on" if case.inline else "off"
    return [sys.executable, __file__, "--cell", case.op, case.engine, inline, str(case.batch)]


def python_cell(op: str, engine: str, inline: str, batch: int, ops: int, rounds: int, round_s: float) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(BLOCK_BYTES * FILE_BLOCKS))
        file.flush()
        fd = file.fileno()
        if engine.startswith("os."):
            run_rounds(floor(engine, fd), 1, ops, rounds, round_s)
            return
        try:
            context = aio.Context(max_jobs=max(batch, 64), engine=engine, inline=inline == "on")
        except OSError as error:
            lib.report({"unavailable": str(error)})
            return
        with context:
            run_rounds(turns_of(context, op, fd, batch), batch, ops, rounds, round_s)


def floor(name: str, fd: int) -> Callable[[int], None]:
    def pread(turns: int) -> None:
        for turn in range(turns):
            os.pread(fd, BLOCK_BYTES, turn % FILE_BLOCKS * BLOCK_BYTES)

    buffers = [bytearray(BLOCK_BYTES)]

    def preadv(turns: int) -> None:
        for turn in range(turns):
            os.preadv(fd, buffers, turn % FILE_BLOCKS * BLOCK_BYTES)

    return pread if name == "os.pread" else preadv


def turns_of(context: aio.Context, op: str, fd: int, batch: int) -> Callable[[int], None]:
    """Ops are made once and used again, as a program in a hurry would."""
    ops: list[aio.Op]
    if op == "poll":
        ready = os.eventfd(1)
        ops = [aio.Poll(ready, select.POLLIN) for _ in range(batch)]
        expected = select.POLLIN
    else:
        ops = [aio.Read(fd, BLOCK_BYTES, offset=i % FILE_BLOCKS * BLOCK_BYTES) for i in range(batch)]
        expected = BLOCK_BYTES

    def turns(count: int) -> None:
        submit, wait = context.submit, context.wait
        for _ in range(count):
            submit(*ops)
            for event in wait(batch):
                assert event.result == expected

    return turns


def run_rounds(turns: Callable[[int], None], batch: int, ops: int, rounds: int, round_s: float) -> None:
    if ops:
        turns(-(-ops // batch))
        lib.report({"ops": ops})
        return
    count = 16
    while True:
        start = time.perf_counter()
        turns(count)
        took = time.perf_counter() - start
        if took > round_s / 8:
            break
        count *= 2
    count = max(int(count * round_s / took), 1)
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        turns(count)
        found.append((time.perf_counter() - start) / (count * batch) * 1e9)
    lib.report({"ns": found})


def python_time(case: Case, rounds: int, smoke: bool) -> Cost:
    command = [*python_command(case), "--rounds", str(rounds), *(["--smoke"] if smoke else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    row = json.loads(done.stdout)
    return Cost(tables.Summary.of(row["ns"]) if "ns" in row else None, unavailable=row.get("unavailable"))


# Instructions


def instructions(command: list[str]) -> float:
    """Per op."""

    def collected(ops: int) -> int:
        callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
        done = subprocess.run(
            [*callgrind, *command, "--ops", str(ops)],
            capture_output=True,
            text=True,
            check=True,
            # Otherwise every run hashes, and so walks its dicts, differently.
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
        match = re.search(r"Collected : (\d+)", done.stderr)
        if match is None:
            raise RuntimeError(f"callgrind has counted nothing: {done.stderr[-500:]}")
        return int(match[1])

    return (collected(LONG_OPS) - collected(SHORT_OPS)) / (LONG_OPS - SHORT_OPS)


# The comparison

HEAD = ["instructions/op"]


def name_of(case: lib.Measured) -> str:
    return str(case["engine"]) + (", inline" if case["inline"] else "")


def kind_of(case: lib.Measured) -> tuple[str, str, int]:
    return case["language"], case["op"], case["batch"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    """By language, op and batch. A plain call knows no batches, and is in each."""
    cases = data["cases"]
    floors = [case for case in cases if case["inline"] is None]
    engines = [case for case in cases if case["inline"] is not None]
    for language, op, batch in dict.fromkeys(map(kind_of, engines)):
        here = [case for case in floors if (case["language"], case["op"]) == (language, op)]
        here += [case for case in engines if kind_of(case) == (language, op, batch)]
        rows = [
            tables.Row(
                name_of(case),
                tables.Summary(*case["ns"]),
                ["-" if case["instructions"] is None else f"{case['instructions']:,.0f}"],
                of_ours=case["inline"] is not None,
            )
            for case in here
            if case["ns"]
        ]
        note = "; ".join(f"{name_of(case)}: {case['unavailable']}" for case in here if case["unavailable"])
        kind = "one at a time" if batch == 1 else f"batches of {batch}"
        if rows:
            yield tables.Group(f"{op} from {language}, {kind}", "ns per op", rows, HEAD, note=note)


def main() -> None:
    parser = argparse.ArgumentParser(description="What one op costs, from Rust and from Python.")
    tables.add_arguments(parser, rounds=7)
    parser.add_argument("--no-rust", action="store_true", help="needs no cargo")
    parser.add_argument("--no-instructions", action="store_true", help="needs no valgrind, and no minutes")
    parser.add_argument("--ops", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    args = tables.parse(parser)
    if args.cell:
        op, engine, inline, batch = args.cell
        round_s = 0.002 if args.smoke else ROUND_S
        python_cell(op, engine, inline, int(batch), args.ops, args.rounds, round_s)
        return

    binary = None if args.no_rust else build()
    found = rust_times(binary, args.rounds, args.smoke) if binary else {}
    for case in python_cases():
        lib.tell(f"timing {' '.join(map(str, case))}")
        found[case] = python_time(case, args.rounds, args.smoke)
    if not args.no_instructions and not args.smoke:
        if shutil.which("valgrind") is None:
            sys.exit("valgrind is missing; install it, or give --no-instructions")
        for case, cost in found.items():
            if cost.unavailable:
                continue
            lib.tell(f"counting {' '.join(map(str, case))}")
            rust = case.language == "Rust" and binary is not None
            cost.instructions = instructions(
                rust_command(str(binary), case) if rust else python_command(case)
            )
    lib.tell("")
    keep = [
        {
            **case._asdict(),
            "ns": cost.ns and astuple(cost.ns),
            "instructions": cost.instructions,
            "unavailable": cost.unavailable,
        }
        for case, cost in found.items()
    ]
    data = {"environment": lib.environment(packages=["proactor"]), "cases": keep}
    tables.finish("perop", data, groups(data), args)


if __name__ == "__main__":
    main()
