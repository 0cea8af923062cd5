#!/usr/bin/env python3
"""Random 4 KiB O_DIRECT reads: proactor against fio, interleaved, on one file.

Both sides get the same file, depth, run time, engine, registered files and buffers, and submit as many reads
in one system call (--batch), or fewer before a wait. fio runs a second time as it is without that: one read
per call.

Rounds alternate their order, and a ratio is the median of the ratios within each round, because a device
shared with others changes its speed from round to round. Prints a table, or with --json
everything that was measured.

    cargo build --release -p proactor-bench
    comparisons/randread.py --file /data/some-big-file
    comparisons/randread.py            # writes 1 GiB of random data to the temporary folder; deletes it
    comparisons/randread.py --smoke    # a tiny run: does it work at all?
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20
# proactor's name of an engine, and fio's.
ENGINES = {"io_uring": "io_uring", "linux_aio": "libaio", "posix_aio": "posixaio"}


Sample = dict[str, Any]
Subject = tuple[str, Callable[[], Sample]]


def run(command: list[str]) -> Any:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr or done.stdout}")
    return json.loads(done.stdout)


def ours(args: argparse.Namespace, file: Path, engine: str) -> Sample:
    command = [args.binary, "--file", file, "--engine", engine, "--depth", str(args.depth)]
    command += ["--seconds", str(args.seconds), "--batch", str(args.batch)]
    if engine == "io_uring":
        command += ["--registered-file", "--registered-buffers"]
    result = run(command)
    cpu = result["user_us_per_read"] + result["sys_us_per_read"]
    return {"iops": result["iops"], "cpu_us_per_read": cpu}


def fio(args: argparse.Namespace, file: Path, engine: str, more: list[str]) -> Sample:
    command = ["fio", "--name=randread", f"--filename={file}", "--direct=1", "--rw=randread", "--bs=4k"]
    command += [f"--ioengine={ENGINES[engine]}", f"--iodepth={args.depth}", "--time_based"]
    # Without these fio keeps a map of the blocks read and takes the time of each: more work than ours.
    command += [f"--runtime={args.seconds}", "--norandommap", "--randrepeat=0", "--gtod_reduce=1"]
    command += ["--output-format=json", *more]
    if engine == "io_uring":
        command += ["--registerfiles", "--fixedbufs"]
    job = run(command)["jobs"][0]
    busy = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["read"]["runtime"] * 1000
    return {"iops": job["read"]["iops"], "cpu_us_per_read": busy / max(job["read"]["total_ios"], 1)}


def subjects(args: argparse.Namespace, file: Path, engine: str) -> list[Subject]:
    """Name and function of each side, in order."""
    batched = [f"--iodepth_batch_submit={args.batch}", f"--iodepth_batch_complete_max={args.depth}"]
    rows = [
        ("fio", lambda: fio(args, file, engine, [])),
        ("fio batched", lambda: fio(args, file, engine, batched)),
        ("proactor", lambda: ours(args, file, engine)),
    ]
    if engine == "posix_aio":  # One function call per read is all there is.
        del rows[1]
    return rows


def measure(args: argparse.Namespace, file: Path) -> dict[str, Any]:
    results = {}
    for engine in args.engines:
        rows = subjects(args, file, engine)
        runs: dict[str, list[Sample]] = {name: [] for name, _ in rows}
        for number in range(args.rounds):
            for name, subject in rows if number % 2 == 0 else reversed(rows):
                # A virtual disk's allowance recovers while nothing runs: the same pause for everybody.
                time.sleep(args.pause)
                runs[name].append(subject())
        results[engine] = runs
    return results


def summary(runs: dict[str, list[Sample]]) -> dict[str, Any]:
    table = {}
    for name, rounds in runs.items():
        iops = [r["iops"] for r in rounds]
        table[name] = {
            "median_iops": round(statistics.median(iops)),
            "min_iops": round(min(iops)),
            "max_iops": round(max(iops)),
            "median_cpu_us_per_read": round(statistics.median(r["cpu_us_per_read"] for r in rounds), 2),
        }
    for rival in (name for name in runs if name != "proactor"):
        ratios = [our["iops"] / its["iops"] for our, its in zip(runs["proactor"], runs[rival], strict=True)]
        numbers = (statistics.median(ratios), min(ratios), max(ratios))
        table[rival]["proactor_median_min_max"] = [round(ratio, 3) for ratio in numbers]
    return table


def environment(args: argparse.Namespace) -> dict[str, Any]:
    version = subprocess.run(["fio", "--version"], capture_output=True, text=True).stdout.strip()
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "fio": version,
        "depth": args.depth,
        "batch": args.batch,
        "rounds": args.rounds,
        "seconds": args.seconds,
    }


def markdown(env: dict[str, Any], tables: dict[str, Any]) -> str:
    lines = ["Random 4 KiB O_DIRECT reads. " + ", ".join(f"{k} {v}" for k, v in env.items()), ""]
    lines += [
        "| engine | program | IOPS, median | min to max | CPU, microseconds per read "
        "| proactor is, median (min to max) |"
    ]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for engine, table in tables.items():
        for name, row in table.items():
            cells = [engine, name, row["median_iops"], f"{row['min_iops']} to {row['max_iops']}"]
            cells.append(row["median_cpu_us_per_read"])
            ratio = row.get("proactor_median_min_max")
            cells.append(f"{ratio[0]} ({ratio[1]} to {ratio[2]})" if ratio else "")
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def fill(path: Path, size: int) -> None:
    """Random data, so that nothing below can compress or leave out a block, all of it on the device."""
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)
        for _ in range(size // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        os.fsync(file.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", help="an existing file to read from, 1 GiB or more")
    parser.add_argument(
        "--dir", help="where to make the file if none is given (default: the temporary folder)"
    )
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=64)
    parser.add_argument("--batch", type=int, default=8, help="reads submitted in one system call, at most")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds of rest before each run")
    parser.add_argument("--engines", nargs="+", default=["io_uring", "linux_aio"], choices=ENGINES)
    parser.add_argument("--binary", default=str(ROOT / "target/release/randread"))
    parser.add_argument("--json", action="store_true", help="every round as JSON instead of the table")
    parser.add_argument("--smoke", action="store_true", help="2 rounds of 1 second on 16 MiB")
    args = parser.parse_args()
    if args.smoke:
        args.rounds, args.seconds, args.pause, args.size_mib, args.depth = 2, 1, 0, 16, 8
    if not shutil.which("fio"):
        sys.exit("fio is not installed")
    if not Path(args.binary).exists():
        sys.exit(f"{args.binary} is missing: cargo build --release -p proactor-bench")
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        file = Path(args.file or Path(folder) / "data")
        if args.file is None:
            fill(file, args.size_mib * MIB)
        results = measure(args, file)
    tables = {engine: summary(runs) for engine, runs in results.items()}
    env = environment(args)
    if args.json:
        print(json.dumps({"environment": env, "summary": tables, "rounds": results}, indent=2))
    else:
        print(markdown(env, tables))


if __name__ == "__main__":
    main()
