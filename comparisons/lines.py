"""Line by line: 100 files of 10,000 lines, all files at once, each line awaited.

This is the work of the blog post "Asyncio: concurrent file operations". The synchronous version handles one
file after the other. A writer writes the same text to each file. A reader counts lines and characters, and
both counts are checked. Libraries that hand each line to a thread get a twentieth of the lines; every
library is also measured with that number, for the ratio. Lateness is the longest delay of a 10 ms ticker on
the event loop in a round. tracemalloc counts the interpreter's allocations in a separate run, without the
engine's buffers.
"""

from __future__ import annotations

import argparse
import tempfile
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import lib
import packages
import summaries
import tables
from proactor._bench.lines import ALL, SYNC, characters, lines, read_sync, write_sync

FILES, LINES = 100, 10_000
SMOKE_FILES, SMOKE_LINES = 5, 200
# Libraries that hop to a thread for each line write and read 1 in this many lines.
SHARE = 20
TICK_S = 0.010
GOALS = {"write": 1.15, "read": 1.5}
WORK = tuple(GOALS)
FILE_KB = 64
# These handle every line; the others 1 in `SHARE`.
PER_FILE = (SYNC, "proactor", "asyncio.to_thread per file")
# tracemalloc counts the memory of these, with 1 in this many lines.
AT_ONCE = "open(), all files at once"
TRACED = (SYNC, AT_ONCE, "proactor")
SHARE_TRACED = 10


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


def by_open_at_once(work: str, paths: list[str], count: int) -> None:
    """The same lines by a synchronous program that has as many files open as the others."""
    with ExitStack() as stack:
        files = [
            stack.enter_context(open(path, "w" if work == "write" else "r", encoding="utf-8"))
            for path in paths
        ]
        if work == "read":
            for _ in zip(*files, strict=True):
                pass
            return
        for line in lines(count):
            for file in files:
                file.write(line)


def traced(name: str, work: str, paths: list[str], count: int) -> lib.Measured:
    packages.import_for(name)
    tracemalloc.start()
    if name == AT_ONCE:
        by_open_at_once(work, paths, count)
    else:
        lib.timed(ALL[name], work, paths, count, tick_s=TICK_S)
    return {"traced_mb": tracemalloc.get_traced_memory()[1] / 1e6}


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
                note = f"{note} {traced_note(data.get('traced', {}).get(work, {}))}".strip()
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


def traced_note(measured: dict[str, float]) -> str:
    """Tells what tracemalloc counted, with the goal."""
    if not {SYNC, AT_ONCE, "proactor"} <= set(measured):
        return ""
    found = ", ".join(f"{name} {traced_mb:.2f} MB" for name, traced_mb in measured.items())
    times = measured["proactor"] / measured[AT_ONCE]
    return (
        f"Peak that tracemalloc counts, with 1 in {SHARE_TRACED} of the lines: {found}. "
        f"Our goal: at most 3 times a synchronous program's with as many open files; it is {times:.1f}."
    )


# Of Python 3.12 and later. With its figures: it is a part of docs/speed.md.
AWAITING = """\
Since Python 3.12 the interpreter takes the result of each `await` of a native object from a StopIteration,
which 3.11 does not need. An object in C that only returns a string takes 50 ns longer by `async for` than by
`for` on 3.13, and 20 ns on 3.11. A line read by proactor takes 80 ns longer than one by open() on 3.13; this
is more than half of it. Three attempts, with the instructions for one line (callgrind: 2,017 before, 1,350
for open()):

- Raise the exception by PyErr_SetRaisedException, and find it in fewer steps: 1,860, kept.
- Fill objects field by field and add references by whole counts, so that no load waits for two smaller
  stores: the same number in less time, kept.
- Let the garbage collector track idle objects: 80 fewer, not kept. It clears objects that were garbage when
  it began and are in use again.

The CPU time of reading went from 1.8 to 1.6 times that of open(), and of writing from 1.6 to 1.4
(2026-11-26). The wall time of writing is less than that, because the kernel works beside it."""


def remarks(environment: dict[str, str]) -> str:
    """Explains the time that newer interpreters add."""
    version = environment["Python"].split()[-1].split(".")
    return AWAITING if int(version[1]) >= 12 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write and read lines, each awaited, in many files at once.")
    tables.add_arguments(parser, rounds=5, always=SYNC)
    parser.add_argument("--dir", type=Path, help="for the files (default: a temporary folder)")
    parser.add_argument("--cell", nargs=4, metavar=("NAME", "WORK", "FILES", "LINES"), help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    args = tables.parse(parser)
    if args.cell:
        name, work, files, count = args.cell
        paths = [str(args.dir / f"{number}.txt") for number in range(int(files))]
        lib.report((traced if args.traced else measure)(name, work, paths, int(count)))
        return

    files, most = (SMOKE_FILES, SMOKE_LINES) if args.smoke else (FILES, LINES)
    names = packages.installed(tables.chosen(ALL, args.only, SYNC))
    cells = [(name, most) for name in names if name in PER_FILE]
    if len(cells) < len(names):
        cells += [(name, most // SHARE) for name in names]
    data: lib.Measured = {"files": files, "work": {}, "traced": {}}
    budget = lib.Budget(args.minutes, len(WORK))
    with tempfile.TemporaryDirectory(prefix="lines-", dir=args.dir) as folder:
        data["environment"] = lib.environment(Path(folder), packages.COMPARED)
        for work in WORK:

            def cell(case: tuple[str, int], *flags: str, work: str = work) -> lib.Measured:
                name, count = case
                if work == "read":
                    for number in range(files):
                        write_sync(f"{folder}/{number}.txt", count)
                return lib.fresh_process(
                    __file__, "--dir", folder, *flags, "--cell", name, work, str(files), str(count)
                )

            found = lib.in_rounds(cells, args.rounds, cell, budget.part())
            data["work"][work] = {f"{name}, {count} lines": found[name, count] for name, count in cells}
            data["traced"][work] = {
                name: cell((name, most // SHARE_TRACED), "--traced")["traced_mb"]
                for name in TRACED
                if name in (*names, AT_ONCE)
            }
    summaries.finish("lines", data, groups(data), args)


if __name__ == "__main__":
    main()
