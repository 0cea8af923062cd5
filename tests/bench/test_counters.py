"""System calls are counted right: strace, which sees every one, counts the same."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bench_helpers import ONCE, TIMEOUT_S, command, measured
from capabilities import needs

BLOCKS = 1024
WORK = (*ONCE, "--size=4m", "--rw=randread", "--iodepth=1")
# The loader and the interpreter read some files, and threads wait for each other a few times.
SLACK = 40


@needs("system call counters", "io_uring", "linux_aio", "O_DIRECT", "strace")
@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("sync", "pread64"),
        ("linux-aio", "io_submit"),
        ("linux-aio:raw", "io_submit"),
        ("io_uring", "io_uring_enter"),
    ],
)
def test_as_strace_counts(tmp_path: Path, engine: str, name: str) -> None:
    summary = tmp_path / "strace"
    traced = ("strace", "-f", "-c", "-o", str(summary), *command("io", *WORK, "--engine", engine, "--json"))
    counters = ("--counters", "perf", "--directory", str(tmp_path))
    done = subprocess.run(
        [*traced, *counters], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)["cells"][0]["counted"]
    assert counted["ios"] == BLOCKS
    found = counted["calls"]["by_name"][name]
    assert BLOCKS <= found <= BLOCKS + SLACK
    # strace has seen two rounds: the one that is timed and the one that is counted.
    match = re.search(
        rf"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?{name}$", summary.read_text(), re.MULTILINE
    )
    assert match, summary.read_text()
    assert abs(int(match[1]) - 2 * found) <= SLACK


@needs("system call counters", "io_uring")
def test_every_thread_is_counted(tmp_path: Path) -> None:
    def calls(*options: str) -> dict[str, Any]:
        report = measured(tmp_path, *WORK, "--direct", "0", "--counters", "perf", *options)
        found: dict[str, Any] = report["cells"][0]["counted"]["calls"]
        return found

    threads = calls("--engine", "psync-threads", "--iodepth", "8", "--numjobs", "2")
    assert threads["by_name"]["pread64"] == 2 * BLOCKS
    # The C library's threads, which come and go.
    posix = calls("--engine", "posix-aio")
    assert posix["by_name"]["pread64"] == BLOCKS
    for found in (threads, posix):
        assert found["total"] == sum(found["by_name"].values()) + found["other"]
    assert calls("--engine", "io_uring")["by_name"].get("pread64", 0) == 0


@needs("system call counters")
def test_threads_that_outlive_their_cell(tmp_path: Path) -> None:
    """A thread of POSIX AIO's stays for a second: it must not do the next cell's ops, uncounted."""
    engines = ("--engine", "posix-aio,posix-aio:raw")
    report = measured(tmp_path, *WORK, "--direct", "0", "--counters", "perf", *engines)
    counted = [cell["counted"]["calls"]["by_name"]["pread64"] for cell in report["cells"]]
    assert counted == [BLOCKS, BLOCKS]


@needs("system call counters")
def test_a_ramp_is_not_counted(tmp_path: Path) -> None:
    ramped = ("--time_based=1", "--runtime=100ms", "--ramp_time=200ms", "--direct", "0", "--engine", "sync")
    report = measured(tmp_path, *WORK, *ramped, "--counters", "perf")
    counted = report["cells"][0]["counted"]
    assert counted["calls"]["by_name"]["pread64"] <= counted["ios"] + 1


def test_without(tmp_path: Path) -> None:
    report = measured(tmp_path, *WORK, "--direct", "0", "--engine", "sync", "--counters", "none")
    assert report["counters"] == "none"
    assert report["cells"][0]["counted"] is None
    assert report["not_seen"] == ["system calls: not asked for"]
