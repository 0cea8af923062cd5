"""`proactor bench io` beside fio: the same engine, options and file, random reads, one after the other.

Both do the same for each read. They draw its offset independently (`norandommap`), submit it by itself,
collect it by itself (`iodepth_batch_complete_max=1`, fio's default; its posixaio collects all that has
ended, and ours does so there), and read the same clock before and after (of fio's three times only `lat`).
Both are threads and not processes, and have buffers that begin with a page; without O_DIRECT fio needs an
option for that. With io_uring both register file and buffers. `psync` at a depth is one thread for each
read.

A round of a cell runs fio, ours and fio again, in a random order. `ratio` is the median over the rounds of
ours to the geometric mean of both of fio's, because a device shared with other machines changes its speed
from round to round. The row of fio has the ratio of its second run to its first, which would be 1 without
noise. The intervals are those of the median, from order statistics, with at least 95 % confidence. A cell is
within 5 % if all of its interval is, not within it if none of it is, and open otherwise. `user us` and `CPU
us` are the processor time of a read; for fio's posixaio without the C library's threads, which fio leaves
out. `CPUs` is that times the reads a second, and cannot exceed the machine's number.

Two cells are made alike further. With many threads (`MANY_THREADS`) fio's reads are divided by the time that
its process took, and one request of POSIX AIO at a time has one processor (`pinned`).

    cargo build --release -p proactor
    python comparisons/bench_fio.py --dir /data --save
    python comparisons/bench_fio.py --dir /data --add     # adds rounds to the newest result
    python comparisons/bench_fio.py --dir /data --add --count     # system calls an op: takes root and perf
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import bigfile
import fio
import lib
import summaries
import tables

BINARY = lib.ROOT / "target" / "release" / "proactor"
# fio's name of an engine, and ours.
ENGINES = {
    "psync": "psync-threads",
    "posixaio": "posix-aio:raw",
    "libaio": "linux-aio:raw",
    "io_uring": "io_uring:fixed+raw",
}
DEPTHS, SMOKE_DEPTHS = (1, 16, 64, 256), (1, 4)
STATES = ("cached", "direct")
# For IOPS, and for bytes a second.
BLOCKS = {"4k": 4 << 10, "128k": 128 << 10}
SECONDS, SMOKE_SECONDS = 1.0, 0.05
# fio adds up rates that each thread measured for itself, and many threads begin and end one after the other:
# 256 of them took 7 s and reported 4.4 s, which would be 3.4 processors on a machine with two. With many
# threads a run is therefore longer, and its reads are divided by the time of the whole process, less the time
# that a process with one thread needs to begin and to end.
MANY_THREADS, LONGER = 64, 4
GOAL = 0.05
CONFIDENCE = 0.95
# Of system calls those that do I/O or wait, by their numbers on the machine that this runs on.
CALLS = {
    "x86_64": {
        "pread64": 17,
        "futex": 202,
        "io_getevents": 208,
        "io_submit": 209,
        "io_uring_enter": 426,
    }
}
# Fewer an op are of starting and ending.
FEW = 0.005

# State, block, engine, depth.
Case = tuple[str, str, str, int]


def ours(case: Case, binary: Path, path: Path, seconds: float, under: Sequence[str] = ()) -> lib.Measured:
    state, block, engine, depth = case
    command = [str(binary), "bench", "io", "--engine", ENGINES[engine], "--filename", str(path)]
    command += ["--use-existing", "--rw", "randread", "--bs", block, "--size", str(path.stat().st_size)]
    command += ["--iodepth", str(depth), "--iodepth_batch", "1", "--norandommap"]
    command += ["--iodepth_batch_complete_max", "0" if engine == "posixaio" else "1"]
    command += ["--rounds", "1", "--counters", "none"]
    command += ["--runtime", f"{seconds * 1e3:.0f}ms", "--time_based", "1", "--json"]
    command += ["--direct", "1"] if state == "direct" else ["--direct", "0", "--invalidate", "0"]
    done = subprocess.run([*under, *command], stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout)["cells"][0]["rounds"][0]
    ios = max(found["all"]["ios"], 1)
    user_us, system_us = (found["used"][key] / ios * 1e6 for key in ("user_s", "system_s"))
    return {"iops": found["all"]["iops"], "reads": ios, "user_us": user_us, "cpu_us": user_us + system_us}


def pinned(case: Case) -> list[str]:
    """What both are started by. One request of POSIX AIO is two threads that wake each other: whether the
    kernel leaves them on one processor or takes two makes it 0.7 or 1.4 of the speed, for a whole run, and is
    drawn anew for each. So they have one processor.
    """
    *_, engine, depth = case
    is_pair = engine == "posixaio" and depth == 1
    return ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))] if is_pair else []


def is_crowd(case: Case) -> bool:
    *_, engine, depth = case
    return engine == "psync" and depth >= MANY_THREADS


@functools.cache
def around_s(path: Path) -> float:
    """What fio takes before and after the reads of one thread."""
    short = [theirs(("cached", "4k", "psync", 1), path, SMOKE_SECONDS)["around_s"] for _ in range(5)]
    return float(statistics.median(short))


def theirs(case: Case, path: Path, seconds: float, under: Sequence[str] = ()) -> lib.Measured:
    state, block, engine, depth = case
    more = ["--norandommap", "--disable_slat=1", "--disable_clat=1", "--disable_bw_measurement=1"]
    more += ["--thread", "--iomem_align=4k", "--fadvise_hint=0", "--clocksource=clock_gettime"]
    if state == "cached":
        more.append("--invalidate=0")
    threads, at_once = (depth, 1) if engine == "psync" else (1, depth)
    if threads > 1:
        more += [f"--numjobs={threads}", "--group_reporting"]
    found = fio.random_reads(
        path,
        at_once,
        seconds,
        direct=state == "direct",
        engine=engine,
        block=block,
        latencies=True,
        more=more,
        under=under,
    )
    found |= {key: found[key] * threads for key in ("user_us", "cpu_us")}
    if is_crowd(case):
        took_s = found["runtime_s"] + max(found["around_s"] - around_s(path), 0)
        found["iops"] = found["reads"] / took_s
    return found


def measure(args: argparse.Namespace, path: Path, case: Case) -> lib.Measured:
    """A round: fio, ours and fio again."""
    seconds = args.seconds * (LONGER if is_crowd(case) else 1)
    if case[0] == "cached":
        lib.make_warm([path])
    order = random.sample(["fio", "ours", "again"], 3)
    found = {
        who: ours(case, args.binary, path, seconds, pinned(case))
        if who == "ours"
        else theirs(case, path, seconds, pinned(case))
        for who in order
    }
    iops = {who: found[who]["iops"] for who in found}
    costs = {f"{who}_{key}": found[who][key] for who in ("fio", "ours") for key in ("user_us", "cpu_us")}
    return {
        **iops,
        **costs,
        "ratio": iops["ours"] / math.sqrt(iops["fio"] * iops["again"]),
        "noise": iops["again"] / iops["fio"],
        "seconds": seconds,
        "order": order,
    }


def counted(args: argparse.Namespace, path: Path, case: Case) -> dict[str, dict[str, float]]:
    """System calls an op, of fio and ours: the kernel's tracepoint, each name by a filter."""
    if case[0] == "cached":
        lib.make_warm([path])
    calls = CALLS[os.uname().machine]
    found = {}
    with tempfile.NamedTemporaryFile("r") as file:
        under = ["perf", "stat", "-x,", "-o", file.name]
        for number in calls.values():
            under += ["-e", "raw_syscalls:sys_enter", "--filter", f"id=={number}"]
        for who in ("fio", "ours"):
            reads = (
                theirs(case, path, args.seconds, under)
                if who == "fio"
                else ours(case, args.binary, path, args.seconds, under)
            )["reads"]
            rows = [line for line in Path(file.name).read_text().splitlines() if "raw_syscalls" in line]
            each = {name: int(row.split(",")[0]) / reads for name, row in zip(calls, rows, strict=True)}
            found[who] = {name: count for name, count in each.items() if count >= FEW}
    return found


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """In which the median lies, with `CONFIDENCE` at least. None if there are too few values to say that."""
    count, place, below = len(values), 0, 0.0
    for number in range(count):
        below += math.comb(count, number) / 2**count
        if below > (1 - CONFIDENCE) / 2:
            break
        place = number + 1
    ordered = sorted(values)
    return (ordered[place - 1], ordered[count - place]) if place else None


def verdict(values: Sequence[float], highest: float) -> str:
    """Whether a ratio is within the goal and not above `highest`: yes, NO, or open."""
    found = interval(values)
    if found is None:
        return "open"
    low, high = found
    if low >= 1 - GOAL and high <= highest:
        return "yes"
    return "NO" if high < 1 - GOAL or low > highest else "open"


# What is asked of a ratio, and how high it may be then.
GOALS = {"within 5 %": 1 + GOAL, "at least 95 %": math.inf}
HEAD = ["ratio", "95 %", *GOALS, "user us", "CPU us", "CPUs", "calls an op"]


def row(case: lib.Measured, who: str) -> tables.Row:
    rounds = case["rounds"]
    ratios = [each["noise" if who == "fio" else "ratio"] for each in rounds]
    found = interval(ratios)
    more = [f"{statistics.median(ratios):.3f}", f"{found[0]:.3f}-{found[1]:.3f}" if found else ""]
    more += [verdict(ratios, highest) if who == "ours" else "" for highest in GOALS.values()]
    more += [f"{tables.number(rounds, f'{who}_{key}').median:.2f}" for key in ("user_us", "cpu_us")]
    more.append(f"{statistics.median(each[who] * each[f'{who}_cpu_us'] for each in rounds) / 1e6:.1f}")
    calls = case.get("calls", {}).get(who, {})
    more.append(", ".join(f"{name} {count:.2f}" for name, count in calls.items()))
    scale = 1.0 if case["block"] == "4k" else BLOCKS[case["block"]] / 2**20
    measured = tables.number(rounds, who, scale)
    return tables.Row(f"{who}, depth {case['depth']}", measured, more, False)


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for state, block, engine in itertools.product(STATES, BLOCKS, ENGINES):
        cases = [c for c in data["cases"] if (c["state"], c["block"], c["engine"]) == (state, block, engine)]
        rows = [row(case, who) for case in cases for who in ("fio", "ours")]
        if rows:
            title = f"{engine} ({ENGINES[engine]}), {block}, {state}"
            unit = "IOPS" if block == "4k" else "MiB/s"
            yield tables.Group(title, unit, rows, HEAD, more_is_better=True)


def key(case: lib.Measured) -> Case:
    return case["state"], case["block"], case["engine"], case["depth"]


def in_order(cases: dict[Case, lib.Measured]) -> list[lib.Measured]:
    names = [*STATES, *BLOCKS, *ENGINES]
    order = sorted(cases, key=lambda case: (*map(names.index, case[:3]), case[3]))
    return [cases[case] for case in order]


def kept(results: Path, name: str) -> dict[Case, lib.Measured]:
    """The cells whose rounds this checkout has."""
    return {key(case): case for case in summaries.newest_rounds(results, name).get("cases", [])}


def summary(cases: Sequence[lib.Measured]) -> dict[str, str]:
    """How many cells are within the goal, by block."""
    found = {}
    for block in BLOCKS:
        ratios = [[r["ratio"] for r in case["rounds"]] for case in cases if case["block"] == block]
        for goal, highest in GOALS.items():
            all_of = [verdict(each, highest) for each in ratios]
            counts = [f"{all_of.count(word)} {word}" for word in ("yes", "NO", "open")]
            if all_of:
                found[f"{goal} of fio, {block}"] = f"{', '.join(counts)} of {len(all_of)}"
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="proactor bench beside fio.")
    tables.add_arguments(parser, rounds=6)
    bigfile.add_arguments(parser)
    parser.add_argument("--seconds", type=float, metavar="S", help=f"of one run (default: {SECONDS:g})")
    parser.add_argument("--state", choices=STATES, action="append", help="only this one (default: both)")
    parser.add_argument("--bs", choices=BLOCKS, action="append", help="only this one (default: both)")
    parser.add_argument("--engine", choices=ENGINES, action="append", help="only this one (default: all)")
    parser.add_argument("--depth", type=int, action="append", help="only this one (default: all)")
    parser.add_argument("--binary", type=Path, default=BINARY, help="ours (default: of the release build)")
    parser.add_argument("--count", action="store_true", help="count system calls, instead of any rounds")
    args = tables.parse(parser)
    if not fio.is_installed():
        sys.exit("fio is missing")
    if not os.access(args.binary, os.X_OK):
        sys.exit(f"{args.binary} is missing: cargo build --release -p proactor")
    if args.count and os.uname().machine not in CALLS:
        sys.exit(f"--count: the numbers of system calls on {os.uname().machine} are not noted here")
    args.seconds = args.seconds or (SMOKE_SECONDS if args.smoke else SECONDS)
    args.save = args.save or args.add
    return args


def main() -> None:
    args = arguments()
    states = args.state or STATES
    path = bigfile.made(args, states)
    depths = args.depth or (SMOKE_DEPTHS if args.smoke else DEPTHS)
    chosen = list(itertools.product(states, args.bs or BLOCKS, args.engine or ENGINES, depths))
    environment = {
        **lib.environment(args.dir, []),
        "fio": fio.version(),
        "file": f"{path.stat().st_size >> 20:,} MiB",
    }
    name = "_".join(["bench_fio", *filter(None, [args.name])])
    cases = kept(args.results, name) if args.add else {}
    for state, block, engine, depth in chosen:
        new = {"state": state, "block": block, "engine": engine, "depth": depth, "rounds": []}
        cases.setdefault((state, block, engine, depth), new)
    if args.count:
        for case in chosen:
            cases[case]["calls"] = counted(args, path, case)
    else:
        for case, rounds in lib.in_rounds(chosen, args.rounds, lambda c: measure(args, path, c)).items():
            cases[case]["rounds"] += rounds
    measured = [case for case in in_order(cases) if case["rounds"]]
    seconds = sorted({each["seconds"] for case in measured for each in case["rounds"]})
    environment["a run"] = f"{' or '.join(f'{s:g}' for s in seconds)} s"
    environment.update(summary(measured))
    data = {"environment": environment, "cases": measured}
    summaries.finish("bench_fio", data, groups(data), args)


if __name__ == "__main__":
    main()
