"""What the comparisons share: environment, cold caches, rounds of fresh processes, statistics, tables.

A measured cell is a process of its own: a script that is called with its case and prints one JSON object as
its last line. Knows no library that is compared. How and why: comparisons/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "comparisons" / "results"

Cell = TypeVar("Cell", bound=Hashable)
Measured = dict[str, Any]

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


def is_installed(package: str) -> bool:
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


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


def header(title: str, env: dict[str, str], command: str) -> str:
    """A title, the environment, and the command that repeats it."""
    facts = "\n".join(f"- {key}: {value}" for key, value in env.items())
    return f"# {title}\n\n{facts}\n- command: `{command}`\n"


def command_line() -> str:
    """How this script was called, from the root of a checkout."""
    script = os.path.relpath(sys.argv[0], ROOT)
    return " ".join(["python", script, *sys.argv[1:]])


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


@dataclass
class Lateness:
    """How late the event loop runs what is due: a tick each `period_s`, and by how much each was missed.

    A loop that is blocked for a while runs one late tick and none of those that were due meanwhile. They are
    counted as late as they would have been, or a long pause would look like one late tick among good ones.
    """

    # A selector rounds its timeout up to whole milliseconds, so less would measure that.
    period_s: float = 0.002
    late_s: list[float] = field(default_factory=list)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Inside a coroutine: around what is measured."""
        loop = asyncio.get_running_loop()
        self._due = loop.time() + self.period_s
        handle = loop.call_at(self._due, self._tick, loop)
        self._handle: asyncio.Handle = handle
        try:
            yield
        finally:
            self._handle.cancel()
            # What was due before the end and never ran.
            self._note(loop.time())

    def _note(self, now: float) -> None:
        while self._due <= now:
            self.late_s.append(now - self._due)
            self._due += self.period_s

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._note(loop.time())
        self._handle = loop.call_at(self._due, self._tick, loop)

    @property
    def max_s(self) -> float:
        return max(self.late_s, default=0.0)

    @property
    def p99_s(self) -> float:
        ordered = sorted(self.late_s)
        return ordered[int(len(ordered) * 0.99)] if ordered else 0.0


class Costs:
    """Adds up what stretches of work cost this process: `with costs.counted(): work()`.

    To count system calls makes each take about 0.1 us longer, so what makes many is timed without, and
    counted in a cell of its own.
    """

    def __init__(self, *, system_calls: bool) -> None:
        self._count_system_calls = system_calls
        self.wall_s = self.user_s = self.system_s = 0.0
        self.switches = self.device_read_bytes = 0
        self.system_calls: int | None = 0
        self.no_system_calls: str | None = None

    @contextmanager
    def counted(self) -> Iterator[None]:
        from proactor import _native

        counters = _native.Counters(system_calls=self._count_system_calls)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.wall_s += time.perf_counter() - start
            counts = counters.stop()
            self.user_s += counts["user_s"]
            self.system_s += counts["system_s"]
            self.switches += counts["context_switches"]
            self.device_read_bytes += counts["device_read_bytes"]
            if counts["system_calls"] is None:
                self.system_calls, self.no_system_calls = None, counts["system_calls_unavailable"]
            elif self.system_calls is not None:
                self.system_calls += counts["system_calls"]

    def as_dict(self) -> Measured:
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}


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


def in_rounds(
    cells: Sequence[Cell], rounds: int, measure: Callable[[Cell], Measured], *, quiet: bool = False
) -> dict[Cell, list[Measured]]:
    """Measures each cell once a round, each round in another order: a slow minute then hits all of them."""
    found: dict[Cell, list[Measured]] = {cell: [] for cell in cells}
    order = random.Random(1)
    for number in range(rounds):
        for position, cell in enumerate(order.sample(list(cells), len(cells))):
            if not quiet:
                tell(f"round {number + 1}/{rounds}, {position + 1}/{len(cells)}: {cell}")
            found[cell].append(measure(cell))
    if not quiet:
        tell("")
    return found


def tell(what: str) -> None:
    """On a terminal, a line that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)
    elif what:
        print(what, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Summary:
    """Of several rounds. The spread is the whole range and the median absolute deviation."""

    median: float
    lowest: float
    highest: float
    mad: float
    rounds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Summary:
        values = list(values)
        middle = statistics.median(values)
        mad = statistics.median(abs(value - middle) for value in values)
        return cls(middle, min(values), max(values), mad, len(values))

    def __format__(self, spec: str) -> str:
        """`median (lowest-highest, MAD x)`, each number by `spec`."""
        if self.rounds == 1:
            return format(self.median, spec)
        numbers = (format(n, spec) for n in (self.median, self.lowest, self.highest, self.mad))
        return "{} ({}-{}, MAD {})".format(*numbers)


def summarise(rounds: Sequence[Measured], key: str, scale: float = 1.0) -> Summary | None:
    """None if a round lacks the number."""
    values = [measured.get(key) for measured in rounds]
    if not values or any(value is None for value in values):
        return None
    return Summary.of(scale * value for value in values if value is not None)


def number(rounds: Sequence[Measured], key: str, scale: float = 1.0) -> Summary:
    """What each round must have."""
    found = summarise(rounds, key, scale)
    assert found is not None, f"a round without {key}"
    return found


def late_ms(rounds: Sequence[Measured]) -> str:
    late = summarise(rounds, "late_max_s", 1e3)
    return f"{late.median:.1f} (max {late.highest:.1f})" if late else "-"


# Output


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A markdown table, aligned as plain text too: the first column to the left, the others to the right."""
    text = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in text) for i in range(len(head))]

    def line(row: Sequence[str]) -> str:
        cells = (cell.rjust(widths[i]) if i else cell.ljust(widths[i]) for i, cell in enumerate(row))
        return f"| {' | '.join(cells)} |"

    rule = (("-" * (width - 1) + ":") if i else "-" * width for i, width in enumerate(widths))
    return "\n".join([line(text[0]), f"| {' | '.join(rule)} |", *map(line, text[1:])])


def add_output_arguments(parser: argparse.ArgumentParser, rounds: int) -> None:
    parser.add_argument(
        "--rounds", type=int, default=rounds, metavar="N", help="rounds (default: %(default)s)"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny and quick: only to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured to FILE")
    parser.add_argument("--save", action="store_true", help=f"keep it under {RESULTS.relative_to(ROOT)}")


def finish(name: str, text: str, data: Measured, args: argparse.Namespace) -> None:
    """Prints the result, and keeps it where the arguments say."""
    print(text)
    if args.json:
        args.json.write_text(json.dumps(data, indent=1) + "\n")
    if args.save:
        env = data["environment"]
        stem = RESULTS / f"{env['date'][:10]}-{env['host']}-{name}"
        stem.with_suffix(".md").write_text(text.rstrip() + "\n")
        stem.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n")
        print(f"kept: {os.path.relpath(stem)}.md and .json", file=sys.stderr)
