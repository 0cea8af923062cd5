"""Copies of one source to one new name at the same time.

Users saw the second one copy everything, fail at the end, and leave a whole second tree behind.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest
from cp_helpers import Ours, proactor_command, wait_until

pytest_plugins = ["cp_fixtures"]

COPIES = 8
FILES = 400


def make_source(root: Path, files: int = FILES) -> None:
    for directory in ("src", "src/d", "src/d/e"):
        (root / directory).mkdir()
        for number in range(files // 3):
            (root / directory / f"{number}").write_text(f"{directory} {number}\n")


def start(root: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        proactor_command("cp", *arguments),
        cwd=root,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def same_tree(one: Path, other: Path) -> bool:
    return subprocess.run(["diff", "-r", one, other], check=False).returncode == 0


def leftovers(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.partial*"))


def test_the_second_is_refused_at_once(cp: Ours, tmp_path: Path) -> None:
    make_source(tmp_path, 6)
    lock = os.open(tmp_path / "t.partial.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, b"4194305")
        outcome = cp("-a", "src", "t")
    finally:
        os.close(lock)
    assert outcome.status == 1
    assert outcome.stderr == ["cp: cannot create directory 't': process 4194305 is copying to it"]
    assert leftovers(tmp_path) == ["t.partial.lock"]
    assert not (tmp_path / "t").exists()
    # It is dead: its lock is no obstacle, and goes.
    assert cp("-a", "src", "t").status == 0
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_eight_at_once(tmp_path: Path, resume: list[str]) -> None:
    make_source(tmp_path)
    copies = [start(tmp_path, "-aT", *resume, "src", "t") for _ in range(COPIES)]
    said = [copy.communicate()[1] for copy in copies]
    assert 0 in [copy.returncode for copy in copies], said
    assert same_tree(tmp_path / "src", tmp_path / "t")
    assert leftovers(tmp_path) == []


def test_eight_into_a_directory_that_exists(tmp_path: Path) -> None:
    """New trees and files in it are merged, as if one copy had come after the other."""
    make_source(tmp_path)
    (tmp_path / "t").mkdir()
    copies = [start(tmp_path, "-a", "src/.", "t") for _ in range(COPIES)]
    for copy in copies:
        assert (copy.communicate(), copy.returncode) == (("", ""), 0)
    assert same_tree(tmp_path / "src", tmp_path / "t")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_eight_that_are_killed(cp: Ours, tmp_path: Path, options: list[str]) -> None:
    """What they leave is gone when the same command with --resume has ended."""
    make_source(tmp_path, 600)
    slow = ["--bwlimit=1000"]
    copies = [start(tmp_path, "-aT", *options, *slow, "src", "t") for _ in range(COPIES)]
    wait_until(lambda: any(tmp_path.glob("t.partial-????????")))
    for copy in copies:
        copy.send_signal(signal.SIGKILL)
        copy.communicate()
    assert not (tmp_path / "t").exists()
    assert cp("-aT", "--resume", "src", "t").status == 0
    assert same_tree(tmp_path / "src", tmp_path / "t")
    left = leftovers(tmp_path)
    # Without --resume a tree of the first moments is nobody's, and is named (docs/copy.md).
    assert left == [] if options else not [name for name in left if "lock" in name or "journal" in name]


def test_a_name_that_is_taken_before_the_end(cp: Ours, tmp_path: Path) -> None:
    """Somebody makes the directory while the tree grows: the copy is merged into it, links and all."""
    make_source(tmp_path)
    os.link(tmp_path / "src" / "1", tmp_path / "src" / "d" / "other")
    copy = start(tmp_path, "-aT", "--bwlimit=2000", "src", "t")
    wait_until(lambda: any(tmp_path.glob("t.partial-????????/*")), copy)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "theirs").touch()
    assert (copy.communicate(), copy.returncode) == (("", ""), 0)
    assert (tmp_path / "t" / "theirs").exists()
    (tmp_path / "t" / "theirs").unlink()
    assert same_tree(tmp_path / "src", tmp_path / "t")
    assert (tmp_path / "t" / "1").samefile(tmp_path / "t" / "d" / "other")
    assert leftovers(tmp_path) == []


def test_a_tree_that_somebody_else_has_made_since(cp: Ours, tmp_path: Path) -> None:
    """The killed copy's tree goes when the same copy is resumed into what is there now."""
    make_source(tmp_path)
    copy = start(tmp_path, "-aT", "--resume", "--bwlimit=2000", "src", "t")
    wait_until(lambda: any(tmp_path.glob("t.partial-????????/*")), copy)
    copy.kill()
    copy.communicate()
    (tmp_path / "t").mkdir()
    assert cp("-aT", "--resume", "src", "t").status == 0
    assert same_tree(tmp_path / "src", tmp_path / "t")
    assert leftovers(tmp_path) == []


def test_the_lock_is_not_copied(cp: Ours, tmp_path: Path) -> None:
    """The target is in the source's own directory."""
    make_source(tmp_path, 6)
    (tmp_path / "src" / "into").mkdir()
    outcome = cp("-a", "src/.", "src/d", "src/into")
    assert not [name for name in outcome.tree if "lock" in name]
