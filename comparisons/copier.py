"""Whole trees, copied: `proactor cp` against `cp`, cpz, xcp and rsync.

Every run is a new process with a new destination, on a file system made for this on the disk (tmpfs: in
memory). Nothing is deleted there, and nothing is left to be written when a run begins. Warm: all of the
source was read just before. Cold: nothing is in the cache; for tmpfs, which is never cold, the sources are
on ext4. The first copy of each program on a file system is compared with its source, outside the time. `cp
-a` is measured twice, which shows the noise.

`-r` keeps permissions less the umask, as cpz and xcp do; `-a` keeps everything. The floor is a program that
makes the fewest calls and handles no special case: it copies with one thread or two, or shares the blocks,
or only reads (cold). CPU is that of the process; in brackets is that of the machine, with the kernel's work
for the process.

Where cpz is faster with small files, it does less for each. proactor checks a source again after its last
byte (one of seven calls, 3.5% of the CPU time of 4 KB on tmpfs). Its threads share a table of descriptors,
which cpz's do not. `-a` lists attributes and sets times. On XFS, where blocks are shared, six sevenths of
the CPU time are in calls that create files and share blocks, for cpz as for proactor. Cells of milliseconds
measure the start of the program, and cold ones the reading of its file.

    python comparisons/copier.py --fs ext4 --tree "50,000 x 4 KB" --state warm
    python comparisons/copier.py --setup    # builds proactor, cpz and xcp (once); rsync is the system's
    python comparisons/copier.py --add      # keeps the other cells of the newest summary
    python comparisons/copier.py --slice 4  # 4 minutes of the cells with the fewest rounds, added to theirs
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import copier_places as places
import lib
import summaries
import tables

NATIVE = lib.ROOT / "target" / "native"
RIVALS = lib.ROOT / "target" / "rivals"
FILE_SYSTEMS = ("ext4", "xfs", "btrfs", "tmpfs")
STATES = ("warm", "cold")
SMOKE_SCALE = 500
# A round of a tree with at least this many files takes longer than a slice, and one is enough.
LONG_FILES = 200_000
# Default number of rounds of a cell in a slice: a file system and its sources are made for each visit.
VISIT_ROUNDS = 3
CLONES = ("xfs", "btrfs")
# With less there is a minute in which the allocator looks for room.
SIZE_GIB = 10.0
# Reads of cold files at once: which is best differs from disk to disk.
DEPTHS = (4, 16, 64)
# Of the kernel's memory, for an inode and a name.
KERNEL_PER_FILE_BYTES = 3 * places.KIB
# The allocator does not take just what was touched last: with as much as is needed, cold copies of 2 GiB took
# 1.3 or 2.8 s, with twice as much 1.2 to 1.5.
SPARE_MEMORY = 2
TICKS_S = os.sysconf("SC_CLK_TCK")

FLOOR, CP, CP_AGAIN = "floor", "cp -a", "cp -a, again"
COMMANDS = {
    "cp -r": ["cp", "-r"],
    CP: ["cp", "-a"],
    CP_AGAIN: ["cp", "-a"],
    "cpz": ["cpz"],
    "xcp -r": ["xcp", "-r", "--no-progress"],
    "rsync -a": ["rsync", "-a"],
    "proactor cp -r": ["proactor", "cp", "-r"],
    "proactor cp -a": ["proactor", "cp", "-a"],
    "proactor cp -a, uring": ["proactor", "cp", "-a", "--engine=uring"],
}


def floors(file_system: str, state: str) -> dict[str, list[str]]:
    if state == "cold":
        return {
            f"{FLOOR}: only read, {depth} at once": ["copyfloor", "read", "{}", str(depth)]
            for depth in DEPTHS
        }
    found = {
        f"{FLOOR}: 1 thread": ["copyfloor", "copy", "{}", "{}", "1"],
        f"{FLOOR}: 2 threads": ["copyfloor", "copy", "{}", "{}", "2"],
        f"{FLOOR}: 2 threads, times": ["copyfloor", "copy", "{}", "{}", "2", "times"],
    }
    if file_system in CLONES:
        found[f"{FLOOR}: clones"] = ["copyfloor", "copy", "{}", "{}", "2", "clone"]
    return found


# Programs


def program(name: str, folder: Path) -> str | None:
    return shutil.which(name, path=os.pathsep.join([str(folder), str(RIVALS / "bin"), os.environ["PATH"]]))


def set_up() -> None:
    """Builds what is compared, from crates.io in the newest version, out of everybody's time."""
    subprocess.run(["make", "native"], cwd=lib.ROOT, check=True)
    for crate in ("cpz", "xcp"):
        subprocess.run(["cargo", "install", "--quiet", "--locked", "--root", RIVALS, crate], check=True)


def versions(folder: Path) -> dict[str, str]:
    found = {}
    for name in ("cp", "cpz", "xcp", "rsync"):
        path = program(name, folder)
        if path is None:
            found[name] = "not installed"
            continue
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        found[name] = done.stdout.split("\n")[0].strip() or "unknown"
    return found


# One run


def _busy_s() -> float:
    """What all CPUs have done, as far as it is counted."""
    user, nice, system, _, _, irq, soft_irq, *_ = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + soft_irq) / TICKS_S


def timed(starter: str, *command: str) -> lib.Measured:
    busy = _busy_s()
    with subprocess.Popen(
        [starter, "run", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            output, _ = running.communicate()
        except BaseException:
            # With its children: a file system that they use cannot be unmounted.
            os.killpg(running.pid, signal.SIGKILL)
            raise
    if running.returncode != 0:
        raise SystemExit(f"{' '.join(command)} could not be started")
    measured: lib.Measured = json.loads(output.splitlines()[-1])
    if measured.pop("status") != 0:
        raise SystemExit(f"{' '.join(command)} has failed")
    return {**measured, "machine_s": _busy_s() - busy}


class Cell:
    """One file system, one tree, warm or cold."""

    def __init__(self, file_system: str, name: str, state: str, args: argparse.Namespace) -> None:
        self.file_system, self.tree, self.state = file_system, name, state
        self._args = args

    def rows(self) -> dict[str, list[str]]:
        all_rows = floors(self.file_system, self.state) | COMMANDS
        rows = {name: all_rows[name] for name in tables.chosen(all_rows, self._args.only, CP)}
        missing = {row for row, command in rows.items() if program(command[0], self._args.binaries) is None}
        for row in missing:
            print(f"{row} is left out: it is not installed (--setup)", file=sys.stderr)
            del rows[row]
        return rows

    def measure(
        self, rows: dict[str, list[str]], rounds: int, seconds: float | None = None
    ) -> dict[str, list[lib.Measured]]:
        tree = places.trees(SMOKE_SCALE if self._args.smoke else 1)[self.tree]
        both = 2 if self.state == "cold" else 1
        needed = both * (tree.bytes + tree.files * KERNEL_PER_FILE_BYTES)
        self._memory_mib = SPARE_MEMORY * needed // places.MIB + 1
        self._compared: set[str] = set()
        size = int(self._args.size * places.GIB)
        from_disk = self.file_system == "tmpfs" and self.state == "cold"
        with (
            tempfile.TemporaryDirectory(prefix="copier-", dir=self._args.dir) as folder,
            places.Place("ext4" if from_disk else self.file_system, Path(folder), size, tree) as source,
            places.Place("tmpfs", Path(folder), size, places.room_for(tree)) as memory,
        ):

            def run(row: str) -> lib.Measured:
                if from_disk and not source.source.exists():
                    source.fresh()
                target = (memory if from_disk else source).fresh()
                return self._run(row, rows[row], source.source, target)

            return lib.in_rounds(list(rows), rounds, run, seconds)

    def _run(self, row: str, command: list[str], source: Path, target: Path) -> lib.Measured:
        floor = str(program("copyfloor", self._args.binaries))
        if self.state == "cold":
            lib.make_cold(places.files(source), gently=self._args.smoke)
        else:
            timed(floor, floor, "read", str(source), "2")
        subprocess.run([floor, "touch", str(self._memory_mib)], stdout=subprocess.DEVNULL, check=True)
        head, *rest = command
        operands = iter([str(source), str(target)])
        arguments = [next(operands) if argument == "{}" else argument for argument in rest]
        # rsync copies what is in a directory if its name has a slash at the end, and so to a name of its own.
        arguments += [operand + "/" * (head == "rsync") for operand in operands if head != "copyfloor"]
        measured = timed(floor, str(program(head, self._args.binaries)), *arguments)
        if "only read" not in row and row not in self._compared:
            self._compared.add(row)
            subprocess.run([floor, "same", str(source), str(target)], stdout=subprocess.DEVNULL, check=True)
        return measured


# The comparison

HEAD = ["lowest", "CPU s (machine's)", "peak MiB"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for cell in data["cells"]:
        rows = []
        for name, rounds in cell["timed"].items():
            wall = tables.number(rounds, "wall_s", 1e3)
            cpu = sum(tables.number(rounds, key).median for key in ("user_s", "system_s"))
            machine = tables.number(rounds, "machine_s").median
            peak = tables.number(rounds, "peak_kib", 1 / 1024).highest
            more = [f"{wall.lowest:,.0f}", f"{cpu:.2f} ({machine:.2f})", f"{peak:.0f}"]
            rows.append(tables.Row(name, wall, more, is_floor=name.startswith(FLOOR)))
        # Ratios are to cp.
        rows.sort(key=lambda row: (row.name != CP, row.is_floor, row.is_ours))
        title = f"{cell['tree']}, {cell['fs']}, {cell['state']}"
        yield tables.Group(title, "ms", rows, HEAD, note=visited(cell.get("visits", [])), part=cell["fs"])


def visited(visits: list[lib.Measured]) -> str:
    """The machines on which the rounds of a cell were measured."""
    words = (f"{visit['CPU']} ({visit['rounds']}, {visit['commit']})" for visit in visits)
    return f"On {'; '.join(words)}." if visits else ""


def overview(groups: Iterable[tables.Group]) -> str:
    """A line for each cell: the quickest of the others, and the ratios of ours and of the floor to it."""
    lines = []
    for group in groups:
        best = min(
            (row for row in group.rows if not row.is_ours and not row.is_floor),
            key=lambda row: row.measured.median,
        )
        ratio = {row.name: f"{row.measured.median / best.measured.median:.2f}" for row in group.rows}
        floor = min(
            (row for row in group.rows if row.is_floor), key=lambda row: row.measured.median, default=None
        )
        ours = [ratio.get(f"proactor cp {option}", "") for option in ("-r", "-a", "-a, uring")]
        least = f"{ratio[floor.name]} ({floor.name.removeprefix(f'{FLOOR}: ')})" if floor else ""
        lines.append([group.title, f"{best.name} {best.measured.median:,.0f}", *ours, least])
    return tables.table(["of the quickest other", "ms", "-r", "-a", "-a, uring", "floor"], lines)


Key = tuple[str, str, str]


def kept(results: Path) -> dict[Key, lib.Measured]:
    """The cells whose rounds this checkout has."""
    cells = summaries.newest_rounds(results, "copier").get("cells", [])
    return {(cell["fs"], cell["tree"], cell["state"]): cell for cell in cells}


def added(cells: list[lib.Measured], results: Path) -> list[lib.Measured]:
    """Those, and the rounds of other cells that this checkout has."""
    new = {(cell["fs"], cell["tree"], cell["state"]): cell for cell in cells}
    return in_order(kept(results) | new)


def in_order(measured: dict[Key, lib.Measured]) -> list[lib.Measured]:
    trees = list(places.trees(1))
    order = {fs: number for number, fs in enumerate(FILE_SYSTEMS)}
    return sorted(measured.values(), key=lambda c: (order[c["fs"]], trees.index(c["tree"]), -len(c["state"])))


class Slices:
    """A comparison made in pieces: some rounds of one cell at a time, the one of which least is kept, and of
    a tree that takes longer than a slice one row at a time. Run until it says that nothing is left to do."""

    def __init__(self, keys: list[Key], args: argparse.Namespace, environment: lib.Measured) -> None:
        self._args, self._end = args, time.monotonic() + args.slice * 60
        self._place = {name: environment[name] for name in ("date", "CPU", "commit")}
        self.measured = kept(args.results)
        self._cells = {key: Cell(*key, args) for key in keys}

    def run(self) -> None:
        """Until the time is up, or nothing is left to do."""
        longest_s = 0.0
        while (piece := self._next()) and time.monotonic() + longest_s < self._end:
            begin = time.monotonic()
            key, rows, count = piece
            found = self._cells[key].measure(rows, count)
            file_system, tree, state = key
            new = {"fs": file_system, "tree": tree, "state": state, "timed": {}}
            cell = self.measured.setdefault(key, new)
            cell.setdefault("visits", []).append({**self._place, "rounds": count})
            for row, measured in found.items():
                cell["timed"].setdefault(row, []).extend(measured)
            longest_s = max(longest_s, time.monotonic() - begin)
        left = "nothing" if self._next() is None else "more"
        print(f"{left} is left to do", file=sys.stderr)

    def _next(self) -> tuple[Key, dict[str, list[str]], int] | None:
        """The cell with the fewest rounds, the rows that have no more, and how many rounds to add."""
        best: tuple[int, Key, dict[str, list[str]], int] | None = None
        for key, cell in self._cells.items():
            timed = self.measured.get(key, {}).get("timed", {})
            rows = cell.rows()
            done = {row: len(timed.get(row, [])) for row in rows}
            fewest = min(done.values())
            is_long = places.trees(1)[key[1]].files >= LONG_FILES
            wanted = 1 if is_long else self._args.rounds
            if fewest < wanted and (best is None or fewest < best[0]):
                least = [row for row in rows if done[row] == fewest]
                chosen = {row: rows[row] for row in (least[:1] if is_long else least)}
                best = fewest, key, chosen, min(wanted - fewest, self._args.visit)
        return best and best[1:]


def end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("ended")


def main() -> None:
    parser = argparse.ArgumentParser(description="Copy whole trees, by many copiers, on many file systems.")
    tables.add_arguments(parser, rounds=9, always=CP)
    parser.add_argument("--fs", nargs="+", choices=FILE_SYSTEMS, default=FILE_SYSTEMS)
    parser.add_argument("--tree", nargs="+", choices=places.trees(1), help="default: all but those of 1 byte")
    parser.add_argument("--state", nargs="+", choices=STATES, default=STATES)
    parser.add_argument("--size", type=float, metavar="GIB", default=SIZE_GIB, help="of each file system")
    parser.add_argument("--dir", type=Path, help="for the file systems (default: a temporary folder)")
    parser.add_argument("--binaries", type=Path, default=NATIVE, help="with proactor and copyfloor")
    parser.add_argument("--setup", action="store_true", help="build what is compared, and end")
    parser.add_argument("--add", action="store_true", help="keep the other cells of the newest summary")
    parser.add_argument(
        "--slice", type=float, metavar="M", help="for M minutes, measure the cells with the fewest rounds"
    )
    parser.add_argument(
        "--visit", type=int, metavar="N", default=VISIT_ROUNDS, help="rounds of a cell at a time in a slice"
    )
    args = tables.parse(parser)
    # Ended from outside, it keeps what it has and unmounts.
    signal.signal(signal.SIGTERM, end)
    if args.setup:
        set_up()
        return
    for name in ("proactor", "copyfloor"):
        if program(name, args.binaries) is None:
            sys.exit(f"{name} is missing: python comparisons/copier.py --setup")
    chosen = args.tree or [name for name in places.trees(1) if not name.endswith("byte")]
    environment = {**lib.environment(args.dir or Path(tempfile.gettempdir())), **versions(args.binaries)}
    here = [name for name in args.fs if not places.missing(name)]
    for name in sorted(set(args.fs) - set(here)):
        print(f"{name} is left out: {places.missing(name)}", file=sys.stderr)
    if not here:
        return
    keys = list(itertools.product(here, chosen, args.state))
    if args.slice:
        slices = Slices(keys, args, environment)
        try:
            slices.run()
        finally:
            data = {"environment": environment, "cells": in_order(slices.measured)}
            args.save = args.add = True
            summaries.finish("copier", data, groups(data), args)
        return
    budget = lib.Budget(args.minutes, len(here) * len(chosen) * len(args.state))
    cells = [
        {
            "fs": fs,
            "tree": tree,
            "state": state,
            "timed": cell.measure(cell.rows(), args.rounds, budget.part()),
        }
        for fs, tree, state in keys
        for cell in [Cell(fs, tree, state, args)]
    ]
    if args.add:
        cells = added(cells, args.results)
    data = {"environment": environment, "cells": cells}
    summaries.finish("copier", data, groups(data), args)


if __name__ == "__main__":
    main()
