"""What BPF counts: strace and perf stat, which see the same, say the same."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench_helpers import ONCE, TIMEOUT_S, bench, command, measured
from capabilities import needs

BLOCKS = 1024
WORK = (*ONCE, "--size=4m", "--rw=randread", "--iodepth=1", "--direct=0")
# Threads wait for each other a few times, and the clock of the progress ticks.
SLACK = 40


def counted(place: Path, *options: str) -> dict[str, Any]:
    report = measured(place, *WORK, "--counters", "bpf", *options)
    assert report["counters"] == "bpf"
    found: dict[str, Any] = report["cells"][0]["counted"]
    return found


@needs("bpf", "io_uring", "linux_aio", "strace")
@pytest.mark.parametrize(
    ("engine", "name"),
    [("sync", "pread64"), ("linux-aio:raw", "io_submit"), ("io_uring", "io_uring_enter")],
)
def test_calls_as_strace_counts(tmp_path: Path, engine: str, name: str) -> None:
    found = counted(tmp_path, "--engine", engine)
    assert found["ios"] == BLOCKS
    assert BLOCKS <= found["calls"]["by_name"][name] <= BLOCKS + SLACK
    times = found["seen"]["call_times"][name]
    assert BLOCKS <= times["count"] <= BLOCKS + SLACK
    assert 0 < times["p50_s"] <= times["p99_s"] <= times["max_s"] <= found["elapsed_s"] * 1.25
    # Without the round that is counted, strace sees one.
    summary = tmp_path / "strace"
    run = command("io", *WORK, "--engine", engine, "--counters", "none", "--directory", str(tmp_path))
    subprocess.run(
        ["strace", "-f", "-c", "-o", str(summary), *run],
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=TIMEOUT_S,
    )
    match = re.search(rf"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+).*\s{name}$", summary.read_text(), re.MULTILINE)
    assert match, summary.read_text()
    assert abs(int(match[1]) - found["calls"]["by_name"][name]) <= SLACK


@needs("bpf", "system call counters")
def test_as_perf_events_count(tmp_path: Path) -> None:
    """Those are the cell's threads alone, BPF's the whole process's."""
    options = ("--engine", "psync-threads", "--iodepth", "8")
    by_bpf = counted(tmp_path, *options)["calls"]
    report = measured(tmp_path, *WORK, "--counters", "perf", *options)
    by_perf = report["cells"][0]["counted"]["calls"]
    assert by_bpf["by_name"]["pread64"] == by_perf["by_name"]["pread64"] == BLOCKS
    assert by_bpf["total"] == sum(by_bpf["by_name"].values())
    assert abs(by_bpf["total"] - by_perf["total"]) <= 0.05 * by_perf["total"] + SLACK


@needs("bpf", "io_uring")
def test_ops_of_io_uring(tmp_path: Path) -> None:
    found = counted(tmp_path, "--engine", "io_uring", "--invalidate=0")
    seen = found["seen"]
    assert seen["op_times"]["read"]["count"] == BLOCKS
    assert seen["op_times"]["read"]["p50_s"] < 0.1
    # Syncs are done by a worker, each of them.
    found = counted(tmp_path, "--engine", "io_uring", "--rw=write", "--fsync=64")
    assert found["seen"]["op_times"]["fsync"]["count"] == BLOCKS / 64
    assert found["seen"]["punts"]["fsync"] == BLOCKS / 64


@needs("bpf", "io_uring")
def test_off_the_cpu(tmp_path: Path) -> None:
    """A submitter that sleeps 2 ms is off the CPU so long, each time."""
    sleeps = ("--engine", "io_uring", "--iodepth=16", "--thinktime=2000", "--size=128k")
    (cell,) = measured(tmp_path, *WORK, "--counters", "bpf", *sleeps)["cells"]
    found = cell["counted"]
    seen = found["seen"]
    naps = found["calls"]["by_name"]["clock_nanosleep"]
    assert naps >= 2
    assert seen["voluntary"] >= naps
    assert seen["waiting_s"] >= 0.002 * naps
    # What the kernel itself counts of a round (getrusage), of the one that is timed.
    timed = cell["rounds"][0]["used"]["voluntary"]
    assert abs(seen["voluntary"] - timed) <= 0.2 * timed + SLACK
    assert seen["waits"]["count"] <= seen["voluntary"]


@needs("root")
def test_without_the_right(tmp_path: Path) -> None:
    """What cannot be is said, and `auto` goes on with what there is."""
    powerless = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    done = subprocess.run(
        [*powerless, *command("io", *WORK, "--engine", "sync", "--counters", "bpf")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 2
    assert "--counters bpf: " in done.stderr
    done = subprocess.run(
        [*powerless, *command("io", *WORK, "--engine", "sync", "--json")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["counters"] != "bpf"
    assert len(report["cells"][0]["rounds"]) == 1


def test_of_files_and_copiers_there_is_none(tmp_path: Path) -> None:
    said = bench(tmp_path, "cp", "--quick", "--tree", "small", "--counters", "bpf", status=2).stderr
    assert "is for `bench io`" in said
