"""`proactor bench io` beside fio: the same engine, options and file, 4 KiB at random, one after the other.

Both do the same for each read: draw its offset alone (`norandommap`), submit it by itself, take it back by
itself (`iodepth_batch_complete_max=1`, fio's default), and note how long it took from before it was submitted
(of fio's three times only `lat`). With io_uring both register file and buffers. `psync` at a depth is as many
threads on one file. `ours/fio` is the median of the ratios within each round, because a device shared with
others changes its speed from round to round; within 5 % is the goal.

    cargo build --release -p proactor-cli
    python comparisons/bench_fio.py --dir /data
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bigfile
import fio
import lib
import tables

BINARY = lib.ROOT / "target" / "release" / "proactor"
# fio's name of an engine, and ours.
ENGINES = {
    "psync": "psync-threads",
    "posixaio": "posix-aio:raw",
    "libaio": "linux-aio:raw",
    "io_uring": "io_uring:fixed",
}
DEPTHS, SMOKE_DEPTHS = (1, 16, 64, 256), (1, 4)
STATES = ("direct", "cached")
SECONDS, SMOKE_SECONDS = 0.6, 0.05
GOAL = 0.05


def ours(binary: Path, path: Path, state: str, engine: str, depth: int, seconds: float) -> lib.Measured:
    command = [str(binary), "bench", "io", "--engine", ENGINES[engine], "--filename", str(path)]
    command += ["--use-existing", "--rw", "randread", "--bs", "4k", "--size", str(path.stat().st_size)]
    command += ["--iodepth", str(depth), "--iodepth_batch", "1", "--norandommap"]
    command += ["--iodepth_batch_complete_max", "1", "--rounds", "1", "--counters", "none"]
    command += ["--runtime", f"{seconds * 1e3:.0f}ms", "--time_based", "1", "--json"]
    command += ["--direct", "1"] if state == "direct" else ["--direct", "0", "--invalidate", "0"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)["cells"][0]["rounds"][0]
    cpu_s = found["used"]["user_s"] + found["used"]["system_s"]
    return {"iops": found["all"]["iops"], "cpu_us": cpu_s / found["all"]["ios"] * 1e6}


def theirs(path: Path, state: str, engine: str, depth: int, seconds: float) -> lib.Measured:
    more = ["--norandommap", "--disable_slat=1", "--disable_clat=1", "--disable_bw_measurement=1"]
    if state == "cached":
        more.append("--invalidate=0")
    if engine == "psync":
        # Its processor time is a share of one thread's, so that it is told by each alone.
        more += [f"--numjobs={depth}", "--thread", "--group_reporting"]
    at_once = 1 if engine == "psync" else depth
    direct = state == "direct"
    return fio.random_reads(path, at_once, seconds, direct=direct, engine=engine, latencies=True, more=more)


def measure(args: argparse.Namespace, path: Path, case: tuple[str, int, str]) -> lib.Measured:
    """Both, close to each other."""
    state, depth, engine = case
    if state == "cached":
        lib.make_warm([path])
    their = theirs(path, state, engine, depth, args.seconds)
    our = ours(args.binary, path, state, engine, depth, args.seconds)
    both = {"fio": their["iops"], "ours": our["iops"], "ratio": our["iops"] / their["iops"]}
    return {**both, "our_cpu_us": our["cpu_us"]}


HEAD = ["ours/fio", "lowest", "highest", "within 5 %"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for state in STATES:
        for engine, our_name in ENGINES.items():
            rows = []
            for case in data["cases"]:
                if (case["state"], case["engine"]) != (state, engine):
                    continue
                ratio = tables.number(case["rounds"], "ratio")
                within = "yes" if abs(ratio.median - 1) <= GOAL else "NO"
                more = [f"{ratio.median:.2f}", f"{ratio.lowest:.2f}", f"{ratio.highest:.2f}", within]
                name = f"depth {case['depth']}"
                rows.append(
                    tables.Row(f"fio, {name}", tables.number(case["rounds"], "fio"), [""] * len(more))
                )
                rows.append(tables.Row(f"ours, {name}", tables.number(case["rounds"], "ours"), more, False))
            if rows:
                title = f"{engine} ({our_name}), {state}"
                yield tables.Group(title, "IOPS", rows, HEAD, more_is_better=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="proactor bench beside fio.")
    tables.add_arguments(parser, rounds=3)
    bigfile.add_arguments(parser)
    parser.add_argument("--seconds", type=float, metavar="S", help=f"of one run (default: {SECONDS})")
    parser.add_argument("--state", choices=STATES, action="append", help="only this one (default: both)")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="only this one (default: all)")
    parser.add_argument("--depth", type=int, action="append", help="only this one (default: all)")
    parser.add_argument("--binary", type=Path, default=BINARY, help="ours (default: of the release build)")
    args = tables.parse(parser)
    if not fio.is_installed():
        sys.exit("fio is missing")
    if not os.access(args.binary, os.X_OK):
        sys.exit(f"{args.binary} is missing: cargo build --release -p proactor-cli")
    args.seconds = args.seconds or (SMOKE_SECONDS if args.smoke else SECONDS)
    states = args.state or STATES
    path = bigfile.made(args, states)
    environment = {
        **lib.environment(args.dir, []),
        "fio": fio.version(),
        "file": f"{path.stat().st_size >> 20:,} MiB",
        "a run": f"{args.seconds:g} s",
    }
    depths = args.depth or (SMOKE_DEPTHS if args.smoke else DEPTHS)
    cells = [
        (state, depth, engine) for state in states for engine in args.engine or ENGINES for depth in depths
    ]
    found = lib.in_rounds(cells, args.rounds, lambda case: measure(args, path, case))
    cases: list[lib.Measured] = [
        {"state": state, "depth": depth, "engine": engine, "rounds": found[state, depth, engine]}
        for state, depth, engine in cells
    ]
    ratios = [statistics.median(each["ratio"] for each in case["rounds"]) for case in cases]
    within = sum(abs(ratio - 1) <= GOAL for ratio in ratios)
    environment["within 5 % of fio"] = f"{within} of {len(ratios)}"
    tables.finish("bench_fio", {"environment": environment, "cases": cases}, groups({"cases": cases}), args)


if __name__ == "__main__":
    main()
