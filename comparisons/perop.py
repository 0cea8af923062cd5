"""What one op costs, from Rust and from Python: nanoseconds, and instructions in user space.

The ops are a nop's round trip through an engine, and a read of 4 KiB from the page cache. Reads run one at a
time and in batches of 64, with and without the attempt to finish at once. On io_uring the read also runs
from Rust with a registered buffer and file, collected from the driver and awaited by tasks. The lower bounds
are the plain system call, and Python's own wrapper of it. `proactor.aio` has no nop; a poll of a ready
descriptor takes its place.

Instructions are counted by callgrind, which needs no counters of the CPU. Those of the kernel and of
starting up are left out. The time hardly depends on the rounds, so `--minutes` changes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

import lib
import perop_child as child
import summaries
import tables
from perop_child import Case

# Two lengths, in ops; both are whole batches. Under callgrind everything is fifty times slower.
SHORT_OPS, LONG_OPS = 640, 2560


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
    command = [binary, "--rounds", str(rounds), "--millis", "2" if smoke else str(int(child.ROUND_S * 1e3))]
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


# Python: perop_child.py


def python_time(number: int, rounds: int, smoke: bool) -> Cost:
    flags = ["--rounds", str(rounds), *(["--smoke"] if smoke else [])]
    row = lib.fresh_process(child.__file__, "--case", str(number), *flags)
    return Cost(tables.Summary.of(row["ns"]) if "ns" in row else None, unavailable=row.get("unavailable"))


# Instructions


def callgrind(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["valgrind", "--tool=callgrind", *command],
        capture_output=True,
        text=True,
        check=True,
        # Otherwise every run hashes, and so walks its dicts, differently.
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )


def rust_instructions(command: list[str]) -> float:
    """Per op: the difference of two runs of different length."""

    def collected(ops: int) -> int:
        done = callgrind("--callgrind-out-file=/dev/null", *command, "--ops", str(ops))
        match = re.search(r"Collected : (\d+)", done.stderr)
        if match is None:
            raise RuntimeError(f"callgrind has counted nothing: {done.stderr[-500:]}")
        return int(match[1])

    return (collected(LONG_OPS) - collected(SHORT_OPS)) / (LONG_OPS - SHORT_OPS)


def python_instructions() -> dict[Case, float]:
    """Per op, all cases in one process: to start Python under callgrind takes longer than all of them."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/out"
        marks = ("--dump-before=getloadavg", f"--callgrind-out-file={out}")
        done = callgrind(*marks, sys.executable, child.__file__, "--count")
        counted = json.loads(done.stdout.splitlines()[-1])["counted"]
        # Each case makes two parts, from 1 on: what came before it, and its ops.
        parts = [Path(f"{out}.{2 * position + 2}").read_text() for position in range(len(counted))]
    totals = [int(part.rpartition("totals: ")[2].split()[0]) for part in parts]
    cases = child.cases()
    return {cases[number]: total / child.COUNTED_OPS for number, total in zip(counted, totals, strict=True)}


# The comparison

HEAD = ["instructions/op"]
TITLES = {"fixed": "read with a registered buffer and file", "future": "that read, awaited by tasks"}


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
            yield tables.Group(
                f"{TITLES.get(op, op)} from {language}, {kind}", "ns per op", rows, HEAD, note=note
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="What one op costs, from Rust and from Python.")
    tables.add_arguments(parser, rounds=7)
    parser.add_argument("--no-rust", action="store_true", help="needs no cargo")
    parser.add_argument("--no-instructions", action="store_true", help="needs no valgrind, and less time")
    args = tables.parse(parser)
    binary = None if args.no_rust else build()
    environment = lib.environment(packages=["proactor"])
    found = rust_times(binary, args.rounds, args.smoke) if binary else {}
    for number, case in enumerate(child.cases()):
        lib.tell(f"timing {' '.join(map(str, case))}")
        found[case] = python_time(number, args.rounds, args.smoke)
    if shutil.which("valgrind") is None:
        print("valgrind is missing: instructions are not counted", file=sys.stderr)
    elif not args.no_instructions and not args.smoke:
        for case, cost in found.items():
            if case.language == "Rust" and binary and not cost.unavailable:
                lib.tell(f"counting {' '.join(map(str, case))}")
                cost.instructions = rust_instructions(rust_command(binary, case))
        lib.tell("counting Python")
        for case, count in python_instructions().items():
            found[case].instructions = count
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
    data = {"environment": environment, "cases": keep}
    summaries.finish("perop", data, groups(data), args)


if __name__ == "__main__":
    main()
