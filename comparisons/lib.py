"""What measuring takes: the environment, cold caches, rounds of fresh processes.

A measured cell is a process of its own: a script that is called with its case and prints one JSON object as
its last line. Knows no library that is compared. How and why: comparisons/README.md.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from proactor._bench.measuring import TICK_S, Costs, Lateness, Measured, by_workers, timed
from proactor._bench.packages import is_installed

__all__ = ["TICK_S", "Costs", "Lateness", "Measured", "by_workers", "is_installed", "timed"]

ROOT = Path(__file__).resolve().parent.parent

Cell = TypeVar("Cell", bound=Hashable)

# A dropped cache is freed afterwards: 20,000 inodes in the interrupts of whatever runs in the next 0.1 s.
SETTLE_S = 0.4


# The environment


def environment(place: Path = ROOT, packages: Sequence[str] = ()) -> dict[str, str]:
    """What a reader has to know of the machine. `place`: where the data lies."""
    found = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "host": platform.node(),
        "kernel": platform.release(),
        "CPU": f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} x {_cpu_model()}",
        "memory": f"{_meminfo('MemTotal') / 2**20:.0f} GiB",
        "load before": " ".join(f"{load:.2f}" for load in os.getloadavg()),
        "file system": _file_system(place),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "commit": _commit(),
    }
    for name in packages:
        found[name] = metadata.version(name) if is_installed(name) else "not installed"
    return found


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _meminfo(key: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0


def _file_system(place: Path) -> str:
    device = place.stat().st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2] == wanted:
            return f"{right.split()[0]} ({left.split()[5]})"
    return "unknown"


def _commit() -> str:
    def git(*args: str) -> str:
        done = subprocess.run(["git", "-C", str(ROOT), *args], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    try:
        changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
        return (git("rev-parse", "--short", "HEAD") or "unknown") + changed
    except OSError:
        return "unknown"


# Caches


def make_cold(paths: Iterable[str | Path], *, gently: bool = False) -> str:
    """Takes the files out of the page cache, and says how: `drop_caches`, or `fadvise` without root.

    `gently`: by `fadvise` in any case, which leaves the rest of the machine's cache alone.
    """
    if not gently:
        os.sync()  # a dirty page stays
        try:
            Path("/proc/sys/vm/drop_caches").write_text("3")
            time.sleep(SETTLE_S)
            return "drop_caches"
        except OSError:
            pass
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
    return "fadvise"


def make_warm(paths: Iterable[str | Path]) -> str:
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
    return "warm"


# One cell


def report(result: Measured) -> None:
    """The last thing that a cell's process does."""
    print(json.dumps(result), flush=True)


def fresh_process(script: str | Path, *args: str, timeout_s: float = 600, **env: str) -> Measured:
    """Runs one cell with this interpreter, and gives what it reported."""
    done = subprocess.run(
        [sys.executable, str(script), *args],
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **env},
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        raise RuntimeError(f"{Path(script).name} {' '.join(args)} exited with {done.returncode}")
    result: Measured = json.loads(lines[-1])
    return result


# Rounds


class Budget:
    """Some minutes, shared by the parts of a comparison: what one leaves goes to the next."""

    def __init__(self, minutes: float | None, parts: int) -> None:
        self._end = None if minutes is None else time.monotonic() + minutes * 60
        self._parts = parts

    def part(self) -> float | None:
        """The seconds of the next part. None: as long as it takes."""
        left, self._parts = self._parts, self._parts - 1
        return None if self._end is None else (self._end - time.monotonic()) / max(left, 1)


def in_rounds(
    cells: Sequence[Cell],
    rounds: int,
    measure: Callable[[Cell], Measured],
    seconds: float | None = None,
    *,
    quiet: bool = False,
) -> dict[Cell, list[Measured]]:
    """Measures each cell once a round, each round in another order: a slow minute then hits all of them.

    `seconds`: after the first round, which has all cells, the slowest sit out if all would take longer.
    """
    found: dict[Cell, list[Measured]] = {cell: [] for cell in cells}
    took_s: dict[Cell, float] = {}
    order = random.Random()
    start = time.monotonic()
    for number in range(rounds):
        chosen = list(cells)
        if took_s and seconds is not None:
            left_s = seconds - (time.monotonic() - start)
            chosen = _affordable(took_s, left_s / (rounds - number))
        for position, cell in enumerate(order.sample(chosen, len(chosen))):
            if not quiet:
                tell(f"round {number + 1}/{rounds}, {position + 1}/{len(chosen)}: {cell}")
            begin = time.monotonic()
            found[cell].append(measure(cell))
            took_s[cell] = time.monotonic() - begin
    if not quiet:
        tell("")
    return found


def by_setup(
    setups: Sequence[str], names: Sequence[str], rounds: int, measure: Callable[[str, str], Measured]
) -> dict[str, dict[str, list[Measured]]]:
    """`measure(setup, name)` of every contender in every set-up, in rounds.

    The contenders of a set-up follow each other, so that they meet the same state of the machine.
    """

    def cell(setup: str) -> Measured:
        found = in_rounds(names, 1, lambda name: measure(setup, name), quiet=True)
        return {name: of_round[0] for name, of_round in found.items()}

    measured = in_rounds(setups, rounds, cell)
    return {
        setup: {name: [found[name] for found in of_setup] for name in names}
        for setup, of_setup in measured.items()
    }


def _affordable(took_s: dict[Cell, float], seconds: float) -> list[Cell]:
    """As many as take no longer together, the quickest first."""
    chosen = []
    for cell in sorted(took_s, key=lambda cell: took_s[cell]):
        seconds -= took_s[cell]
        if seconds < 0:
            break
        chosen.append(cell)
    return chosen


def tell(what: str) -> None:
    """On a terminal, a line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)
    elif what:
        print(what, file=sys.stderr, flush=True)
