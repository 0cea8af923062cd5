"""Runs the comparisons, keeps what they measure, and writes docs/speed.md: `make bench`.

    python comparisons/bench.py                     # all, in a quarter of an hour
    python comparisons/bench.py lines calls         # some, each in its share of it
    python comparisons/bench.py --minutes 30        # three rounds of the slowest ones too
    python comparisons/bench.py --list              # what there is, and how long one round takes
    python comparisons/bench.py --smoke             # tiny: does everything run? Keeps nothing.

Everything is measured once at least, and as often as a comparison's share of the time allows; where that is
short, the slowest contenders sit out. The machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import lib
import report
import rust_programs
import servers_lib
import servers_peers
import tables

MINUTES, ROUNDS = 15.0, 3
# Of the time, what is not rounds: making files, removing them, the build that is up to date.
OVERHEAD = 0.1


@dataclass(frozen=True)
class Run:
    """`round_s`: what one round took on two cores, which is also what its share goes by."""

    round_s: float
    arguments: tuple[str, ...] = ()
    needs: str = ""


RUNS = {
    "lines": Run(35),
    "chunks": Run(105, ("--size", "1000")),
    "depths": Run(50, ("--size", "1000", "--seconds", "0.5")),
    "create": Run(45),
    "calls": Run(25),
    "read_many": Run(110),
    "linux_aio_rounds": Run(50, ("--files", "1", "--files", "24")),
    "perop": Run(90, needs="cargo"),
    "randread": Run(21, ("--seconds", "2"), "fio"),
    "rust_programs": Run(20, ("--rounds", "9"), "cargo"),
    "servers_lockstep": Run(40, ("--rounds", "9"), needs="cc"),
    "servers_live": Run(90, ("--rounds", "9"), needs="cc"),
    "servers_redis": Run(60, ("--rounds", "9", "--seconds", "0.7", "--live-seconds", "1.5"), "redis-server"),
    "servers_programs": Run(30, ("--rounds", "5"), "memcached"),
    "servers_model": Run(10, ("--rounds", "9", "--seconds", "1"), needs="cc"),
    "servers_streams": Run(10, ("--rounds", "7")),
    "copier": Run(60, ("--add", "--fs", "ext4", "--tree", "50,000 x 4 KB in 500 directories"), "cargo"),
}


def shares(names: list[str], minutes: float | None) -> dict[str, float]:
    """The minutes of each. `minutes`: of these together; None: what they have of a whole run's."""
    whole = sum(run.round_s for run in RUNS.values())
    these = sum(RUNS[name].round_s for name in names)
    if minutes is None:
        minutes = MINUTES * these / whole
    return {name: minutes * (1 - OVERHEAD) * RUNS[name].round_s / these for name in names}


def command(name: str, minutes: float, results: Path, *, smoke: bool) -> list[str]:
    script = [sys.executable, str(lib.ROOT / "comparisons" / f"{name}.py"), "--save"]
    if smoke:
        return [*script, "--smoke", "--results", str(results)]
    if results != tables.RESULTS:
        script += ["--results", str(results)]
    return [*script, "--rounds", str(ROUNDS), "--minutes", f"{minutes:.1f}", *RUNS[name].arguments]


def run(name: str, minutes: float, results: Path, *, smoke: bool) -> bool:
    """Whether it has worked."""
    missing = RUNS[name].needs
    if missing and not shutil.which(missing):
        print(f"bench: {name} is left out: there is no {missing}", file=sys.stderr)
        return True
    print(f"bench: {name}" + ("" if smoke else f", about {minutes:.1f} minutes"), file=sys.stderr)
    start = time.monotonic()
    done = subprocess.run(
        command(name, minutes, results, smoke=smoke), stdout=subprocess.DEVNULL, cwd=lib.ROOT, check=False
    )
    taken = (time.monotonic() - start) / 60
    end = "done" if done.returncode == 0 else f"FAILED with {done.returncode}"
    print(f"bench: {name} {end} after {taken:.1f} minutes", file=sys.stderr)
    return done.returncode == 0


def build(names: list[str]) -> None:
    """The binaries that the comparisons need, out of their time."""
    wanted = set(names) if shutil.which("cargo") else set()
    if {"perop", "randread"} & wanted:
        subprocess.run(["cargo", "build", "--release", "-p", "proactor-bench"], cwd=lib.ROOT, check=True)
    if "servers_lockstep" in wanted:
        servers_lib.cargo_build(*servers_lib.LOCKSTEP)
    if {"servers_live", "servers_redis", "servers_programs", "servers_model"} & wanted:
        servers_lib.cargo_build(*servers_lib.COMMAND)
    if {"servers_redis", "servers_programs"} & wanted:
        servers_lib.cargo_build(*servers_lib.PRELOAD)
    if "servers_live" in wanted:
        servers_peers.build()
    if "rust_programs" in wanted:
        rust_programs.build_ours("release")
        servers_peers.build(
            workspace=rust_programs.WORKSPACE, target=rust_programs.TARGET, names=rust_programs.PEERS
        )
    if "copier" in wanted:
        subprocess.run(["make", "native"], cwd=lib.ROOT, check=True)


def bench(names: list[str], minutes: float | None, results: Path, docs: Path, *, smoke: bool) -> int:
    build(names)
    failed = [
        name for name, share in shares(names, minutes).items() if not run(name, share, results, smoke=smoke)
    ]
    report.write(results, docs)
    print(f"bench: {docs / 'speed.md'} is written" + (f"; FAILED: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the comparisons, and write docs/speed.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of {', '.join(RUNS)}")
    parser.add_argument("--minutes", type=float, help=f"for all of them (default: their part of {MINUTES:g})")
    parser.add_argument("--smoke", action="store_true", help="tiny and quick; leaves nothing behind")
    parser.add_argument("--list", action="store_true", help="list them with their minutes, and end")
    args = parser.parse_args()
    names = args.names or list(RUNS)
    if unknown := set(names) - set(RUNS):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if args.list:
        for name, share in shares(names, args.minutes).items():
            print(f"{name:18} {share:4.1f} minutes, {RUNS[name].round_s:4.0f} s a round")
    elif args.smoke:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            place = Path(folder)
            sys.exit(bench(names, None, place / "results", place / "docs", smoke=True))
    else:
        sys.exit(bench(names, args.minutes, tables.RESULTS, lib.ROOT / "docs", smoke=False))


if __name__ == "__main__":
    main()
