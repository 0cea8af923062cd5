"""io_uring_enter is forbidden while files are in the rings: nothing hangs, and nothing is half done."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import needs
from cp_helpers import DEADLINE_S
from seccomp import FILTER, IO_URING_ENTER

FILES = 1_500
# Lines of 400 bytes: many times what the command and the pipe have room for.
DIRECTORIES = tuple(letter * 200 for letter in "abc")
PIPE_BYTES = 4096

# The command, whose threads are in a full pipe when the filter comes, with files in their rings.
PROGRAM = (
    FILTER
    + f"""
import fcntl, os, sys, threading
from proactor.__main__ import main

lines, output = os.pipe()
fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, {PIPE_BYTES})
console = os.dup(1)
os.dup2(output, 1)
os.close(output)

def watch():
    with open(lines) as file:
        said = file.readline()
        deny(1, {IO_URING_ENTER}, everywhere=True)
        said += file.read()
    os.write(console, b"%d\\n" % said.count("->"))

watcher = threading.Thread(target=watch)
watcher.start()
try:
    status = main()
finally:
    os.close(1)
    watcher.join()
sys.exit(status)
"""
)


def copy(directory: Path, *options: str) -> tuple[int, int, list[str]]:
    """Status, how many copies were told of, and what went wrong."""
    command = [sys.executable, "-c", PROGRAM, "cp", "-rv", *options, "source", "target"]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, int(done.stdout), done.stderr.splitlines()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for directory in DIRECTORIES:
        (tmp_path / "source" / directory).mkdir(parents=True)
        for number in range(FILES // 3):
            (tmp_path / "source" / directory / f"{number}").write_text(f"{directory[0]} {number}\n" * 50)
    return tmp_path / "source"


def contents(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


@needs("seccomp filter", "io_uring")
@pytest.mark.parametrize("into", ["new", "existing"])
def test_asked_for_by_name(source: Path, into: str) -> None:
    """What was in a ring is copied, the rest is told of, one by one."""
    if into == "existing":
        for directory in DIRECTORIES:
            (source.with_name("target") / directory).mkdir(parents=True)
    status, said, errors = copy(source.parent, "-T", "--engine=uring")
    expected, found = contents(source), contents(source.with_name("target"))
    assert found.items() <= expected.items()
    assert 0 < len(found) < FILES
    failed = {
        line.removeprefix("proactor cp: cannot copy 'source/").removesuffix(
            "' with --engine uring any more: Operation not permitted"
        )
        for line in errors
    }
    assert (status, failed) == (1, expected.keys() - found.keys())
    assert len(errors) == len(failed)
    assert not [name for name in os.listdir(source.parent) if "partial" in name]
    # Directories are told of where they are new.
    assert said == len(found) + (4 if into == "new" else 0)


@needs("seccomp filter", "io_uring")
def test_chosen_by_auto(source: Path) -> None:
    """Threads go on, and copy again what was in a ring."""
    status, _, errors = copy(source.parent, "--fsync=each", "--jobs=2")
    assert (status, errors) == (0, [])
    assert contents(source) == contents(source.with_name("target"))
