"""What a request costs an unmodified redis-server, plain and under `proactor run`: microseconds of its CPU.

Lock-step: `proactor bench net --lockstep` sends GETs to all connections, waits until all is served, and
reads, so each wake-up finds exactly that number of ready connections. Live: `redis-benchmark -t get` with 50
connections on another processor. The contenders of a round follow each other, and ratios are within rounds.
`goal` is the wanted ratio to plain. System calls are counted in a separate run.

    python comparisons/servers_redis.py
    python comparisons/servers_redis.py --setup "50 connections, 16 deep"
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import lib
import servers_cells
import servers_lib
import summaries
import tables

PLAIN = "redis-server"
# Each contender's options of `proactor run`; None: without it.
CONTENDERS: dict[str, tuple[str, ...] | None] = {
    PLAIN: None,
    "proactor run": (),
}
LOCKSTEP_S, LIVE_S = 1.0, 3.0
TIMEOUT_S = 120
# What redis-benchmark sends for each second of a round, about.
LIVE_PER_S = 100_000


@dataclass(frozen=True)
class Setup:
    connections: int
    goal: float
    value_bytes: int = 3
    depth: int = 1
    live: bool = False


SETUPS = {
    "50 connections": Setup(50, 0.80),
    "50 connections, 4,000 B": Setup(50, 0.85, value_bytes=4000),
    "50 connections, 16 deep": Setup(50, 0.92, depth=16),
    "5 connections": Setup(5, 0.95),
    "1 connection": Setup(1, 1.0),
    "live, redis-benchmark -c 50": Setup(50, 0.92, live=True),
    "live, redis-benchmark -c 50 -P 16": Setup(50, 1.0, depth=16, live=True),
}


@dataclass(frozen=True)
class Ours:
    """Our command, and its library if that is not the one that came with it."""

    command: str
    library: Path | None = None

    def server(self, name: str, port: int) -> list[str]:
        server = [
            "redis-server",
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--loglevel",
            "warning",
        ]
        options = CONTENDERS[name]
        if options is None:
            return server
        library = [f"--library={self.library}"] if self.library else []
        return [self.command, "run", *library, *options, "--", *server]


# Lock-step


def lockstep(ours: Ours, name: str, setup: Setup, seconds: float) -> lib.Measured:
    found = servers_cells.cell(name, seconds, lambda seconds: lockstep_once(ours, name, setup, seconds))
    return servers_cells.of_lockstep(found)


def lockstep_once(ours: Ours, name: str, setup: Setup, seconds: float) -> lib.Measured:
    port = servers_cells.free_port()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "report.json"
        command = [ours.command, "bench", "net", str(port), "--protocol=resp", "--sets=0", "--keys=100"]
        command += ["--lockstep", "--rounds=1", f"--duration={round(seconds * 1000)}ms", f"--json={kept}"]
        command += [
            f"--connections={setup.connections}",
            f"--size={setup.value_bytes}",
            f"--depth={setup.depth}",
        ]
        command += ["--", *ours.server(name, port)]
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
        (cell,) = json.loads(kept.read_text())["cells"]
    found: lib.Measured = cell
    return found


# Live


@contextmanager
def running(command: Sequence[str], port: int, processors: Sequence[int]) -> Iterator[int]:
    """The server's process, as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.Popen(
            ["taskset", "--cpu-list", ",".join(map(str, processors)), *command],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while subprocess.run(
                ["redis-cli", "-p", str(port), "ping"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            ).returncode:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{command[0]} does not answer")
                time.sleep(0.01)
            yield server.pid
        finally:
            server.kill()
            server.wait()


def cpu_ns(pid: int) -> int:
    """Of all its threads."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks)


def benchmark(
    port: int, setup: Setup, requests: int, processors: Sequence[int], around: Sequence[str] = ()
) -> str:
    command = [*around, "taskset", "--cpu-list", ",".join(map(str, processors)), "redis-benchmark", "--csv"]
    command += ["-p", str(port), "-t", "get", "-c", str(setup.connections), "-P", str(setup.depth)]
    command += ["-n", str(requests)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    return done.stdout


def calls_per_request(
    pid: int, port: int, setup: Setup, requests: int, processors: Sequence[int]
) -> float | None:
    """By perf, where that is installed and allowed."""
    if not shutil.which("perf"):
        return None
    with tempfile.NamedTemporaryFile("r") as kept:
        around = [
            "perf",
            "stat",
            "-x,",
            "-o",
            kept.name,
            "-e",
            "raw_syscalls:sys_enter",
            "-p",
            str(pid),
            "--",
        ]
        try:
            benchmark(port, setup, requests, processors, around)
        except subprocess.CalledProcessError:
            return None
        counts = [line.split(",")[0] for line in kept.read().splitlines() if "sys_enter" in line]
    return int(counts[0]) / requests if counts and counts[0].isdigit() else None


def live(ours: Ours, name: str, setup: Setup, seconds: float) -> lib.Measured:
    port, all_of_them = servers_cells.free_port(), sorted(os.sched_getaffinity(0))
    server, client = all_of_them[:1], all_of_them[1:] or all_of_them
    requests = max(int(seconds * LIVE_PER_S) * (4 if setup.depth > 1 else 1), 1000)
    with running(ours.server(name, port), port, server) as pid:
        benchmark(port, setup, requests // 10, client)
        before = cpu_ns(pid)
        said = benchmark(port, setup, requests, client)
        used = cpu_ns(pid) - before
        calls = calls_per_request(pid, port, setup, requests // 10, client)
    (row,) = [row for row in csv.DictReader(said.splitlines()) if row["test"] == "GET"]
    return {
        "cpu_us": used / 1e3 / requests,
        "calls_per_request": calls,
        "requests_per_s": float(row["rps"]),
        "p50_us": float(row["p50_latency_ms"]) * 1e3,
        "p99_us": float(row["p99_latency_ms"]) * 1e3,
    }


# The comparison

HEAD = ["of plain, by rounds", "goal", "calls per request", "requests a second", "p50, us", "p99, us"]


def ratio(its: Sequence[lib.Measured], others: Sequence[lib.Measured]) -> float:
    """The median of the ratios within each round."""
    median: float = statistics.median(
        it["cpu_us"] / other["cpu_us"] for it, other in zip(its, others, strict=True)
    )
    return median


def shown(rounds: Sequence[lib.Measured], key: str, spec: str) -> str:
    found = tables.summarise(rounds, key)
    return format(found.median, spec) if found else "-"


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for name, found in data["setups"].items():
        rows = [
            tables.Row(
                contender,
                tables.number(rounds, "cpu_us"),
                [
                    f"{ratio(rounds, found[PLAIN]):.2f}",
                    "" if contender == PLAIN else f"{SETUPS[name].goal:.2f}",
                    shown(rounds, "calls_per_request", ".2f"),
                    *(shown(rounds, key, ",.0f") for key in ("requests_per_s", "p50_us", "p99_us")),
                ],
            )
            for contender, rounds in found.items()
        ]
        yield tables.Group(name, "microseconds of CPU per request", rows, HEAD, digits=2)


# With its figures: it is a part of docs/speed.md.
ATTEMPTS = """\
In the live runs most waits find one or two connections, whose replies are sent at once. Three attempts
(2026-11-27, median of eight rounds of 0.6 s, with 0.95 of plain's CPU and 1.69 calls per request as it is):

- send at once only if a wait finds one connection: 0.95 and 1.33;
- never send at once: 0.91 and 0.86, but a program that writes and reads the other end before its next wait
  then finds nothing there, and one connection alone pays for a queued send;
- send at once only while waits find the same one or two connections: 1.01 and 0.83, with a higher p99.

None is kept."""


def summary(data: lib.Measured) -> str:
    """CPU of all set-ups as ratios to plain within rounds, with the goal, and what was tried."""
    setups = data["setups"]
    (first, *_) = setups.values()
    others = [name for name in first if name != PLAIN]
    rows = []
    for name, found in setups.items():
        ratios = [f"{ratio(found[other], found[PLAIN]):.2f}" for other in others]
        rows.append([name, *ratios, f"{SETUPS[name].goal:.2f}"])
    return tables.table(["CPU of plain", *others, "goal"], rows) + "\n\n" + ATTEMPTS


def main() -> None:
    parser = argparse.ArgumentParser(
        description="CPU per request of redis-server, plain and under proactor run."
    )
    tables.add_arguments(parser, rounds=9, always=PLAIN)
    parser.add_argument("--setup", action="append", choices=SETUPS, help="only this one (can be repeated)")
    parser.add_argument("--seconds", type=float, default=LOCKSTEP_S, help="of one contender's round")
    parser.add_argument("--live-seconds", type=float, default=LIVE_S, help="of one that is live, about")
    parser.add_argument("--binary", type=Path, help="our command (default: build it)")
    parser.add_argument("--library", type=Path, help="its library (default: build it)")
    args = tables.parse(parser)
    setups = args.setup or list(SETUPS)
    names = tables.chosen(CONTENDERS, args.only, PLAIN)
    if args.smoke:
        args.seconds, args.live_seconds = 0.1, 0.05
    elif args.minutes:
        cost = {name: 2 * (args.live_seconds if SETUPS[name].live else args.seconds) + 1 for name in setups}
        args.rounds = max(min(args.rounds, int(args.minutes * 60 / (sum(cost.values()) * len(names)))), 1)
    if args.binary:
        ours = Ours(str(args.binary.absolute()), args.library.absolute() if args.library else None)
    else:
        library = servers_lib.cargo_build(*servers_lib.PRELOAD)
        ours = Ours(str(servers_lib.cargo_build(*servers_lib.COMMAND)), library)
    said = subprocess.run(["redis-server", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    environment = {**lib.environment(), "Redis": said.split("v=")[1].split()[0]}

    def one(setup: str, name: str) -> lib.Measured:
        its = SETUPS[setup]
        return (
            live(ours, name, its, args.live_seconds) if its.live else lockstep(ours, name, its, args.seconds)
        )

    data = {"environment": environment, "setups": lib.by_setup(setups, names, args.rounds, one)}
    summaries.finish("servers_redis", data, groups(data), args, summary(data))


if __name__ == "__main__":
    main()
