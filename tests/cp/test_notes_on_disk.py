"""`--fsync=each`: that a file is begun under its own name is on the disk before there is half of it.

After a loss of power nobody could tell the half from a file that was there before, and `-n`, `-u` and `-b`
would keep it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from capabilities import needs, require
from cp_helpers import proactor_command

pytestmark = needs("strace")

CALLS = "openat,openat2,write,ftruncate,fdatasync,fsync,io_uring_enter"
# What a line of strace is about: the journal is written or synced, the file is made, cut or written, or the
# ring does one of these.
MEANINGS = {
    "noted": re.compile(r"\bwrite\(\d+<[^>]*\.journal>"),
    "synced": re.compile(r"\bf(data)?sync\(\d+<[^>]*\.journal>"),
    "made": re.compile(r'\bopenat2?\(.*"file", .*O_CREAT'),
    "cut": re.compile(r"\bftruncate\(\d+<[^>]*/file>"),
    "written": re.compile(r"\bwrite\(\d+<[^>]*/file>"),
    "ring": re.compile(r"\bio_uring_enter\("),
}


def steps(tmp_path: Path, *options: str) -> list[str]:
    """What a copy of a directory with one file into one that exists does, from its first note on."""
    source, log = tmp_path / "source", tmp_path / "log"
    source.mkdir()
    (source / "file").write_bytes(b"new contents")
    words = proactor_command(
        "cp", "-rT", "--jobs=1", "--fsync=each", *options, str(source), str(tmp_path / "target")
    )
    subprocess.run(["strace", "-f", "-y", "-o", str(log), "-e", f"trace={CALLS}", *words], check=True)
    said = log.read_text().splitlines()
    found = [next((step for step, is_it in MEANINGS.items() if is_it.search(line)), None) for line in said]
    assert "noted" in found, said
    return [step for step in found[found.index("noted") :] if step is not None]


def assert_synced(steps: list[str], shows: str) -> None:
    """Between what was noted last and this there is a sync."""
    before = steps[: steps.index(shows)]
    assert "noted" in before, steps
    assert before[-1] == "synced", steps


@pytest.mark.parametrize("shows", ["made", "written"])
def test_before_a_new_file_is_there_and_before_it_has_bytes(tmp_path: Path, shows: str) -> None:
    (tmp_path / "target").mkdir()
    assert_synced(steps(tmp_path, "-n", "--in-place", "--engine=threads"), shows)


def test_before_an_old_file_loses_its_bytes(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").write_bytes(b"old contents")
    assert_synced(steps(tmp_path, "-u", "--in-place", "--engine=threads"), "cut")


def test_before_the_ring_makes_a_new_file_and_writes_it(tmp_path: Path) -> None:
    require("io_uring")
    (tmp_path / "target").mkdir()
    done = " ".join(steps(tmp_path, "-n", "--in-place", "--engine=uring"))
    assert done.count("noted synced ring") == 2, done
