"""What one echo costs a server that finds exactly K ready connections: microseconds of CPU, in one thread.

The thread is client and server in turn: it sends to each connection, serves until all is sent back, and
reads. Only the serving is timed, so the figures repeat on a busy machine. A round's figure is the tenth
percentile of many wake-ups, because other programs disturb the slower ones. The two servers in C use epoll,
and io_uring with multishot receives into 32 buffers of 16 KiB and sends through the ring. `bare recv + send`
is no server, because it never waits: it shows the cost of the calls alone. `multishot poll` is a ring that
only waits, with a recv and a send as calls.

    cargo build --release -p proactor-net --example lockstep
    python comparisons/servers_lockstep.py
    python comparisons/servers_lockstep.py --only "C ring" --setup "25 x 512 B"
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import lib
import servers_lib
import summaries
import tables

EPOLL, RING = "C epoll", "C ring"
OURS, OURS_EPOLL = "proactor", "proactor, epoll"
# Each contender's program, and its options.
CONTENDERS: dict[str, tuple[str, tuple[str, ...]]] = {
    EPOLL: ("lockstep-epoll", ()),
    "C, bare recv + send": ("lockstep-bare", ()),
    "C ring, multishot poll": ("lockstep-ring", ("receive=poll",)),
    RING: ("lockstep-ring", ()),
    "C ring, direct sends": ("lockstep-ring", ("send=direct",)),
    "C ring, 256 buffers": ("lockstep-ring", ("buffers=256",)),
    OURS: ("", ()),
    OURS_EPOLL: ("", ("engine=epoll",)),
}
# How long a contender takes for one round of one set-up, about.
ROUND_S = 0.3
TIMEOUT_S = 120


@dataclass(frozen=True)
class Setup:
    """Each of `k` connections has `depth` requests of `size` bytes ready at once."""

    k: int
    size: int = 512
    depth: int = 1

    @property
    def name(self) -> str:
        size = f"{self.size} B" if self.size < 1024 else f"{self.size // 1024} KB"
        return f"{self.k} x {size}" + (f", {self.depth} deep" if self.depth > 1 else "")

    def wake_ups(self, seconds: float) -> int:
        """How many fit into the seconds, by what C epoll takes, the client's part included."""
        echo_us = 10 + 1.2 * self.size / 1024
        return max(int(seconds * 1e6 / (self.k * self.depth * echo_us)), 20)


SETUPS = {
    setup.name: setup
    for setup in (
        Setup(1),
        Setup(5),
        Setup(25),
        Setup(200),
        Setup(25, 4 << 10),
        Setup(25, 16 << 10),
        Setup(25, 64 << 10),
        Setup(25, depth=16),
    )
}


def measure(binaries: Path, ours: Path, name: str, setup: Setup, seconds: float) -> lib.Measured:
    program, options = CONTENDERS[name]
    command = [str(binaries / program if program else ours), *options]
    command += [f"k={setup.k}", f"size={setup.size}", f"depth={setup.depth}"]
    command += [f"rounds={setup.wake_ups(seconds)}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    result: lib.Measured = json.loads(done.stdout.splitlines()[-1])
    return result


# Our own instructions

# The turns of our server, by callgrind: neither the client nor the kernel.
COUNTED = "--toggle-collect=*Sockets*turn*"
# Wake-ups of two runs, whose difference leaves out what happens once.
FEW, MANY = 100, 300
COUNTED_SETUPS = ("25 x 512 B", "200 x 512 B")


def instructions(ours: Path, setup: Setup) -> float | None:
    """Count what one echo takes in user space."""

    def count(wake_ups: int) -> int:
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", COUNTED, str(ours)]
        command += [f"k={setup.k}", f"size={setup.size}", f"rounds={wake_ups}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
        match = re.search(r"Collected : (\d+)", done.stderr)
        if match is None:
            raise RuntimeError(f"callgrind has counted nothing: {done.stderr[-500:]}")
        return int(match[1])

    if shutil.which("valgrind") is None:
        return None
    # A tenth more to warm up.
    echoes = (MANY - FEW) * 1.1 * setup.k
    return (count(MANY) - count(FEW)) / echoes


# With its figures: it is a part of docs/speed.md.
ATTEMPTS = """\
Our goal is 500 of our own instructions per echo of 512 B, counted by callgrind in the turns of the
server. At 25 connections there were 860. Three attempts:

- one look-up of the socket for each step, and no calls on the way of almost all messages: 819, kept;
- no completion of a send whose end does not matter: 705, and 593 at 200 connections, kept;
- all steps of an echo inlined into the turn: 708, not kept.

Of the 705, about 75 copy the bytes, 45 read a completion, 105 find the socket and offer the buffer
again, 150 fill and queue an entry, 65 end a send, and 130 are those of turns: for 25 connections the
kernel takes three, as it hands over 20 completions at a time (2026-11-27)."""


def remarks(_environment: dict[str, str]) -> str:
    """Tell what was tried."""
    return ATTEMPTS


def counted(data: lib.Measured) -> str:
    """Tell of our own instructions."""
    found = data.get("instructions", {}).items()
    return ", ".join(f"{number:.0f} at {name}" for name, number in found if number is not None)


# The comparison

HEAD = ["of C ring", "calls per request"]


def within_rounds(its: Sequence[lib.Measured], others: Sequence[lib.Measured]) -> str:
    """The median of the ratios within each round."""
    pairs = zip(its, others, strict=True)
    return f"{statistics.median(it['cpu_p10'] / other['cpu_p10'] for it, other in pairs):.2f}"


def calls(rounds: Sequence[lib.Measured]) -> str:
    found = tables.summarise(rounds, "calls_per_request")
    return f"{found.median:.3f}" if found else "-"


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for setup, found in data["setups"].items():
        rows = [
            tables.Row(
                name,
                tables.number(rounds, "cpu_p10"),
                [within_rounds(rounds, found[RING]), calls(rounds)],
            )
            for name, rounds in found.items()
        ]
        yield tables.Group(setup, "microseconds of CPU per echo", rows, HEAD, digits=2)


def summary(data: lib.Measured) -> str:
    """All set-ups in one table: the first row in microseconds, the others as ratios to it."""
    setups = data["setups"]
    first = next(iter(setups.values()))
    rows = []
    for name in first:
        cells = []
        for found in setups.values():
            ratio = within_rounds(found[name], found[EPOLL])
            cells.append(f"{tables.number(found[EPOLL], 'cpu_p10').median:.2f}" if name == EPOLL else ratio)
        rows.append([f"{name}, microseconds" if name == EPOLL else name, *cells])
    table = tables.table(["ratio to C epoll", *setups], rows)
    numbers = counted(data)
    return f"{table}\n\nOur own instructions per echo: {numbers}." if numbers else table


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU per echo at an exact batch, against servers in C.")
    tables.add_arguments(parser, rounds=9, always=f"{EPOLL}, {RING}")
    parser.add_argument("--setup", action="append", choices=SETUPS, help="only this one (can be repeated)")
    parser.add_argument("--seconds", type=float, default=ROUND_S, help="of one contender's round")
    parser.add_argument("--binary", type=Path, help="our lockstep (default: build it)")
    args = tables.parse(parser)
    setups = args.setup or list(SETUPS)
    names = tables.chosen(CONTENDERS, args.only, EPOLL, RING)
    if args.smoke:
        args.seconds = 0.01
    elif args.minutes:
        # No contender sits out: the ratios are of the same rounds.
        round_s = 2 * args.seconds * len(setups) * len(names)
        args.rounds = max(min(args.rounds, int(args.minutes * 60 / round_s)), 1)
    ours = args.binary or servers_lib.cargo_build(*servers_lib.LOCKSTEP)
    with tempfile.TemporaryDirectory() as folder:
        binaries = Path(folder)
        servers_lib.build(binaries)
        environment = lib.environment(binaries)

        def one(setup: str, name: str) -> lib.Measured:
            return measure(binaries, ours, name, SETUPS[setup], args.seconds)

        by_name = lib.by_setup(setups, names, args.rounds, one)
    data = {"environment": environment, "setups": by_name}
    if OURS in names and not args.smoke:
        data["instructions"] = {name: instructions(ours, SETUPS[name]) for name in COUNTED_SETUPS}
    summaries.finish("servers_lockstep", data, groups(data), args, summary(data))


if __name__ == "__main__":
    main()
