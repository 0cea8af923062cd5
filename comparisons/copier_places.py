"""Where `copier.py` copies: file systems made for it, each in a file, and the trees that are copied.

Nothing is ever deleted on them: on ext4 creating files is ten times slower after that. When the next copy has
no room, the whole file system is made anew, and the sources with it.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# Share of the machine's memory. The measured programs need the rest, and swapping would be measured, too.
TMPFS_PART = 1 / 2

# What the file system itself needs, and what a copy's metadata does.
SPARE_BYTES, PER_FILE_BYTES = 256 * MIB, 2 * KIB

# Makes at once what the file system would otherwise do during a measurement. An inode for each 4 KiB.
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-i", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}


# The trees


def _files(place: Path, count: int, size: int, directories: int) -> None:
    """Random contents: a block that is like another could be left out below. 0 directories: flat."""
    bits = random.Random(count)
    data = bits.randbytes(max(size, MIB) + count)
    for number in range(count):
        folder = place / f"{number * directories // count:03}" if directories else place
        if number * directories % count < max(directories, 1):
            folder.mkdir(exist_ok=True)
        with open(folder / f"{number:07}.bin", "wb") as file:
            file.write(memoryview(data)[number : number + size])


def _one(place: Path, size: int) -> None:
    with open(place / "one.bin", "wb") as file:
        for number in range(size // MIB):
            file.write(random.Random(number).randbytes(MIB))


def _mixture(place: Path, count: int) -> None:
    """As a data set of pictures is: labels, pictures, a few shards, links to them, a sparse index."""
    bits = random.Random(count)
    data = bits.randbytes(4 * MIB)
    for number in range(count):
        folder = place / f"class{number % 40:02}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.json").write_bytes(data[number : number + 300 + number % 500])
        size = min(int(bits.lognormvariate(10.5, 0.8)), MIB)
        (folder / f"{number}.jpg").write_bytes(data[number : number + size])
        if number % 20 == 0:
            (folder / f"{number}.link").symlink_to(f"{number}.jpg")
        if number % 50 == 0:
            (folder / f"{number}.same").hardlink_to(folder / f"{number}.jpg")
    (place / "shards").mkdir()
    for shard in range(4):
        with open(place / "shards" / f"{shard}.tar", "wb") as file:
            for _ in range(max(count // 625, 1)):
                file.write(data)
    with open(place / "index.bin", "wb") as file:
        for block in range(8):
            file.seek(block * count * 16 * KIB)
            file.write(data[:MIB])
        file.truncate(count * 128 * KIB)


@dataclass(frozen=True)
class Tree:
    """`bytes` and `files`: about how much room a copy needs, by a copier that fills holes."""

    make: Callable[[Path], None]
    files: int
    bytes: int


def trees(scale: int) -> dict[str, Tree]:
    """`scale`: what all numbers of files are divided by."""

    def files(count: int, size: int, directories: int) -> Tree:
        count, directories = max(count // scale, 1), -(-directories // scale)
        made = max(size, 4 * KIB)
        return Tree(lambda place: _files(place, count, size, directories), count, count * made)

    one, mixed = 2 * GIB // scale, 10_000 // scale
    return {
        "50,000 x 4 KB": files(50_000, 4_096, 0),
        "50,000 x 4 KB in 500 directories": files(50_000, 4_096, 500),
        "20,000 x 100 KB": files(20_000, 100_000, 100),
        "200 x 8 MB": files(200, 8_000_000, 1),
        "one of 2 GiB": Tree(lambda place: _one(place, one), 1, one),
        "a mixture": Tree(lambda place: _mixture(place, mixed), mixed * 2, mixed * 220 * KIB + 32 * MIB),
        # Only by `--only`: what a million costs is one round of its own.
        "250,000 x 1 byte": files(250_000, 1, 500),
        "1,000,000 x 1 byte": files(1_000_000, 1, 2_000),
    }


# The file systems


class Place:
    """A mounted file system with a tree in it, made when it is first needed. A context manager: unmounts."""

    def __init__(self, file_system: str, folder: Path, size: int, tree: Tree) -> None:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        most = int(memory * TMPFS_PART) if file_system == "tmpfs" else size
        self._kind, self._size, self._tree = file_system, min(size, most), tree
        self._image, self._mount = folder / f"{file_system}.img", folder / file_system
        self._mounted = False
        self._made = 0

    @property
    def source(self) -> Path:
        return self._mount / "source"

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        # What was ended at work in it may not have gone yet.
        self._clear("--lazy")

    def fresh(self) -> Path:
        """A path for the next copy, in a new directory, on a file system with room and nothing to write."""
        if not self._has_room():
            self._make()
        os.sync()
        self._made += 1
        place = self._mount / f"run{self._made}"
        place.mkdir()
        return place / "copy"

    def _has_room(self) -> bool:
        if not self._mounted:
            return False
        free = os.statvfs(self._mount)
        files = self._tree.files * 11 // 10 + 1_000
        needed = self._tree.bytes + files * PER_FILE_BYTES + SPARE_BYTES
        return free.f_bavail * free.f_frsize > needed and (free.f_files == 0 or free.f_favail > files)

    def _make(self) -> None:
        self._clear()
        self._mount.mkdir(exist_ok=True)
        if self._kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", f"size={self._size},nr_inodes=0", "tmpfs", str(self._mount))
        else:
            with open(self._image, "wb") as image:
                image.truncate(self._size)
            _run(*MAKE[self._kind], str(self._image))
            device = _run("losetup", "--find", "--show", "--direct-io=on", str(self._image)).strip()
            try:
                _run("mount", device, str(self._mount))
            finally:
                # Goes with the mount.
                _run("losetup", "--detach", device)
        self._mounted, self._made = True, 0
        if self._tree.files:
            self.source.mkdir()
            self._tree.make(self.source)
        if not self._has_room():
            raise SystemExit(
                f"{self._kind}: a copy has no room in {self._size / GIB:.1f} GiB: --size is more"
            )

    def _clear(self, *options: str) -> None:
        if self._mounted:
            _run("umount", *options, str(self._mount))
            self._mounted = False
        self._image.unlink(missing_ok=True)


NOTHING = Tree(lambda place: None, 0, 0)


def room_for(tree: Tree) -> Tree:
    """For a file system that has copies of a tree, and not the tree."""
    return Tree(NOTHING.make, 0, tree.bytes + tree.files * PER_FILE_BYTES)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def missing(file_system: str) -> str | None:
    """Why a file system cannot be had here, or None."""
    if os.geteuid() != 0:
        return "only root can mount"
    if file_system == "tmpfs":
        return None
    known = Path("/proc/filesystems").read_text().split()
    if file_system not in known:
        subprocess.run(["modprobe", "-q", file_system], check=False)
        known = Path("/proc/filesystems").read_text().split()
    return None if file_system in known else "the kernel does not know it"


def files(tree: Path) -> Iterator[Path]:
    return (path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
