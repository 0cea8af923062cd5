"""--preserve=flags: what chattr sets, on ext4 and on a file system that knows few of them."""

from __future__ import annotations

import asyncio
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import proactor
import pytest
from capabilities import needs
from cp_helpers import Ours, Runner

pytest_plugins = ["cp_fixtures"]
pytestmark = needs("root", "loop device")

FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
# As chattr calls them: append-only, immutable, no dump, no time of access, undeletable, synchronous.
A, I, D, NO_ATIME, U, S = 0x20, 0x10, 0x40, 0x80, 0x2, 0x8  # noqa: E741
SETTABLE = A | I | D | NO_ATIME | U | S
TREE = {
    "t": D | I,
    "t/plain": 0,
    "t/d": D,
    "t/u": U | S,
    "t/a": A,
    "t/i": I | NO_ATIME,
    "t/sub": A,
    "t/sub/i": I,
}


def flags_of(path: Path) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        found: int = struct.unpack("i", fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(4)))[0]
        return found & SETTABLE
    finally:
        os.close(fd)


def set_flags(path: Path, flags: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        others = struct.unpack("i", fcntl.ioctl(fd, FS_IOC_GETFLAGS, bytes(4)))[0] & ~SETTABLE
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, struct.pack("i", others | flags))
    finally:
        os.close(fd)


def takes(path: Path, flag: int) -> bool:
    """Whether a file system has a flag: asked by setting it."""
    with suppress(OSError):
        set_flags(path, flag)
        return True
    return False


@pytest.fixture(scope="module")
def ext4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("flags")
    image, root = place / "image", place / "ext4"
    root.mkdir()
    image.touch()
    os.truncate(image, 16 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, root], check=True)
    try:
        yield root
    finally:
        subprocess.run(["umount", root], check=True)


@pytest.fixture
def disk(ext4: Path) -> Iterator[Path]:
    """A directory on ext4, with a tree whose entries have flags."""
    root = ext4 / "test"
    (root / "t" / "sub").mkdir(parents=True)
    for name in TREE:
        if not (root / name).is_dir():
            (root / name).write_text(f"{name}\n")
    os.symlink("plain", root / "t" / "link")
    os.mkfifo(root / "t" / "fifo")
    for name in reversed(TREE):
        set_flags(root / name, TREE[name])
    yield root
    free(root)
    subprocess.run(["rm", "-r", root], check=True)


def free(root: Path) -> None:
    """Take all locks off, from above."""
    for directory, _, files in os.walk(root):
        for path in (Path(directory), *(Path(directory) / file for file in files)):
            if path.is_dir() or (path.is_file() and not path.is_symlink()):
                set_flags(path, 0)


@pytest.fixture
def cp(runner: Runner, disk: Path) -> Ours:
    return Ours(runner, disk)


def flags_below(root: Path) -> dict[str, int]:
    return {name: flags_of(root / name[2:]) for name in TREE}


@pytest.mark.parametrize(
    "options", [(), ("--engine=uring",), ("--verify",), ("--fsync=each",), ("--jobs=3",)]
)
def test_a_tree_has_them(cp: Ours, disk: Path, options: tuple[str, ...]) -> None:
    outcome = cp("-a", "--preserve=flags", *options, "t", "new")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert flags_below(disk / "new") == TREE
    assert (disk / "new" / "sub" / "i").read_text() == "t/sub/i\n"
    times = [os.stat(disk / root / "sub").st_mtime_ns for root in ("t", "new")]
    assert times[0] == times[1]
    with pytest.raises(PermissionError):
        (disk / "new" / "more").touch()


@pytest.mark.parametrize(
    "options", [("-a",), ("-r", "--preserve=all"), ("-a", "--preserve=flags", "--no-preserve=flags")]
)
def test_nobody_gets_them_unasked(cp: Ours, disk: Path, options: tuple[str, ...]) -> None:
    assert cp(*options, "t", "new").status == 0
    assert set(flags_below(disk / "new").values()) == {0}


@pytest.mark.parametrize("options", [("--preserve=flags", "-a"), ("-r", "--preserve=flags,all")])
def test_all_does_not_take_them_away(cp: Ours, disk: Path, options: tuple[str, ...]) -> None:
    assert cp(*options, "t", "new").status == 0
    assert flags_below(disk / "new") == TREE


def test_into_what_is_there(cp: Ours, disk: Path) -> None:
    """What is replaced, written to or merged into has the source's flags, and no others."""
    (disk / "new" / "sub").mkdir(parents=True)
    for name in ("plain", "d", "a"):
        (disk / "new" / name).write_text("old\n")
    os.link(disk / "new" / "d", disk / "new" / "other")
    set_flags(disk / "new" / "plain", S)
    set_flags(disk / "new" / "d", S | U)
    outcome = cp("-rT", "--preserve=flags", "t", "new")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert flags_below(disk / "new") == TREE
    # It has another name, so it was written in place.
    assert (disk / "new" / "other").read_text() == "t/d\n"


def test_single_files_and_parents(cp: Ours, disk: Path) -> None:
    (disk / "into").mkdir()
    assert cp("--preserve=flags", "t/a", "alone").status == 0
    assert cp("--preserve=flags", "--attributes-only", "t/i", "bare").status == 0
    assert cp("--preserve=flags", "--parents", "t/sub/i", "into").status == 0
    found = {
        name: flags_of(disk / name) for name in ("alone", "bare", "into/t", "into/t/sub", "into/t/sub/i")
    }
    assert found == {"alone": A, "bare": I | NO_ATIME, "into/t": D | I, "into/t/sub": A, "into/t/sub/i": I}
    assert flags_of(disk / "into") == 0


def test_hard_links(cp: Ours, disk: Path) -> None:
    free(disk / "t")
    os.link(disk / "t" / "i", disk / "t" / "sub" / "again")
    set_flags(disk / "t" / "i", I)
    assert cp("-a", "--preserve=flags", "t", "new").status == 0
    assert os.stat(disk / "new" / "i").st_nlink == 2
    assert flags_of(disk / "new" / "sub" / "again") == I


def test_what_cannot_be_is_told(cp: Ours, disk: Path) -> None:
    """What is locked is not replaced, and the rest is copied."""
    assert cp("-a", "--preserve=flags", "t/i", "t/plain", "t/d", ".").status == 0
    free(disk / "t")
    (disk / "t" / "i").write_text("another\n")
    outcome = cp("-a", "--preserve=flags", "t/i", "t/plain", "t/d", ".")
    assert outcome.status == 1
    assert len(outcome.stderr) == 1
    assert "'./i'" in outcome.stderr[0]
    assert (disk / "i").read_text() == "t/i\n"
    assert not [name for name in os.listdir(disk) if "partial" in name]


def test_where_there_are_fewer(cp: Ours, disk: Path, tmp_path: Path) -> None:
    """tmpfs has a few, which the kernel is asked for: the others are told of, the rest is copied."""
    there = tmp_path / "tmpfs"
    there.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", there], check=True)
    try:
        known = {}
        for name, flags in TREE.items():
            probe = there / "probe"
            probe.touch()
            known[name] = 0
            for bit in (1 << shift for shift in range(32)):
                if flags & bit and takes(probe, bit):
                    known[name] |= bit
                    set_flags(probe, 0)
            probe.unlink()
        outcome = cp("-a", "--preserve=flags", "t", str(there / "new"))
        lacking = sorted(name for name, flags in TREE.items() if known[name] != flags)
        assert "t/u" in lacking
        told = [
            f"cp: failed to preserve flags for '{there / 'new'}{name[1:]}': Operation not supported"
            for name in lacking
        ]
        assert (outcome.status, outcome.stderr) == (1, sorted(told))
        assert flags_below(there / "new") == known
        assert (there / "new" / "u").read_text() == "t/u\n"
    finally:
        free(there)
        subprocess.run(["umount", there], check=True)


def test_without_the_privilege(runner: Runner, disk: Path) -> None:
    os.chmod(disk, 0o777)
    done = runner.proactor(disk, "cp", "--preserve=flags", "t/a", "t/d", "t/plain", ".", user=4321)
    told = "proactor cp: failed to preserve flags for './a': Operation not permitted\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert {name: flags_of(disk / name) for name in ("a", "d", "plain")} == {"a": 0, "d": D, "plain": 0}


def test_in_shards_they_are_refused(cp: Ours) -> None:
    outcome = cp("-a", "--preserve=flags", "--plan", "plan.json", "t", "new")
    assert outcome.status == 1
    assert "--preserve=flags" in outcome.stderr[0]


def test_from_python(disk: Path) -> None:
    source, target = disk / "t", disk / "new"
    report = asyncio.run(proactor.copy(source, target, preserve=["flags", "all"]))
    assert report.files == 6
    assert flags_below(target) == TREE
    asyncio.run(proactor.copy(source, disk / "other"))
    assert set(flags_below(disk / "other").values()) == {0}
    with pytest.raises(ValueError, match="flags"):
        asyncio.run(proactor.copy(source, disk / "third", preserve=["attributes"]))  # type: ignore[list-item]
