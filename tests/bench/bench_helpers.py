"""`proactor bench` as a user runs it: a process of its own, which is told what to do and what to write."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ENGINES = ("sync", "psync-threads", "posix-aio", "linux-aio", "io_uring")
TIMEOUT_S = 120
# Each block once, in one round.
ONCE = ("--bs=4k", "--time_based=0", "--rounds=1")
# A file of 256 blocks, and nobody counts.
SMALL = (*ONCE, "--size=1m", "--counters=none", "--direct=0")


def command(*arguments: str) -> list[str]:
    """$PROACTOR_COMMAND names a native binary to take instead of the package's command."""
    native = os.environ.get("PROACTOR_COMMAND")
    return [*([native] if native else [sys.executable, "-m", "proactor"]), "bench", *arguments]


def bench(directory: Path, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*arguments), cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def measured(directory: Path, *arguments: str, status: int = 0) -> dict[str, Any]:
    """The report of `bench io`."""
    done = bench(directory, "io", *arguments, "--json", status=status)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def cells(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By engine or contender: for reports that have each once."""
    found = {cell["cell"].get("engine", cell["cell"].get("contender")): cell for cell in report["cells"]}
    assert len(found) == len(report["cells"])
    return found
