"""fio, as a ceiling: reads at random, with registered file and buffers where it can."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
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
    block: str = "4k",
    latencies: bool = False,
    more: Sequence[str] = (),
    under: Sequence[str] = (),
) -> lib.Measured:
    """`engine`: fio's name of it. `latencies`: have it take the time of each read, which costs time.

    `under`: a command that is given fio's, such as one that counts what it does. `around_s`: what the process
    took besides the time that it tells of.
    """
    command = ["fio", "--name=randread", f"--filename={path}", "--readonly", "--rw=randread", f"--bs={block}"]
    command += [f"--direct={direct:d}", f"--ioengine={engine}", f"--iodepth={depth}", "--time_based"]
    command += [f"--runtime={seconds * 1e3:.0f}ms", "--randrepeat=0"]
    if not latencies:
        command.append("--gtod_reduce=1")
    command += ["--output-format=json", *more]
    if engine == "io_uring":
        command += ["--registerfiles", "--fixedbufs"]
    if direct:  # What keeps it from reading a block twice costs time, and matters to the page cache only.
        command.append("--norandommap")
    begin = time.monotonic()
    done = subprocess.run([*under, *command], capture_output=True, text=True, check=False)
    took_s = time.monotonic() - begin
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    job = json.loads(done.stdout)["jobs"][0]
    reads, runtime_s = job["read"]["total_ios"], job["read"]["runtime"] / 1e3
    # Shares of the time, of one thread where there are many.
    a_read_us = runtime_s * 1e6 / 100 / max(reads, 1)
    return {
        "iops": job["read"]["iops"],
        "reads": reads,
        "user_us": job["usr_cpu"] * a_read_us,
        "cpu_us": (job["usr_cpu"] + job["sys_cpu"]) * a_read_us,
        "runtime_s": runtime_s,
        "around_s": took_s - runtime_s,
    }
