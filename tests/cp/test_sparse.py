"""Holes and shared blocks: --sparse and --reflink."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import pytest
from capabilities import needs
from cp_helpers import Ours, Same, content, mounted, proactor_command

pytest_plugins = ["cp_fixtures"]

MIB = 1 << 20


def sparse(root: Path) -> None:
    """Holes before, between and after data, zeros that are no holes, and nothing but a hole."""
    with (root / "holes").open("wb") as file:
        file.truncate(9 * MIB)
        os.pwrite(file.fileno(), b"x" * 70_000, 2 * MIB)
        os.pwrite(file.fileno(), b"y" * 5000, 5 * MIB + 1234)
        os.fsync(file.fileno())
    with (root / "zeros").open("wb") as file:
        file.write(b"a" * 4096 + bytes(MIB) + b"b" * 4096 + bytes(MIB + 17))
        os.fsync(file.fileno())
    with (root / "hole").open("wb") as file:
        file.truncate(MIB + 1)
    (root / "dest").mkdir()


@pytest.mark.parametrize("how", ["", "--sparse=auto", "--sparse=always", "--sparse always", "--sparse=alw"])
@pytest.mark.parametrize("source", ["holes", "zeros", "hole"])
def test_holes(same: Same, how: str, source: str) -> None:
    outcome = same(sparse, *how.split(), source, "new")
    if "al" in how and source == "zeros":
        assert len(outcome.tree["new"]["content"][1]) == 2


@pytest.mark.parametrize("source", ["holes", "zeros", "hole"])
def test_no_holes(cp: Ours, source: str) -> None:
    sparse(cp.directory)
    outcome = cp("--sparse=never", source, "new")
    expected = (cp.directory / source).read_bytes()
    assert outcome.status == 0
    assert outcome.tree["new"]["content"] == (len(expected), [(0, expected)])


def test_a_longer_file_with_data_is_replaced(same: Same) -> None:
    def longer(root: Path) -> None:
        sparse(root)
        (root / "dest" / "holes").write_bytes(b"z" * 10 * MIB)

    for how in ("--sparse=auto", "--sparse=always"):
        same(longer, how, "holes", "dest")


@pytest.mark.parametrize(
    "how",
    ["--reflink=auto", "--reflink=never", "--reflink=auto --sparse=auto", "--reflink=never --sparse=always"],
)
def test_reflink(same: Same, how: str) -> None:
    same(sparse, *how.split(), "holes", "zeros", "dest")


@pytest.mark.parametrize(
    "how",
    [
        "--reflink=always --sparse=always",
        "--reflink --sparse=never",
        "--reflink=wrong",
        "--sparse=wrong",
        "--sparse=",
        "--reflink=a",
    ],
)
def test_what_does_not_go_together(same: Same, how: str) -> None:
    same(sparse, *how.split(), "holes", "new")


@pytest.mark.parametrize("how", ["--reflink", "--reflink=always"])
def test_reflink_always_where_there_is_none(same: Same, how: str) -> None:
    """What is left differs where the file system can share blocks, and what is said does not."""
    same.saying(sparse, how, "holes", "new")


def allocate_beyond(file: int, length: int) -> None:
    """Room after the end, which stays where it is (fallocate with FALLOC_FL_KEEP_SIZE)."""
    end = os.fstat(file).st_size
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
    if fallocate(file, 1, ctypes.c_long(end), ctypes.c_long(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


@needs("tmpfs mount")
@pytest.mark.parametrize("beyond", [0, 1, 3, 4, 5])
@pytest.mark.parametrize("hole", [0, 1, 4])
@pytest.mark.parametrize("length", [9 * 4096, 9 * 4096 + 1, 10 * 4096 - 1])
def test_pages_beyond_the_end(tmp_path: Path, length: int, hole: int, beyond: int) -> None:
    """tmpfs counts them too. As many as a hole has hide it: then it is filled, and else it is one again."""
    pages = -(-length // 4096)
    with mounted("none", tmp_path, "-t", "tmpfs", "-o", "huge=never"):
        data = os.urandom(length)
        with (tmp_path / "file").open("wb") as file:
            file.truncate(length)
            os.pwrite(file.fileno(), data[: 2 * 4096], 0)
            os.pwrite(file.fileno(), data[(2 + hole) * 4096 :], (2 + hole) * 4096)
            if beyond:
                allocate_beyond(file.fileno(), beyond * 4096 + pages * 4096 - length)
        source = tmp_path / "file"
        assert source.stat().st_blocks == 8 * (pages - hole + beyond)
        done = subprocess.run(
            proactor_command("cp", "-a", "file", "new"),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        if 0 < hole == beyond:
            assert (tmp_path / "new").read_bytes() == source.read_bytes()
            assert (tmp_path / "new").stat().st_blocks == 8 * pages
        else:
            assert content(tmp_path / "new") == content(source)
            assert (tmp_path / "new").stat().st_blocks == 8 * (pages - hole)
