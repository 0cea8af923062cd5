"""tools/gnu_tests.py leaves none of the processes that a test has started."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from pathlib import Path

import gnu_tests
import pytest

DEADLINE_S = 60
# One in the test's process group, one in a group of its own, one in a session of its own, and an orphan.
START = """
sleep {seconds} >/dev/null 2>&1 &
timeout {seconds} sleep {seconds} >/dev/null 2>&1 &
setsid sleep {seconds} >/dev/null 2>&1 &
(setsid sh -c 'sleep {seconds}; :' >/dev/null 2>&1 &)
"""
PROCESSES = 6


@pytest.fixture
def seconds() -> str:
    """How long the processes would sleep: a number by which they are found."""
    return f"1000.{uuid.uuid4().int}"


def running(seconds: str) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().decode(errors="replace")
        except OSError:
            continue
        # Not the tool's own, which has the name of the file.
        if "sleep" in command and seconds in command:
            found.append(command)
    return found


def tool(tmp_path: Path, seconds: str, end: str, limit: str) -> subprocess.Popen[str]:
    source = tmp_path / "source"
    (source / "tests" / "cp").mkdir(parents=True)
    (source / "src").mkdir()
    (source / "tests" / "cp" / "leaves.sh").write_text(START.format(seconds=seconds) + end)
    options = ["--source", str(source), "--binary", "/bin/true", "--limit", limit]
    return subprocess.Popen(
        [sys.executable, gnu_tests.__file__, *options, "leaves"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    ("end", "limit", "outcome"),
    [
        ("exit 0", "50", "1 passed, 0 failed"),
        ("wait", "0.5", "0 passed, 1 failed"),
    ],
    ids=["a test that ends", "a test that does not end"],
)
def test_processes_of_a_test(tmp_path: Path, seconds: str, end: str, limit: str, outcome: str) -> None:
    said, _ = tool(tmp_path, seconds, end, limit).communicate(timeout=DEADLINE_S)
    assert outcome in said
    assert running(seconds) == []


def test_processes_of_a_tool_that_is_terminated(tmp_path: Path, seconds: str) -> None:
    process = tool(tmp_path, seconds, "wait", "50")
    deadline = time.monotonic() + DEADLINE_S
    while len(running(seconds)) < PROCESSES:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    said, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + 15, said
    assert running(seconds) == []
