"""What one echo costs a Python server that finds K ready connections: microseconds of CPU of its process.

The servers are asyncio's streams and protocols and `proactor.net`, on asyncio's loop and on uvloop. The
client is `proactor bench net --lockstep`: it sends to each connection, waits until all is served, and reads.
Client and server share one processor, and the client's time is not counted. Calls are counted in a separate
round.

    python comparisons/servers_streams.py
    python comparisons/servers_streams.py --only proactor.net --setup "25 x 512 B"
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lib
import servers_cells
import servers_streams_child
import summaries
import tables

CHILD = Path(__file__).with_name("servers_streams_child.py")
STREAMS = "asyncio streams"
# Each contender's kind of server, its engine, and its loop.
CONTENDERS: dict[str, tuple[str, str, str]] = {
    STREAMS: ("streams", "auto", "asyncio"),
    "asyncio protocol": ("protocol", "auto", "asyncio"),
    "uvloop, streams": ("streams", "auto", "uvloop"),
    "proactor.net": ("proactor", "auto", "asyncio"),
    "proactor.net, epoll": ("proactor", "epoll", "asyncio"),
    "uvloop, proactor.net": ("proactor", "auto", "uvloop"),
}
SETUPS = {"1 x 512 B": 1, "5 x 512 B": 5, "25 x 512 B": 25, "200 x 512 B": 200}
ROUND_S = 1.0
TIMEOUT_S = 120


def measure(name: str, connections: int, seconds: float) -> lib.Measured:
    found = servers_cells.cell(name, seconds, lambda seconds: lockstep(name, connections, seconds))
    return servers_cells.of_lockstep(found)


def lockstep(name: str, connections: int, seconds: float) -> lib.Measured:
    address = f"127.0.0.1:{servers_cells.free_port()}"
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "report.json"
        command = [sys.executable, "-m", "proactor", "bench", "net", address, "--lockstep", "--rounds=1"]
        command += [f"--connections={connections}", f"--duration={round(seconds * 1000)}ms", f"--json={kept}"]
        command += ["--", sys.executable, str(CHILD), *CONTENDERS[name], address]
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)
        (cell,) = json.loads(kept.read_text())["cells"]
    found: lib.Measured = cell
    return found


def calls(rounds: list[lib.Measured]) -> str:
    found = tables.summarise(rounds, "calls_per_request")
    return f"{found.median:.2f}" if found else "-"


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for setup, found in data["setups"].items():
        rows = [
            tables.Row(name, tables.number(rounds, "cpu_us"), [calls(rounds)])
            for name, rounds in found.items()
        ]
        yield tables.Group(setup, "microseconds of CPU per echo", rows, ["calls per request"], digits=1)


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU per echo of servers in Python, at an exact batch.")
    tables.add_arguments(parser, rounds=7, always=STREAMS)
    parser.add_argument("--setup", action="append", choices=SETUPS, help="only this one (can be repeated)")
    parser.add_argument("--seconds", type=float, default=ROUND_S, help="of one contender's round")
    args = tables.parse(parser)
    setups = args.setup or list(SETUPS)
    names = tables.chosen(CONTENDERS, args.only, STREAMS)
    if not servers_streams_child.has_uvloop():
        names = [name for name in names if CONTENDERS[name][2] != "uvloop"]
    if args.smoke:
        args.seconds = 0.1
    elif args.minutes:
        round_s = 3 * (args.seconds + 0.5) * len(setups) * len(names)
        args.rounds = max(min(args.rounds, int(args.minutes * 60 / round_s)), 1)
    environment = lib.environment(packages=["uvloop"])

    def one(setup: str, name: str) -> lib.Measured:
        return measure(name, SETUPS[setup], args.seconds)

    by_name = lib.by_setup(setups, names, args.rounds, one)
    data = {"environment": environment, "setups": by_name}
    summaries.finish("servers_streams", data, groups(data), args)


if __name__ == "__main__":
    main()
