"""--engine: a ring makes what threads make, and is refused where there is none."""

from __future__ import annotations

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import arrangements
import pytest
from capabilities import require
from cp_helpers import Ours, Runner, Same, denied, snapshot
from test_preserve import *  # noqa: F403

pytest_plugins = ["cp_fixtures"]

# The same on every architecture.
IO_URING_SETUP = 425


@pytest.fixture
def cp(runner: Runner, tmp_path: Path) -> Ours:
    require("io_uring")
    return Ours(runner, tmp_path, "--engine=uring")


@pytest.fixture
def same(runner: Runner, place: Path) -> Same:
    require("GNU cp")
    require("io_uring")
    return Same(runner, place, "--engine=uring")


def refused(tmp_path: Path, error: int, *options: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("contents\n")
    command = denied(IO_URING_SETUP, error, "cp", "-r", *options, "source", "target")
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("error", "words"),
    [(errno.EPERM, "a seccomp filter"), (errno.ENOSYS, "no io_uring"), (errno.ENOMEM, "RLIMIT_MEMLOCK")],
)
def test_where_it_is_forbidden(tmp_path: Path, error: int, words: str) -> None:
    done = refused(tmp_path, error, "--engine=uring")
    assert done.returncode == 1
    assert done.stderr.startswith("proactor cp: cannot use --engine uring: ")
    assert words in done.stderr
    assert done.stderr.count(os.strerror(error)) == 1
    assert "os error" not in done.stderr
    assert not (tmp_path / "target").exists()
    assert done.stderr.count("\n") == 1


def test_where_it_is_forbidden_for_programs(tmp_path: Path) -> None:
    done = refused(tmp_path, errno.EPERM, "--engine=io_uring", "--json")
    error, report = map(json.loads, done.stdout.splitlines())
    assert (error["event"], error["errno"]) == ("error", errno.EPERM)
    assert (report["status"], report["failures"], report["files"]) == (1, 1, 0)


@pytest.mark.parametrize("engine", ["auto", "threads"])
@pytest.mark.parametrize("sync", ["none", "each"])
def test_others_do_not_need_it(tmp_path: Path, engine: str, sync: str) -> None:
    done = refused(tmp_path, errno.EPERM, f"--engine={engine}", f"--fsync={sync}")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "target" / "file").read_text() == "contents\n"


def test_a_dry_run_needs_none(tmp_path: Path) -> None:
    done = refused(tmp_path, errno.EPERM, "--engine=uring", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")


def test_there_is_no_other(cp: Ours) -> None:
    done = cp("--engine=fast", "a", "b")
    assert done.status == 1
    assert any("invalid argument" in line and "fast" in line for line in done.stderr)


def test_python_says_why(tmp_path: Path) -> None:
    program = """
import asyncio, sys, proactor
async def main():
    try:
        await proactor.copy("source", "target", engine="uring")
    except proactor.CopyError as error:
        print(error.errno, error.filename, error.strerror)
asyncio.run(main())
"""
    (tmp_path / "source").mkdir()
    command = denied(IO_URING_SETUP, errno.EPERM)
    command = [*command[: command.index("-m") - 1], sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{errno.EPERM} None Operation not permitted: a seccomp filter")


LINKAT = {"x86_64": 265, "aarch64": 37}


def test_a_file_with_too_many_names(tmp_path: Path) -> None:
    """A file of several names stays one as far as the file system allows; then a copy goes on for it."""
    arrangements.tree(tmp_path)
    (tmp_path / "t" / "more").hardlink_to(tmp_path / "t" / "file")
    number = LINKAT[platform.machine()]
    command = denied(number, errno.EMLINK, "cp", "-a", "t", "new")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    names = sum(entry.stat().st_nlink > 1 for entry in (tmp_path / "t").rglob("*") if entry.is_file())
    assert names >= 2
    assert done.returncode == 0
    assert "is copied as a separate file: its file has as many hard links" in done.stderr
    found, expected = snapshot(tmp_path / "new"), snapshot(tmp_path / "t")
    for entry in (*found.values(), *expected.values()):
        entry.pop("inode of", None)
    assert found == expected
    # Who asks for links and nothing else hears that there is none.
    command = denied(number, errno.EMLINK, "cp", "-al", "t", "links")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "cannot create hard link" in done.stderr
    assert "Too many links" in done.stderr
