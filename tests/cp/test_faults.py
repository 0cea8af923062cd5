"""Disks that fail and quotas that are full: the path and the reason are told, the rest is copied, and nothing
is half written under a final name."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from capabilities import needs
from cp_helpers import Ours, Outcome, Runner, mounted

pytest_plugins = ["cp_fixtures"]

FIBMAP = 1
BLOCK_BYTES = 1024
LARGE_BYTES = 2_000_000
# Shorter ones are written from one buffer, and those below 128 KiB go through a ring.
SIZES = {"large": LARGE_BYTES, "medium": 100_000, "small": 3_000}
ENGINES = [(), ("--engine=uring",), ("--verify",), ("--fsync=each",)]


@pytest.fixture
def cp(runner: Runner, tmp_path: Path) -> Ours:
    return Ours(runner, tmp_path)


def make_image(image: Path, size_bytes: int, *command: str) -> None:
    image.touch()
    os.truncate(image, size_bytes)
    subprocess.run([*command, "-q", image], check=True)


def first_block(path: Path) -> int:
    with path.open("rb") as file:
        found: int = struct.unpack("i", fcntl.ioctl(file, FIBMAP, struct.pack("i", 0)))[0]
        return found


def told(outcome: Outcome) -> list[str]:
    """What went wrong."""
    return [line.removeprefix("cp: ") for line in outcome.stderr]


def partial_names(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if ".partial-" in path.name]


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A disk whose end cannot be read: where all but the first file and the beginning of `large` lie."""
    place = tmp_path_factory.mktemp("worn")
    image, root = place / "image", place / "disk"
    root.mkdir()
    make_image(image, 16 << 20, "mkfs.ext4", "-O", "^has_journal", "-b", str(BLOCK_BYTES))
    with mounted(image, root, "-o", "loop"):
        contents = random.Random(5)
        for name, size_bytes in {"first": 50_000, **SIZES}.items():
            (root / name).write_bytes(contents.randbytes(size_bytes))
        os.sync()
        blocks = {name: first_block(root / name) for name in ("first", *SIZES)}
    cut = blocks["large"] + LARGE_BYTES // 2 // BLOCK_BYTES
    with mounted(image, root, "-o", "loop,ro"):
        # What the cut takes away, besides files: nothing that is read.
        os.truncate(image, cut * BLOCK_BYTES)
        lost = {name for name in SIZES if name == "large" or blocks[name] >= cut}
        assert "large" in lost
        assert blocks["first"] < blocks["large"]
        (place / "lost").write_text(" ".join(sorted(lost)))
        yield root


def is_lost(root: Path) -> set[str]:
    return set((root.parent / "lost").read_text().split())


@needs("root", "loop device")
@pytest.mark.parametrize("into", ["new", "existing"])
@pytest.mark.parametrize("options", ENGINES)
def test_a_source_that_cannot_be_read(
    cp: Ours, worn: Path, options: tuple[str, ...], into: str, tmp_path: Path
) -> None:
    lost, target = is_lost(worn), tmp_path / "target"
    if into == "existing":
        target.mkdir()
        for name in lost:
            (target / name).write_text("old\n")
    outcome = cp("-rT", *options, "--exclude=lost+found", str(worn), "target")
    reason = os.strerror(errno.EIO)
    assert told(outcome) == [f"error reading '{worn / name}': {reason}" for name in sorted(lost)]
    assert outcome.status == 1
    rest = {"first", *SIZES} - lost
    for name in rest:
        assert (target / name).stat().st_size == (worn / name).stat().st_size
    if into == "new":
        assert set(os.listdir(target)) == rest
    else:
        assert {(target / name).read_text() for name in lost} == {"old\n"}
        assert set(os.listdir(target)) == rest | lost
    assert partial_names(tmp_path) == []


@pytest.fixture
def thin(tmp_path: Path) -> Iterator[Path]:
    """A disk with less room than it says: it is in a memory that is full earlier."""
    memory, root = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    root.mkdir()
    with mounted("none", memory, "-t", "tmpfs", "-o", "size=3m"):
        options = "lazy_itable_init=0"
        make_image(memory / "image", 32 << 20, "mkfs.ext4", "-O", "^has_journal", "-N", "64", "-E", options)
        with mounted(memory / "image", root, "-o", "loop"):
            # What is written to again has its room.
            for number in range(20):
                (root / f"{number}").write_bytes(bytes(50_000))
            os.sync()
            for number in range(20):
                (root / f"{number}").unlink()
            yield root


def failing_target(cp: Ours, thin: Path, *options: str) -> tuple[Path, list[str]]:
    """Copies a file that is too large for the disk, which says so late, and one that is empty.

    Returns what else fails.
    """
    source, target = cp.directory / "source", thin / "target"
    source.mkdir()
    (source / "1").write_bytes(os.urandom(8 << 20))
    (source / "2").touch()
    outcome = cp("-rT", "--jobs=1", *options, "source", str(target))
    assert outcome.status == 1
    doing = "writing" if "--verify" in options else "syncing"
    reasons = {f"error {doing} '{target / '1'}': {os.strerror(error)}" for error in (errno.EIO, errno.ENOSPC)}
    assert len(reasons & set(told(outcome))) == 1
    # Nothing else fails where what it needs has its room; the file system as a whole may say it as well.
    others = [line for line in told(outcome) if line not in reasons and not line.startswith("error syncing")]
    return target, others


@needs("root", "loop device", "tmpfs mount")
@pytest.mark.parametrize("options", [("--verify",), ("--fsync=each",), ("--fsync=each", "--engine=threads")])
def test_a_target_that_cannot_be_written(cp: Ours, thin: Path, options: tuple[str, ...]) -> None:
    """It is the disk that fails, after the kernel has taken what was written."""
    (thin / "target").mkdir()
    (thin / "target" / "1").write_text("old\n")
    os.sync()
    target, others = failing_target(cp, thin, *options)
    assert (target / "1").read_text() == "old\n"
    assert sorted(os.listdir(target)) == ["1", "2"]
    assert others == []


@needs("root", "loop device", "tmpfs mount")
@pytest.mark.parametrize("options", [("--verify",), ("--verify", "--engine=threads")])
def test_a_new_tree_that_cannot_be_written(cp: Ours, thin: Path, options: tuple[str, ...]) -> None:
    target, others = failing_target(cp, thin, *options)
    # An empty file needs room for its inode.
    assert os.listdir(target) == ([] if others else ["2"])


@needs("root", "loop device", "tmpfs mount")
@pytest.mark.parametrize("options", [("--fsync=each",), ("--fsync=each", "--engine=threads")])
def test_a_tree_that_is_not_on_the_disk_has_no_name(cp: Ours, thin: Path, options: tuple[str, ...]) -> None:
    target, _ = failing_target(cp, thin, *options)
    assert not target.exists()
    assert "1" not in [path.name for path in thin.glob("target.partial-????????/*")]


@needs("root", "loop device", "tmpfs mount", "drop caches")
@pytest.mark.parametrize("into", ["new", "existing"])
def test_what_is_not_on_the_disk_in_the_end_is_copied_again(cp: Ours, thin: Path, into: str) -> None:
    """The kernel says once that it could not write: who goes on must not believe that all is well."""
    source, target = cp.directory / "source", thin / "target"
    source.mkdir()
    (source / "1").write_bytes(os.urandom(8 << 20))
    (source / "2").touch()
    if into == "existing":
        target.mkdir()
        os.sync()
    command = ("-rT", "--jobs=1", "--fsync=end", "--resume", "source", str(target))
    for _ in range(2):
        outcome = cp(*command)
        assert outcome.status == 1
        left = [f"the copied part of a new tree is in '{path}'" for path in thin.glob("*.partial-????????")]
        assert [line for line in told(outcome) if not line.startswith("error ")] == left
        assert (target.exists(), len(left)) == ((True, 0) if into == "existing" else (False, 1))
    # With room for it, everything is there, and on the disk.
    memory = thin.with_name("memory")
    subprocess.run(["mount", "-o", "remount,size=40m", str(memory)], check=True)
    outcome = cp(*command)
    assert (outcome.status, outcome.stderr) == (0, [])
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("1")
    assert (target / "1").read_bytes() == (source / "1").read_bytes()
    assert list(thin.glob("*.partial-*")) == []


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Path]:
    image, root = tmp_path / "image", tmp_path / "disk"
    root.mkdir()
    make_image(image, 256 << 20, "mkfs.btrfs")
    with mounted(image, root, "-o", "loop"):
        subprocess.run(["btrfs", "quota", "enable", root], check=True)
        subprocess.run(["btrfs", "quota", "rescan", "-w", root], check=True, capture_output=True)
        subprocess.run(["btrfs", "qgroup", "limit", "4M", root], check=True)
        yield root


@needs("root", "btrfs quota")
@pytest.mark.parametrize("options", ENGINES)
def test_a_full_quota(cp: Ours, limited: Path, options: tuple[str, ...], tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name, size_bytes in SIZES.items():
        (source / name).write_bytes(os.urandom(size_bytes))
    (source / "too-large").write_bytes(os.urandom(8 << 20))
    existing = limited / "existing"
    existing.mkdir()
    (existing / "too-large").write_text("old\n")
    for target in (limited / "new", existing):
        outcome = cp("-rT", *options, "source", str(target))
        reason = os.strerror(errno.EDQUOT)
        assert told(outcome) == [f"error writing '{target / 'too-large'}': {reason}"]
        assert outcome.status == 1
        for name in SIZES:
            assert (target / name).read_bytes() == (source / name).read_bytes()
        subprocess.run(["rm", "-r", limited / "new"], check=True)
        subprocess.run(["btrfs", "filesystem", "sync", limited], check=True)
        (limited / "new").mkdir()
    assert (existing / "too-large").read_text() == "old\n"
    assert sorted(os.listdir(existing)) == sorted([*SIZES, "too-large"])
    assert partial_names(limited) == []
