"""Echo servers under load: requests a second, and microseconds of the server's CPU for each request.

`proactor bench net` is the client, a separate process on another processor, with messages of 512 B and one
request in flight on each connection. The servers are mio, monoio and compio (`servers/peers`), epoll and a
ring in C, and ours. CPU is that of all the server's threads, including the kernel's (SQPOLL, io-wq,
ksoftirqd). The contenders of a round follow each other, and ratios are within rounds. On two processors a
kernel worker shares its processor with the client, as does the second thread of C epoll (SO_REUSEPORT).

    python comparisons/servers_live.py
    python comparisons/servers_live.py --only proactor --setup "25 connections" --seconds 1
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import lib
import servers_cells
import servers_lib
import servers_peers
import summaries
import tables

EPOLL = "C epoll"
# Of one contender's round, and what comes before it.
ROUND_S, SHORTEST_S, RAMP_S, START_S = 3.0, 1.0, 0.2, 0.5
TIMEOUT_S = 120
# For 1,000 connections in each process.
DESCRIPTORS = 4096


@dataclass(frozen=True)
class Place:
    """The processors of the server and those of the client."""

    server: tuple[int, ...]
    client: tuple[int, ...]

    @classmethod
    def of(cls, processors: Sequence[int], servers: int) -> Place:
        """The client has what the server leaves, and at least the last one."""
        server = tuple(processors[:servers])
        return cls(server, tuple(processors[len(server) :]) or (processors[-1],))


@dataclass(frozen=True)
class Programs:
    """Where they are. `ours`: the words that start our command."""

    reference: Path
    ours: tuple[str, ...]
    peers: dict[str, Path]


# From the programs, the processors and the port to the command of a server.
Start = Callable[[Programs, Place, int], Sequence[str]]


def c(engine: str, *options: str) -> Start:
    return lambda programs, _, port: [
        str(programs.reference / f"server-{engine}"),
        f"port={port}",
        *options,
    ]


def peer(name: str) -> Start:
    return lambda programs, _, port: [str(programs.peers[name]), str(port)]


def ours(*options: str) -> Start:
    return lambda programs, _, port: [*programs.ours, "serve", "echo", f"--port={port}", *options]


def with_worker(programs: Programs, place: Place, port: int) -> Sequence[str]:
    user, kernel = place.server[0], place.server[-1]
    return ours("--kernel-workers=1", f"--user-cpus={user}", f"--kernel-cpus={kernel}")(programs, place, port)


ALONE: dict[str, Start] = {
    EPOLL: c("epoll"),
    "C ring": c("ring"),
    **{name: peer(name) for name in servers_peers.NAMES},
    "proactor": ours(),
    "proactor, epoll": ours("--engine=epoll"),
}
WITH_TWO: dict[str, Start] = {
    EPOLL: c("epoll"),
    "C epoll, two threads": c("epoll", "threads=2"),
    "proactor, 1 kernel worker": with_worker,
}


@dataclass(frozen=True)
class Setup:
    connections: int
    contenders: dict[str, Start]
    # Processors of the server.
    processors: int = 1


SETUPS = {
    "1 connection": Setup(1, ALONE),
    "25 connections": Setup(25, ALONE),
    "1,000 connections": Setup(1000, ALONE),
    "25 connections, two processors": Setup(25, WITH_TWO, 2),
}


def measure(programs: Programs, place: Place, start: Start, connections: int, seconds: float) -> lib.Measured:
    cell = servers_cells.cell(
        start(programs, place, 0)[0],
        seconds,
        lambda seconds: load(programs, place, start, connections, seconds),
    )
    (found,) = cell["rounds"]
    every, used = found["all"], found["used"]
    return {
        "requests_per_s": every["iops"],
        "cpu_us": (used["user_s"] + used["system_s"]) * 1e6 / every["ios"],
        "p50_us": every["p50_s"] * 1e6,
        "p99_us": every["p99_s"] * 1e6,
    }


def load(programs: Programs, place: Place, start: Start, connections: int, seconds: float) -> lib.Measured:
    port = servers_cells.free_port()
    server = ["taskset", "--cpu-list", ",".join(map(str, place.server)), *start(programs, place, port)]
    client = ["taskset", "--cpu-list", ",".join(map(str, place.client)), *programs.ours]
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "report.json"
        command = [*client, "bench", "net", str(port), f"--connections={connections}", "--rounds=1"]
        command += [f"--duration={round(seconds * 1000)}ms", f"--ramp={round(RAMP_S * 1000)}ms"]
        command += ["--counters=none", f"--json={kept}", "--", *server]
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
        (cell,) = json.loads(kept.read_text())["cells"]
    found: lib.Measured = cell
    return found


# The comparison

HEAD = ["CPU of C epoll", "p50, us", "p99, us", "p99 of C epoll"]


def ratio(its: Sequence[lib.Measured], others: Sequence[lib.Measured], key: str) -> str:
    """The median of the ratios within each round."""
    pairs = zip(its, others, strict=True)
    return f"{statistics.median(it[key] / other[key] for it, other in pairs):.2f}"


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    note = " ".join(f"{name} is not there: {why}." for name, why in data["missing"].items())
    for setup, found in data["setups"].items():
        reference = found[EPOLL]
        rate = [
            tables.Row(name, tables.number(rounds, "requests_per_s"), more(rounds, reference))
            for name, rounds in found.items()
        ]
        yield tables.Group(setup, "requests a second", rate, HEAD, more_is_better=True, note=note)
        cpu = [tables.Row(name, tables.number(rounds, "cpu_us")) for name, rounds in found.items()]
        yield tables.Group(f"{setup}: CPU", "microseconds of CPU per request", cpu, digits=2)


def more(rounds: Sequence[lib.Measured], reference: Sequence[lib.Measured]) -> list[str]:
    latencies = [f"{tables.number(rounds, key).median:,.0f}" for key in ("p50_us", "p99_us")]
    return [ratio(rounds, reference, "cpu_us"), *latencies, ratio(rounds, reference, "p99_us")]


def summary(data: lib.Measured) -> str:
    """CPU and p99 of all set-ups in one table, as ratios to C epoll within rounds."""
    setups = data["setups"]
    names = dict.fromkeys(name for found in setups.values() for name in found)
    rows = []
    for name in names:
        cells = [
            " / ".join(ratio(found[name], found[EPOLL], key) for key in ("cpu_us", "p99_us"))
            if name in found
            else ""
            for found in setups.values()
        ]
        rows.append([name, *cells])
    return tables.table(["CPU / p99 of C epoll", *setups], rows)


def allow_descriptors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    parser = argparse.ArgumentParser(description="Echo servers under load, beside other libraries.")
    tables.add_arguments(parser, rounds=9, always=EPOLL)
    parser.add_argument("--setup", action="append", choices=SETUPS, help="only this one (can be repeated)")
    parser.add_argument("--seconds", type=float, default=ROUND_S, help="of one contender's round")
    parser.add_argument("--binary", type=Path, help="our command (default: build it)")
    args = tables.parse(parser)
    setups = {name: SETUPS[name] for name in args.setup or SETUPS}
    built = servers_peers.build()
    for name, why in built.missing.items():
        lib.tell(f"{name} is left out: {why}")
    chosen = {
        name: [one for one in tables.chosen(setup.contenders, args.only, EPOLL) if one not in built.missing]
        for name, setup in setups.items()
    }
    if args.smoke:
        args.seconds = 0.1
    elif args.minutes:
        # Shorter rounds are preferred to fewer ones: the goals are medians of all rounds.
        each = args.minutes * 60 / sum(map(len, chosen.values()))
        args.rounds = max(min(args.rounds, int(each / (SHORTEST_S + RAMP_S + START_S))), 1)
        args.seconds = max(min(args.seconds, each / args.rounds - RAMP_S - START_S), SHORTEST_S)
    allow_descriptors()
    processors = sorted(os.sched_getaffinity(0))
    binary = args.binary or servers_lib.cargo_build(*servers_lib.COMMAND)
    with tempfile.TemporaryDirectory() as folder:
        servers_lib.build(Path(folder))
        programs = Programs(Path(folder), (str(binary),), built.programs)
        environment = {**lib.environment(Path(folder)), **servers_peers.versions()}
        environment["of a round"] = f"{args.seconds:.1f} s"

        def cell(setup: str) -> lib.Measured:
            its = setups[setup]
            place = Place.of(processors, its.processors)

            def one(name: str) -> lib.Measured:
                return measure(programs, place, its.contenders[name], its.connections, args.seconds)

            found = lib.in_rounds(chosen[setup], 1, one, quiet=True)
            return {name: of_round[0] for name, of_round in found.items()}

        measured = lib.in_rounds(list(setups), args.rounds, cell)
    by_name = {
        setup: {name: [found[name] for found in of_setup] for name in chosen[setup]}
        for setup, of_setup in measured.items()
    }
    data = {"environment": environment, "setups": by_name, "missing": built.missing}
    summaries.finish("servers_live", data, groups(data), args, summary(data))


if __name__ == "__main__":
    main()
