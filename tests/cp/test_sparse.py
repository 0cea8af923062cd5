"""Holes and shared blocks: --sparse and --reflink."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cp_helpers import Ours, Same

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
