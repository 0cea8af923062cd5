"""Six programs as a user of each library writes them: lines of code, time, instructions, system calls.

Ours are the examples of the crates (`crates/*/examples`). The others are in `comparisons/rust`: on compio
with its files and sockets, on tokio with tokio's own, and on a bare ring (the crate io-uring). The bare ones
are those that fit on one screen. A server that reads files, a tree and a proxy would need a table of tasks,
a walk and a state for each connection, which is what the libraries provide.

Time is that of the whole process. For servers it is that of a load of 16 connections, all of which wait for
their answer before the next round. Instructions are those of the process in user space, counted by
callgrind. Every program reports what it did, and the reports must agree. Our copier does more than the
others' dozen lines: a name appears only when its file is whole, and the copy can be resumed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lib
import servers_peers
import summaries
import tables

WORKSPACE = lib.ROOT / "comparisons" / "rust"
TARGET = lib.ROOT / "target" / "programs"
OURS, BARE = "proactor", "bare io-uring"
LIBRARIES = {OURS: "", "compio": "compio", "tokio": "tokio", BARE: "bare"}
PEERS = tuple(key for key in LIBRARIES.values() if key)
TIMEOUT_S = 60
CONNECTIONS = 16


@dataclass(frozen=True)
class Sizes:
    files: int = 5000
    records: int = 400
    reads: int = 20_000
    blocks: int = 65_536
    tree: int = 2000
    rounds: int = 400


SMOKE = Sizes(files=20, records=4, reads=100, blocks=256, tree=30, rounds=3)


@dataclass(frozen=True)
class Program:
    """`crate`: of ours. `load`: of a server, its name in load.rs. `bare`: there is one on a bare ring."""

    title: str
    crate: str
    load: str = ""
    bare: bool = False


PROGRAMS = {
    "bounded_reads": Program(
        "{files:,} cached files of 4 KiB read and summed, 64 at once", "engine", bare=True
    ),
    "serve_files": Program("under tokio: a server of files, {requests:,} requests", "tokio", "files"),
    "log_writer": Program("a log of {records:,} records, each written and synced", "engine", bare=True),
    "random_reads": Program("{reads:,} direct reads of 4 KiB at random, 64 at once", "engine", bare=True),
    "tree_with_progress": Program("a tree of {tree:,} files of 16 KiB copied, with progress", "copy"),
    "proxy": Program("a TCP proxy, {requests:,} messages of 4 KiB there and back", "net", "proxy"),
}


@dataclass(frozen=True)
class Cell:
    program: str
    library: str

    def __str__(self) -> str:
        return f"{self.program} on {self.library}"

    def source(self) -> Path:
        if self.library == OURS:
            return lib.ROOT / "crates" / PROGRAMS[self.program].crate / "examples" / f"{self.program}.rs"
        return WORKSPACE / "src" / LIBRARIES[self.library] / f"{self.program}.rs"


def cells(libraries: Sequence[str]) -> list[Cell]:
    return [
        Cell(name, library)
        for name, program in PROGRAMS.items()
        for library in libraries
        if library != BARE or program.bare
    ]


def lines_of_code(source: Path) -> int:
    """Without empty lines and comments."""
    lines = (line.strip() for line in source.read_text().splitlines())
    return sum(1 for line in lines if line and not line.startswith("//"))


# Building


def build_ours(profile: str) -> dict[str, Path]:
    command = ["cargo", "build", "--locked", "--workspace", "--quiet", "--profile", profile]
    command += [word for name in PROGRAMS for word in ("--example", name)]
    command += ["--message-format", "json"]
    done = subprocess.run(command, cwd=lib.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable"):
            found[artifact["target"]["name"]] = Path(artifact["executable"])
    return found


def build_peers(names: Sequence[str]) -> servers_peers.Built:
    return servers_peers.build(workspace=WORKSPACE, target=TARGET, names=names)


def build_load(folder: Path) -> Path:
    binary = folder / "load"
    command = ["rustc", "--edition=2021", "-O", "-o", str(binary), str(WORKSPACE / "load.rs")]
    subprocess.run(command, check=True)
    return binary


# The data


@dataclass(frozen=True)
class Data:
    """What the programs work on, in a folder of its own."""

    folder: Path
    sizes: Sizes
    load: Path

    @classmethod
    def make(cls, folder: Path, sizes: Sizes) -> Data:
        (folder / "files").mkdir()
        for number in range(sizes.files):
            (folder / "files" / f"{number:05}").write_bytes(number.to_bytes(4, "little") * 1024)
        with (folder / "blocks").open("wb") as file:
            for number in range(sizes.blocks):
                file.write(number.to_bytes(4, "little") * 1024)
            file.flush()
            os.fsync(file.fileno())
        for number in range(sizes.tree):
            inner = folder / "tree" / f"{number % 40:02}"
            inner.mkdir(parents=True, exist_ok=True)
            (inner / f"{number:05}").write_bytes(number.to_bytes(4, "little") * 4096)
        return cls(folder, sizes, build_load(folder))

    def arguments(self, program: str) -> list[str]:
        its = {
            "bounded_reads": ["files"],
            "serve_files": ["files"],
            "log_writer": ["log", str(self.sizes.records)],
            "random_reads": ["blocks", str(self.sizes.reads)],
            "tree_with_progress": ["tree", "copy"],
        }
        return its[program]

    def clean(self) -> None:
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        (self.folder / "log").unlink(missing_ok=True)

    def facts(self) -> dict[str, int]:
        return {**vars(self.sizes), "requests": self.sizes.rounds * CONNECTIONS}


# Running


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("listening on "):
        raise RuntimeError(f"a server does not listen: {line!r}")
    return line.split()[-1]


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def end(process: subprocess.Popen[str], address: str) -> None:
    """valgrind looks for signals only now and then, and not while a server waits in io_uring_enter."""
    # strace starts it, and ends with it alone.
    for pid in children(process.pid) or [process.pid]:
        os.kill(pid, signal.SIGTERM)
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            process.communicate(timeout=0.01)
            return
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise
        with suppress(OSError):
            socket.create_connection((host, int(port)), timeout=1).close()


@contextmanager
def started(command: Sequence[str], folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, which ends with the block. What it says on stderr is in the file `stderr`."""
    with (folder / "stderr").open("w") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=said, text=True)
    address = ""
    try:
        address = address_of(process)
        yield process, address
    finally:
        if address:
            end(process, address)
        else:
            process.kill()
            process.communicate()


def cpu_of(pid: int) -> float:
    """Seconds that a process with all its threads has used."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def run_server(command: Sequence[str], program: str, data: Data) -> lib.Measured:
    def under_load(command: Sequence[str]) -> lib.Measured:
        with started(command, data.folder) as (server, address):
            load = [str(data.load), PROGRAMS[program].load, address, str(CONNECTIONS), str(data.sizes.rounds)]
            load += ["files"] if program == "serve_files" else []
            begin, before = time.perf_counter(), cpu_of(server.pid)
            done = subprocess.run(
                load, cwd=data.folder, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True
            )
            wall_s = time.perf_counter() - begin
            return {"wall_s": wall_s, "cpu_s": cpu_of(server.pid) - before, "said": done.stdout.strip()}

    if program == "serve_files":
        return under_load([*command, *data.arguments(program)])
    with started([str(data.load), "echo"], data.folder) as (_, target):
        return under_load([*command, target])


def run(command: Sequence[str], program: str, data: Data) -> lib.Measured:
    """One process. `said` is what it has to have in common with the others."""
    data.clean()
    if PROGRAMS[program].load:
        return run_server(command, program, data)
    with (data.folder / "stderr").open("w") as said:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [*command, *data.arguments(program)],
            cwd=data.folder,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        assert process.stdout is not None
        line = process.stdout.read().strip()
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise RuntimeError(f"{program} exited with {process.returncode}: {stderr(data)[-500:]}")
    return {"wall_s": wall_s, "cpu_s": used.ru_utime + used.ru_stime, "said": line}


def stderr(data: Data) -> str:
    return (data.folder / "stderr").read_text()


def instructions(command: Sequence[str], program: str, data: Data) -> int:
    run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command], program, data)
    match = re.search(r"Collected : (\d+)", stderr(data))
    if match is None:
        raise RuntimeError(f"callgrind has counted nothing: {stderr(data)[-500:]}")
    return int(match[1])


def system_calls(command: Sequence[str], program: str, data: Data) -> int:
    kept = data.folder / "calls"
    run(["strace", "--follow-forks", "--summary-only", f"--output={kept}", *command], program, data)
    match = re.search(r"^100\.00 +\S+ +\S+ +(\d+)\b.* total$", kept.read_text(), re.MULTILINE)
    if match is None:
        raise RuntimeError(f"strace has counted nothing: {kept.read_text()[-500:]}")
    return int(match[1])


def counted(command: Sequence[str], program: str, data: Data) -> lib.Measured:
    found: lib.Measured = {"instructions": None, "system_calls": None}
    for name, tool, count in (
        ("instructions", "valgrind", instructions),
        ("system_calls", "strace", system_calls),
    ):
        if shutil.which(tool):
            found[name] = count(command, program, data)
    return found


# The comparison

HEAD = ["CPU, ms", "instructions, M", "system calls", "lines of code"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    note = " ".join(f"{name} is not there: {why}." for name, why in data["missing"].items())
    for program, found in data["programs"].items():
        rows = [
            tables.Row(library, tables.number(one["timed"], "wall_s", 1e3), more(one), library == OURS)
            for library, one in found.items()
        ]
        title = PROGRAMS[program].title.format(**data["sizes"])
        yield tables.Group(f"{program}: {title}", "ms", rows, HEAD, digits=1, note=note)


def more(one: Any) -> list[str]:
    millions, calls = one["instructions"], one["system_calls"]
    return [
        f"{tables.number(one['timed'], 'cpu_s', 1e3).median:,.1f}",
        "-" if millions is None else f"{millions / 1e6:,.1f}",
        "-" if calls is None else f"{calls:,}",
        str(one["lines"]),
    ]


def check(said: dict[Cell, str]) -> None:
    """All libraries have done the same."""
    for program in PROGRAMS:
        its = {cell.library: line for cell, line in said.items() if cell.program == program}
        if len(set(its.values())) > 1:
            raise RuntimeError(f"{program} is not the same work for all: {its}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Six programs on four libraries.")
    tables.add_arguments(parser, rounds=9, always=OURS)
    parser.add_argument("--dir", type=Path, help="where the data lies (default: .demo)")
    parser.add_argument("--profile", default="release", help="of our programs (default: %(default)s)")
    parser.add_argument("--no-counts", action="store_true", help="no instructions and no system calls")
    args = tables.parse(parser)
    chosen = tables.chosen(LIBRARIES, args.only, OURS)
    peers = [LIBRARIES[library] for library in chosen if library != OURS]
    built = build_peers(peers)
    missing = {name: built.missing[key] for name, key in LIBRARIES.items() if key in built.missing}
    for name, why in missing.items():
        lib.tell(f"{name} is left out: {why}")
    ours = build_ours(args.profile)
    there = cells([library for library in chosen if library not in missing])

    def command(cell: Cell) -> list[str]:
        if cell.library == OURS:
            return [str(ours[cell.program])]
        return [str(built.programs[LIBRARIES[cell.library]]), cell.program]

    place = args.dir or lib.ROOT / ".demo"
    place.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rust-", dir=place) as folder:
        data = Data.make(Path(folder), SMOKE if args.smoke else Sizes())
        environment = {
            **lib.environment(Path(folder)),
            **servers_peers.versions(WORKSPACE, ("compio", "tokio")),
        }
        counts = {cell: counted(command(cell), cell.program, data) for cell in there if not args.no_counts}
        measured = lib.in_rounds(
            there,
            args.rounds,
            lambda cell: run(command(cell), cell.program, data),
            args.minutes and args.minutes * 60,
        )
        facts = data.facts()
    check({cell: rounds[0].pop("said") for cell, rounds in measured.items()})
    programs: dict[str, dict[str, Any]] = {name: {} for name in PROGRAMS}
    for cell, rounds in measured.items():
        none: lib.Measured = {"instructions": None, "system_calls": None}
        programs[cell.program][cell.library] = {
            "timed": [{key: one[key] for key in ("wall_s", "cpu_s")} for one in rounds],
            "lines": lines_of_code(cell.source()),
            **counts.get(cell, none),
        }
    result = {"environment": environment, "sizes": facts, "programs": programs, "missing": missing}
    summaries.finish("rust_programs", result, groups(result), args)


if __name__ == "__main__":
    main()
