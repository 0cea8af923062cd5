"""Line by line: 100 files of 10,000 lines, all files at once, each line awaited.

The work of the blog post "Asyncio: concurrent file operations". The synchronous version does one file after
the other. A writer makes the same text in each file; a reader counts lines and characters, which are checked.
Libraries that hand each line to a thread get a twentieth of the lines, and everybody is measured with as few
for their ratio. The loop's lateness is that of a ticker of 10 ms, the most in a round.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import lib
import packages
import tables
from proactor._bench.lines import ALL, SYNC, characters, read_sync, write_sync

FILES, LINES = 100, 10_000
SMOKE_FILES, SMOKE_LINES = 5, 200
# What hops to a thread per line writes and reads 1 in so many lines.
SHARE = 20
TICK_S = 0.010
GOALS = {"write": 1.15, "read": 1.5}
WORK = tuple(GOALS)
FILE_KB = 64
# These have every line; the others, which hop to a thread per line, write and read 1 in `SHARE`.
PER_FILE = (SYNC, "proactor", "asyncio.to_thread per file")


# One cell, in a process of its own


def measure(name: str, work: str, paths: list[str], count: int) -> lib.Measured:
    packages.import_for(name)
    before_mb = peak_mb()
    found, costs = lib.timed(ALL[name], work, paths, count, tick_s=TICK_S)
    memory_mb = peak_mb()
    # The writers' work is checked by the synchronous reader, out of the time.
    if work == "write":
        found = [read_sync(path) for path in paths]
    assert found == [(count, characters(count))] * len(paths), f"{name}: {found[:1]}"
    return {**costs, "peak_mb": memory_mb, "work_mb": memory_mb - before_mb}


def peak_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise LookupError("VmHWM")


# The comparison

HEAD = ["us/line", "CPU ms (user+sys)", "max late ms", "peak RSS MB", "of it by the work"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    files = data.get("files", FILES)
    for work, found in data["work"].items():
        by_count: dict[int, list[tables.Row]] = {}
        for case, rounds in found.items():
            name, _, counted = case.rpartition(", ")
            count = int(counted.split()[0])
            wall = tables.number(rounds, "wall_s", 1e3)
            more = [
                f"{wall.median * 1e3 / count / files:.2f}",
                tables.cpu_ms(rounds),
                tables.late_ms(rounds),
                f"{tables.number(rounds, 'peak_mb').median:.1f}",
                f"{tables.number(rounds, 'work_mb').median:.1f}",
            ]
            by_count.setdefault(count, []).append(tables.Row(name, wall, more))
        for count in sorted(by_count, reverse=True):
            note = ""
            if count == LINES:
                note = f"Our goal: at most {GOALS[work]} times open(). {memory_note(found, count, files)}"
            title = f"{work} {files} x {count:,} lines"
            yield tables.Group(title, "ms", by_count[count], HEAD, note=note)


def memory_note(found: dict[str, list[lib.Measured]], count: int, files: int) -> str:
    """The other goal."""
    ours, sync = found.get(f"proactor, {count} lines"), found.get(f"{SYNC}, {count} lines")
    if not ours or not sync:
        return ""
    most_mb = 2 * tables.number(sync, "peak_mb").median + files * FILE_KB / 1024
    peak_mb = tables.number(ours, "peak_mb").median
    return (
        f"Of memory: at most twice open()'s peak and {FILE_KB} KB per open file, which are {most_mb:.0f} MB; "
        f"it is {peak_mb:.0f} MB."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Write and read lines, each awaited, in many files at once.")
    tables.add_arguments(parser, rounds=5, always=SYNC)
    parser.add_argument("--dir", type=Path, help="for the files (default: a temporary folder)")
    parser.add_argument("--cell", nargs=4, metavar=("NAME", "WORK", "FILES", "LINES"), help=argparse.SUPPRESS)
    args = tables.parse(parser)
    if args.cell:
        name, work, files, count = args.cell
        paths = [str(args.dir / f"{number}.txt") for number in range(int(files))]
        lib.report(measure(name, work, paths, int(count)))
        return

    files, most = (SMOKE_FILES, SMOKE_LINES) if args.smoke else (FILES, LINES)
    names = packages.installed(tables.chosen(ALL, args.only, SYNC))
    cells = [(name, most) for name in names if name in PER_FILE]
    if len(cells) < len(names):
        cells += [(name, most // SHARE) for name in names]
    data: lib.Measured = {"files": files, "work": {}}
    budget = lib.Budget(args.minutes, len(WORK))
    with tempfile.TemporaryDirectory(prefix="lines-", dir=args.dir) as folder:
        data["environment"] = lib.environment(Path(folder), packages.COMPARED)
        for work in WORK:

            def cell(case: tuple[str, int], work: str = work) -> lib.Measured:
                name, count = case
                if work == "read":
                    for number in range(files):
                        write_sync(f"{folder}/{number}.txt", count)
                return lib.fresh_process(
                    __file__, "--dir", folder, "--cell", name, work, str(files), str(count)
                )

            found = lib.in_rounds(cells, args.rounds, cell, budget.part())
            data["work"][work] = {f"{name}, {count} lines": found[name, count] for name, count in cells}
    tables.finish("lines", data, groups(data), args)


if __name__ == "__main__":
    main()
