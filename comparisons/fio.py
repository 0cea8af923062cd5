"""fio, as a ceiling: 4 KiB reads at random, with registered file and buffers where it can."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import lib


def is_installed() -> bool:
    return shutil.which("fio") is not None


def version() -> str:
    if not is_installed():
        return "not installed"
    return subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def random_reads(
    path: Path,
    depth: int,
    seconds: float,
    *,
    direct: bool,
    engine: str = "io_uring",
    latencies: bool = False,
    more: Sequence[str] = (),
) -> lib.Measured:
    """`engine`: fio's name of it. `latencies`: have it take the time of each read, which costs time."""
    command = ["fio", "--name=randread", f"--filename={path}", "--readonly", "--rw=randread", "--bs=4k"]
    command += [f"--direct={direct:d}", f"--ioengine={engine}", f"--iodepth={depth}", "--time_based"]
    command += [f"--runtime={seconds * 1e3:.0f}ms", "--randrepeat=0"]
    if not latencies:
        command.append("--gtod_reduce=1")
    command += ["--output-format=json", *more]
    if engine == "io_uring":
        command += ["--registerfiles", "--fixedbufs"]
    if direct:  # What keeps it from reading a block twice costs time, and matters to the page cache only.
        command.append("--norandommap")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    job = json.loads(done.stdout)["jobs"][0]
    reads = job["read"]["total_ios"]
    busy_us = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["read"]["runtime"] * 1e3
    return {"iops": job["read"]["iops"], "reads": reads, "cpu_us": busy_us / max(reads, 1)}
