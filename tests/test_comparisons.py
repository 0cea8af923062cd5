"""The comparisons run, at smoke size, and their arithmetic is right."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import bench_fio
import calls
import chunks
import copier
import copier_places
import create
import depths
import lib
import lines
import packages
import perop
import perop_child
import proactor.sync
import pytest
import read_many
from capabilities import require
from proactor._bench.chunks import WHOLE
from proactor._bench.lines import ALL, write_sync

COMPARISONS = Path(__file__).parent.parent / "comparisons"


def smoke(tmp_path: Path, script: str, *args: str) -> tuple[str, lib.Measured]:
    kept = tmp_path / "result.json"
    command = [sys.executable, str(COMPARISONS / script), "--smoke", "--json", str(kept), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    data: lib.Measured = json.loads(kept.read_text())
    assert data["environment"]["kernel"] in done.stdout
    assert f"`{data['command']}`" in done.stdout
    return done.stdout, data


def test_read_many(tmp_path: Path) -> None:
    # The readers that need no other package: each in turn would take a minute.
    text, data = smoke(
        tmp_path, "read_many.py", "--dir", str(tmp_path), "--only", "proactor", "--case", "4KB"
    )
    assert set(data["cases"]) == {"4KB warm", "4KB cold"}
    for cases in data["cases"].values():
        assert len(cases["timed"]) == 9
        for rounds in cases["timed"].values():
            assert rounds[0]["bytes"] == 200 * 4096
        for counted in cases["counted"].values():
            assert counted["bytes"] == 20 * 4096
    assert "proactor.read_bytes, gather" in text
    assert "An idle loop's ticks were" in text


def test_lines(tmp_path: Path) -> None:
    text, data = smoke(tmp_path, "lines.py", "--dir", str(tmp_path), "--only", "proactor")
    assert set(data["work"]) == {"write", "read"}
    for work in data["work"].values():
        assert set(work) == {"open(), 200 lines", "proactor, 200 lines"}
    assert "## write 5 x 200 lines\n" in text


def test_chunks(tmp_path: Path) -> None:
    arguments = ["--dir", str(tmp_path), "--state", "cached", "--size", "2"]
    text, data = smoke(tmp_path, "chunks.py", *arguments, "--only", "proactor.open, read")
    assert [case["chunk"] for case in data["cases"]] == ["64KB", "1MB", "whole"]
    for case in data["cases"]:
        assert {"open(), read", "proactor.open, read"} <= set(case["timed"])
        assert case["timed"]["proactor.open, read"][0]["bytes"] == 2 << 20
    assert "## by 64KB, cached\n" in text


def test_blocks_at_random_against_fio(tmp_path: Path) -> None:
    require("fio", "io_uring")
    arguments = ["--dir", str(tmp_path), "--state", "cold", "--size", "2"]
    text, data = smoke(tmp_path, "depths.py", *arguments, "--only", "proactor preadinto")
    assert [case["depth"] for case in data["cases"]] == [1, 16]
    assert all(set(case["timed"]) == {"fio, io_uring", "proactor preadinto"} for case in data["cases"])
    assert data["environment"]["fio"].startswith("fio-")
    assert "of fio, io_uring" in text


def test_create(tmp_path: Path) -> None:
    text, data = smoke(tmp_path, "create.py", "--dir", str(tmp_path), "--only", "proactor")
    assert set(data["timed"]) == {"open().write()", "proactor.write_bytes, gather", "proactor.open"}
    assert "## 100 files of 4,096 bytes" in text
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_calls(tmp_path: Path) -> None:
    arguments = ["--dir", str(tmp_path), "--only", "proactor", "--call", "stat", "--call", "scandir, names"]
    text, data = smoke(tmp_path, "calls.py", *arguments)
    assert len(data["timed"]) == 2 * 2
    assert all(rounds[0]["calls"] >= 1 for rounds in data["timed"].values())
    assert "## stat\n" in text
    assert "## scandir, names of 50 entries\n" in text


PACKAGES = ["", "proactor", *packages.RIVALS]


def rows_of(package: str, rows: Iterable[str]) -> list[str]:
    """`package`: empty for those that need none."""

    def needed(row: str) -> str:
        name = packages.package_of(row)
        return name if name in packages.MODULES else ""

    return [row for row in rows if needed(row) == package]


def require_package(package: str) -> None:
    if package in packages.RIVALS:
        require(package)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_reader_of_chunks(tmp_path: Path, package: str) -> None:
    require_package(package)
    path = tmp_path / "data"
    path.write_bytes(os.urandom(1 << 20))
    for chunk in (64 << 10, WHOLE):
        for name in rows_of(package, chunks.readers_of("cached", chunk)):
            measured = chunks.measure(name, str(path), "cached", chunk)
            assert measured["bytes"] == 1 << 20, name


@pytest.mark.parametrize("package", PACKAGES)
def test_each_direct_reader_of_chunks(tmp_path: Path, package: str) -> None:
    require("O_DIRECT")
    require_package(package)
    path = tmp_path / "data"
    path.write_bytes(os.urandom(256 << 10))
    for name in rows_of(package, chunks.readers_of("direct", 64 << 10)):
        measured = chunks.measure(name, str(path), "direct", 64 << 10)
        assert measured["bytes"] == 256 << 10, name
    for name in rows_of(package, depths.READERS):
        measured = depths.measure(name, str(path), 4, 1.0, direct=True)
        assert 0 < measured["reads"] <= 64


@pytest.mark.parametrize("name", depths.READERS)
def test_no_block_is_read_twice(tmp_path: Path, name: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(os.urandom(64 * 4096))
    measured = depths.measure(name, str(path), 4, 60.0, direct=False)
    assert measured["reads"] == 64
    assert measured["iops"] > 0


@pytest.mark.parametrize("package", PACKAGES)
def test_each_writer_of_create(tmp_path: Path, package: str) -> None:
    require_package(package)
    for name in rows_of(package, create.WRITERS):
        paths = create.paths_in(tmp_path / name, 10)
        os.makedirs(os.path.dirname(paths[0]))
        assert create.measure(name, paths)["wall_s"] > 0
        assert all(Path(path).read_bytes() == create.DATA for path in paths)


@pytest.mark.parametrize("package", PACKAGES)
def test_each_reader_of_read_many(tmp_path: Path, package: str) -> None:
    require_package(package)
    paths = read_many.make(tmp_path, 10, 4096)
    for name in rows_of(package, read_many.READERS):
        assert read_many.measure(name, paths, count=False)["bytes"] == 10 * 4096
    # The driver of this thread would stay as long as the thread.
    proactor.sync._of_thread.loop = None


@pytest.mark.parametrize("package", PACKAGES)
def test_each_caller_of_calls(tmp_path: Path, package: str) -> None:
    require_package(package)
    (tmp_path / "file").touch()
    for number in range(5):
        os.makedirs(tmp_path / "entries", exist_ok=True)
        (tmp_path / "entries" / str(number)).touch()
    for what, makers in calls.CALLS.items():
        for who in rows_of(package, makers):
            measured = calls.measure(what, who, str(tmp_path), 0.0001, 5)
            assert measured["us"] > 0
    assert sorted(os.listdir(tmp_path)) == ["entries", "file"]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("work", lines.WORK)
def test_each_writer_and_reader_of_lines(tmp_path: Path, package: str, work: str) -> None:
    require_package(package)
    paths = [str(tmp_path / str(number)) for number in range(3)]
    for path in paths:
        write_sync(path, 20)
    for name in rows_of(package, ALL):
        assert lines.measure(name, work, paths, 20)["wall_s"] > 0


def test_a_missing_rival_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lib, "is_installed", lambda package: package != "aiofile")
    rows = ["open()", "aiofiles", "aiofiles, 64 workers", "caio", "proactor.open, read"]
    assert packages.installed(rows) == rows
    assert not capsys.readouterr().err
    assert packages.installed(["aiofile, 64 workers", "aiofiles", "aiofile"]) == ["aiofiles"]
    assert capsys.readouterr().err.startswith("aiofile is missing, and left out: pip install")


def test_perop(tmp_path: Path) -> None:
    text, data = smoke(tmp_path, "perop.py", "--no-rust", "--no-instructions")
    assert "os.preadv" in text
    assert all(case["ns"] or case["unavailable"] for case in data["cases"])
    # The plain call is in the group of each batch.
    reads = [group for group in perop.groups(data) if group.title.startswith("read")]
    assert [group.rows[0].name for group in reads] == ["os.pread", "os.pread"]


def test_what_is_counted_of_perop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perop_child, "COUNTED_OPS", 128)
    marks: list[None] = []
    monkeypatch.setattr(os, "getloadavg", lambda: marks.append(None))
    counted = perop_child.count()
    cases = perop_child.cases()
    assert {"os.pread", "os.preadv", "threads"} <= {cases[number].engine for number in counted}
    assert len(marks) == 2 * len(counted)


def test_rounds_of_linux_aio(tmp_path: Path) -> None:
    arguments = ["--dir", str(tmp_path), "--files", "2", "--only", "proactor.aio threads"]
    text, data = smoke(tmp_path, "linux_aio_rounds.py", *arguments)
    (samples,) = data["results"].values()
    who = {"open()", "proactor.aio threads"}
    assert set(samples) == {f"{name}, {files}" for name in who for files in ("opened", "kept")}
    assert "## 2 files, kept open\n" in text


@pytest.mark.needs("fio", "io_uring", "O_DIRECT")
def test_randread(tmp_path: Path) -> None:
    binary = tmp_path / "ours"
    binary.write_text(
        "#!/bin/sh\necho '" + json.dumps({"iops": 9e9, "user_us_per_read": 1, "sys_us_per_read": 2}) + "'\n"
    )
    binary.chmod(0o755)
    arguments = ["--dir", str(tmp_path), "--binary", str(binary), "--engines", "io_uring", "--size", "16"]
    text, data = smoke(tmp_path, "randread.py", *arguments)
    assert set(data["engines"]["io_uring"]) == {"fio", "fio, batched", "proactor"}
    assert data["engines"]["io_uring"]["proactor"][0]["cpu_us"] == 3
    assert "9,000,000,000" in text


@pytest.mark.needs("fio", "io_uring", "linux_aio", "O_DIRECT")
def test_bench_beside_fio(tmp_path: Path) -> None:
    binary = tmp_path / "ours"
    binary.write_text(f'#!/bin/sh\nexec {sys.executable} -m proactor "$@"\n')
    binary.chmod(0o755)
    arguments = ["--dir", str(tmp_path), "--binary", str(binary), "--size", "4", "--engine", "libaio"]
    text, data = smoke(tmp_path, "bench_fio.py", *arguments, "--bs", "4k")
    places = [(case["state"], case["block"], case["depth"]) for case in data["cases"]]
    assert places == [(state, "4k", depth) for state in ("cached", "direct") for depth in (1, 4)]
    for case in data["cases"]:
        (measured,) = case["rounds"]
        assert measured["ratio"] == pytest.approx(
            measured["ours"] / (measured["fio"] * measured["again"]) ** 0.5
        )
        assert measured["noise"] == measured["again"] / measured["fio"] > 0
        assert sorted(measured["order"]) == ["again", "fio", "ours"]
    assert "## libaio (linux-aio:raw), 4k, cached\n" in text
    assert data["environment"]["within 5 % of fio, 4k"].endswith(" of 4")
    assert data["environment"]["at least 95 % of fio, 4k"].endswith(" of 4")


def test_the_interval_of_a_median() -> None:
    # Of six values their range has 1 - 2 / 2**6, of ten the second to the ninth 1 - 22 / 2**10.
    assert bench_fio.interval([5, 1, 3, 2, 4]) is None
    assert bench_fio.interval([6, 5, 1, 3, 2, 4]) == (1, 6)
    assert bench_fio.interval(list(range(10))) == (1, 8)
    assert bench_fio.verdict([1.0] * 5, 1.05) == "open"
    assert bench_fio.verdict([0.97, 0.96, 1.0, 1.01, 1.02, 1.04], 1.05) == "yes"
    assert bench_fio.verdict([0.97, 0.96, 1.0, 1.01, 1.02, 1.06], 1.05) == "open"
    assert bench_fio.verdict([0.97, 0.96, 1.0, 1.01, 1.02, 1.06], math.inf) == "yes"
    assert bench_fio.verdict([1.06, 1.07, 1.1, 1.2, 1.3, 1.4], 1.05) == "NO"
    assert bench_fio.verdict([0.6, 0.7, 0.8, 0.9, 0.92, 0.94], math.inf) == "NO"


COPYING = {"wall_s": 1.0, "user_s": 0.25, "system_s": 0.5, "machine_s": 1.5, "peak_kib": 2048}


@pytest.mark.needs("root", "loop device")
@pytest.mark.parametrize("state", copier.STATES)
def test_copier(tmp_path: Path, state: str) -> None:
    """With cp in the place of what has to be built."""
    binaries = tmp_path / "binaries"
    binaries.mkdir()
    floor = binaries / "copyfloor"
    floor.write_text(
        "#!/bin/sh -e\n"
        "case $1 in\n"
        "copy) cp -r $2 $3 ;;\n"
        "same) diff -r $2 $3 ;;\n"
        f"run) shift; $@ >&2; echo '{json.dumps(COPYING | {'status': 0})}' ;;\n"
        "esac\n"
    )
    ours = binaries / "proactor"
    ours.write_text('#!/bin/sh\nfor a; do shift; [ $a = --engine=uring ] || set -- "$@" "$a"; done\n"$@"\n')
    for program in (floor, ours):
        program.chmod(0o755)
    arguments = ["--binaries", str(binaries), "--dir", str(tmp_path), "--size", "0.5"]
    arguments += ["--only", "proactor|floor"]
    cell = ["--fs", "ext4", "--tree", "50,000 x 4 KB in 500 directories", "a mixture", "--state", state]
    text, data = smoke(tmp_path, "copier.py", *arguments, *cell)
    assert [found["tree"] for found in data["cells"]] == ["50,000 x 4 KB in 500 directories", "a mixture"]
    floor_row = {"warm": "floor: 1 thread", "cold": "floor: only read, 4 at once"}[state]
    for found in data["cells"]:
        assert found["state"] == state
        assert {"cp -a", floor_row, "proactor cp -r", "proactor cp -a"} <= set(found["timed"])
        assert all(
            rounds == [{**COPYING, "machine_s": rounds[0]["machine_s"]}] for rounds in found["timed"].values()
        )
    assert f"## a mixture, ext4, {state}\n" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["binaries", "result.json"]


def test_copies_are_added_to_those_that_are_kept(tmp_path: Path) -> None:
    def cell(fs: str, state: str, wall_s: float) -> lib.Measured:
        rows = {
            row: [{**COPYING, "wall_s": wall_s}] for row in ("floor: 1 thread", "proactor cp -a", "cp -a")
        }
        return {"fs": fs, "tree": "one of 2 GiB", "state": state, "timed": rows}

    assert copier.added([cell("xfs", "warm", 1)], tmp_path) == [cell("xfs", "warm", 1)]
    kept = {"cells": [cell("xfs", "warm", 1), cell("xfs", "cold", 2)]}
    rounds = tmp_path / "raw" / "2026-01-01-host-copier.json"
    rounds.parent.mkdir()
    rounds.write_text(json.dumps(kept))
    both = copier.added([cell("xfs", "warm", 3), cell("ext4", "cold", 4)], tmp_path)
    assert both == [cell("ext4", "cold", 4), cell("xfs", "warm", 3), cell("xfs", "cold", 2)]
    group = next(copier.groups({"cells": both}))
    assert group.title == "one of 2 GiB, ext4, cold"
    assert [row.name for row in group.rows] == ["cp -a", "proactor cp -a", "floor: 1 thread"]
    assert not any(group.behind(row) for row in group.rows)
    (line,) = copier.overview([group]).splitlines()[2:]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == ["one of 2 GiB, ext4, cold", "cp -a 4,000", "", "1.00", "", "1.00 (1 thread)"]


def test_visits_of_a_cell_say_where_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"cp -a": ["cp", "-a"], "proactor cp -a": ["proactor", "cp", "-a"]}
    monkeypatch.setattr(copier.Cell, "rows", lambda _: rows)
    monkeypatch.setattr(
        copier.Cell, "measure", lambda _, asked, rounds: {row: [COPYING] * rounds for row in asked}
    )
    args = argparse.Namespace(slice=1.0, results=tmp_path, rounds=4, visit=3)
    key = ("xfs", "a mixture", "warm")
    place = {"date": "today", "CPU": "2 x this", "commit": "abc", "host": "here"}
    slices = copier.Slices([key], args, place)
    slices.run()
    cell = slices.measured[key]
    assert {row: len(rounds) for row, rounds in cell["timed"].items()} == dict.fromkeys(rows, 4)
    assert [visit["rounds"] for visit in cell["visits"]] == [3, 1]
    (group,) = copier.groups({"cells": [cell]})
    assert group.note == "On 2 x this (3, abc); 2 x this (1, abc)."


def test_what_a_copier_has_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starter, fifo = tmp_path / "starter", tmp_path / "fifo"
    starter.write_text("#!/bin/sh\nsleep 1000 >$2 &\nwait\n")
    starter.chmod(0o755)
    os.mkfifo(fifo)
    opened = []

    def interrupted(_: object) -> None:
        # Waits until it is begun, and has the other end.
        opened.append(fifo.open("rb"))
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copier.timed(str(starter), str(fifo))
    with opened[0] as end:
        # It is closed by the end of who had it.
        assert select.select([end], [], [], 30)[0]
        assert end.read() == b""


@pytest.mark.parametrize("name", copier_places.trees(1))
def test_each_tree_of_copies_is_as_large_as_it_says(tmp_path: Path, name: str) -> None:
    tree = copier_places.trees(1_000)[name]
    tree.make(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    assert tree.files <= len(files) <= tree.files * 2 + 10
    assert sum(path.stat().st_size for path in files) <= tree.bytes


def test_rounds_measure_each_cell_once_in_changing_order() -> None:
    order: list[str] = []

    def measure(cell: str) -> lib.Measured:
        order.append(cell)
        return {"n": len(order)}

    found = lib.in_rounds(["a", "b", "c", "d"], 3, measure, quiet=True)
    rounds = [order[i : i + 4] for i in (0, 4, 8)]
    assert all(sorted(each) == ["a", "b", "c", "d"] for each in rounds)
    assert len({tuple(each) for each in rounds}) > 1
    assert all(len(measured) == 3 for measured in found.values())


def test_the_slowest_sit_out_when_time_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def measure(cell: int) -> lib.Measured:
        nonlocal now
        now += cell
        return {}

    def rounds(seconds: float | None) -> dict[int, int]:
        found = lib.in_rounds([100, 1, 10], 3, measure, seconds, quiet=True)
        return {cell: len(measured) for cell, measured in found.items()}

    assert rounds(None) == rounds(333.0) == {100: 3, 10: 3, 1: 3}
    assert rounds(133.0) == {100: 1, 10: 3, 1: 3}
    assert rounds(114.0) == {100: 1, 10: 1, 1: 3}
    assert rounds(0.0) == {100: 1, 10: 1, 1: 1}


def test_what_a_part_leaves_goes_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    budget = lib.Budget(1.0, 3)
    assert budget.part() == 20.0
    now = 10.0
    assert budget.part() == 25.0
    now = 70.0
    assert budget.part() == -10.0
    assert lib.Budget(None, 1).part() is None


def test_a_pause_of_the_loop_is_many_late_ticks() -> None:
    lateness = lib.Lateness(period_s=0.001)

    async def block() -> None:
        with lateness.watch():
            await asyncio.sleep(0.01)
            time.sleep(0.1)  # noqa: ASYNC251 - blocking is the point
            await asyncio.sleep(0.01)

    asyncio.run(block())
    assert lateness.max_s >= 0.098
    # Ticks due during the pause were late by everything from the whole of it to nothing.
    assert sum(late > 0.05 for late in lateness.late_s) >= 48
    assert 0.09 < lateness.p99_s <= lateness.max_s


def test_costs_add_up() -> None:
    costs = lib.Costs(system_calls=False)
    for _ in range(2):
        with costs.counted():
            deadline = time.process_time() + 0.02
            while time.process_time() < deadline:
                pass
    assert costs.wall_s >= 0.04
    assert costs.user_s + costs.system_s >= 0.03
    assert costs.as_dict()["system_calls"] is None
    assert costs.no_system_calls == "not asked for"


def test_cold_and_warm(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(10_000))
    assert lib.make_cold([path], gently=True) == "fadvise"
    assert lib.make_warm([path]) == "warm"
