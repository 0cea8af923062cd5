"""A loss of power on real file systems: the command is killed at a system call, the disk is as it is then.

The file system lies in a file in memory. What it has not written to that file is in the page cache alone, so
a copy of the file is what a disk has after a loss of power. Before that, a random part of what was written is
forced to it, names before contents among it: any order is one that a kernel may choose. The copy is mounted,
which recovers the file system's own journal, and `--resume` goes on there.
"""

from __future__ import annotations

import filecmp
import os
import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from capabilities import needs, require
from cp_helpers import mounted, proactor_command, snapshot

pytestmark = needs("root", "loop device", "strace")

FILES = 200
IMAGE_BYTES = 320 << 20  # mkfs.xfs makes no smaller ones than 300 MB
# How each is made and mounted: nothing is written before somebody asks for it.
SYSTEMS = {
    "ext4": (["mkfs.ext4", "-q", "-F"], "loop,commit=600"),
    "xfs": (["mkfs.xfs", "-q", "-f"], "loop,nouuid"),
}
RENAMES = "rename,renameat,renameat2"
# The calls, and which of them the command does not survive.
POINTS = [(RENAMES, 1), ("syncfs,fsync,fdatasync", 1), ("utimensat", 90)]


@pytest.fixture
def memory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


def make_source(root: Path) -> None:
    contents = random.Random(3)
    for at in range(FILES):
        path = root / f"d{at % 3}" / f"f{at}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents.randbytes(contents.randrange(1, 20_000)))


def killed_at(point: tuple[str, int] | None, arguments: list[str]) -> bool:
    """Whether the command was killed when it had made that call: its effect is there."""
    words = proactor_command("cp", "--jobs=1", *arguments)
    if point is not None:
        calls, count = point
        inject = f"inject={calls}:signal=SIGKILL:when={count}"
        words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", inject, *words]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL), done.stderr
    return done.returncode != 0


def write_back_some(root: Path, chance: random.Random) -> None:
    """What the kernel may have written in the meantime: some files, and names whatever is in the files."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and chance.random() < 0.2:
            force(path)
    if chance.random() < 0.7:
        # Names and lengths are in the file system's journal, which a sync of any file brings to the disk.
        (root / "unrelated").touch()
        force(root / "unrelated")


def force(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def copy_of(image: Path) -> Path:
    """What the disk has now: copied until nothing was written during a copy."""
    lost = image.with_suffix(".lost")
    while True:
        subprocess.run(["cp", "--sparse=always", image, lost], check=True)
        if filecmp.cmp(image, lost, shallow=False):
            return lost


def contents(root: Path) -> dict[str, bytes]:
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def made(memory: Path, system: str) -> tuple[Path, Path, str]:
    """The image, where it is to be mounted, and how."""
    if system == "xfs":
        require("xfs mount")
    image, disk = memory / "image", memory / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    make, options = SYSTEMS[system]
    subprocess.run([*make, image], check=True, capture_output=True)
    return image, disk, options


@pytest.mark.parametrize("fsync", ["none", "end", "each"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_tree_is_whole_or_goes_on(memory: Path, system: str, fsync: str) -> None:
    source = memory / "source"
    make_source(source)
    chance = random.Random(f"{system} {fsync}")
    image, disk, options = made(memory, system)
    arguments = ["-a", f"--fsync={fsync}", "--resume", str(source)]
    for point in [*POINTS, None]:
        with mounted(image, disk, "-o", options):
            shutil.rmtree(disk / "t", ignore_errors=True)
            os.sync()
            was_killed = killed_at(point, [*arguments, str(disk / "t")])
            assert was_killed or point is None or fsync == "none"
            if was_killed:
                write_back_some(disk, chance)
            lost = copy_of(image)
            for path in disk.glob("t*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        with mounted(lost, disk, "-o", options):
            target = disk / "t"
            # A tree has its name when it is on the disk, and when the command has said so.
            if fsync != "none" and target.exists():
                assert contents(target) == contents(source)
            assert was_killed or fsync == "none" or target.exists()
            assert not killed_at(None, [*arguments, str(target)])
            assert snapshot(target) == snapshot(source)
            # A partial tree of which the journal has nothing left is nobody's for sure, and stays.
            assert list(disk.glob("t*.journal")) == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_file_that_is_replaced_is_the_old_one_or_the_new_one(memory: Path, system: str) -> None:
    source = memory / "source"
    make_source(source)
    chance = random.Random(system)
    image, disk, options = made(memory, system)
    new = contents(source)
    old = dict.fromkeys(new, b"old " * 100)
    for count in (1, 2, 50, FILES):
        with mounted(image, disk, "-o", options):
            for name, content in old.items():
                (disk / "t" / name).parent.mkdir(parents=True, exist_ok=True)
                (disk / "t" / name).write_bytes(content)
            os.sync()
            assert killed_at((RENAMES, count), ["-rT", "--fsync=each", str(source), str(disk / "t")])
            write_back_some(disk, chance)
            lost = copy_of(image)
            shutil.rmtree(disk / "t")
        with mounted(lost, disk, "-o", options):
            found = contents(disk / "t")
            for name in new:
                assert found[name] in (old[name], new[name]), name
