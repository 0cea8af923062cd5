"""Where ext4 puts what several threads create: each thread's directories in block groups of their own, and
nothing stays of how that is done."""

from __future__ import annotations

import array
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from capabilities import needs
from cp_helpers import DEADLINE_S, Ours, proactor_command, snapshot, wait_until

pytest_plugins = ["cp_fixtures"]
pytestmark = needs("root", "loop device", "files without labels")

FS_IOC_GETFLAGS = 0x8008_6601
FS_TOPDIR_FL = 0x0002_0000
# Newer architectures share a number.
PPOLL = {"x86_64": 271, "i686": 309, "ppc64le": 281, "s390x": 302}.get(os.uname().machine, 73)
# As old as a source may be: a copy's own time is another.
OLD_S = 1_500_000_000
# What 64 files were finished is written down, for who goes on.
DIRECTORIES = 100
# Small groups: this many are a flexible one, and the disk has eight of those.
GROUPS = 4


@pytest.fixture(scope="module")
def ext4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A disk with many block groups, and how many inodes a flexible group has."""
    place = tmp_path_factory.mktemp("groups")
    image, root = place / "image", place / "ext4"
    root.mkdir()
    image.touch()
    os.truncate(image, 256 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-b", "1024", "-G", str(GROUPS), image], check=True)
    head = subprocess.run(["dumpe2fs", "-h", image], check=True, capture_output=True, text=True).stdout
    found = re.search(r"Inodes per group: +(\d+)", head)
    assert found
    subprocess.run(["mount", "-o", "loop", image, root], check=True)
    try:
        yield root, GROUPS * int(found[1])
    finally:
        subprocess.run(["umount", root], check=True)


@pytest.fixture
def place(ext4: tuple[Path, int]) -> Iterator[Path]:
    """Has a tree of two halves. Each thread waits for a half's FIFO before it sees the directories there."""
    root = ext4[0] / "test"
    for half in ("a", "b"):
        for number in range(DIRECTORIES):
            (root / "s" / half / f"{number}" / "below").mkdir(parents=True)
            (root / "s" / half / f"{number}" / "below" / "file").write_text(f"{number}\n")
        os.mkfifo(root / "s" / half / "fifo")
    os.utime(root / "s", (OLD_S, OLD_S))
    yield root
    shutil.rmtree(root)


def waiting_for(process: subprocess.Popen[str]) -> dict[bool, Path]:
    """The directories whose FIFOs have no writer yet: that of the first thread, and the other's."""
    found = {}
    with open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
        for task in Path(f"/proc/{process.pid}/task").iterdir():
            number, first, *_ = [*(task / "syscall").read_text().split(), "0"]
            if number != str(PPOLL):
                continue
            memory.seek(int(first, 0))
            fd = Path(f"/proc/{process.pid}/fd/{int.from_bytes(memory.read(4), sys.byteorder)}")
            if fd.is_symlink() and (directory := fd.readlink().parent).name in ("a", "b"):
                found[task.name == str(process.pid)] = directory
    return found


@contextmanager
def begun(
    place: Path, umask: int = 0o022, options: Sequence[str] = (), unfinished: str = "t.partial-*"
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """The command, when its second thread has copied a half of the tree; and the other half's FIFO."""
    with subprocess.Popen(
        proactor_command("cp", "-a", "--copy-contents", "--jobs=2", *options, "s", "t"),
        cwd=place,
        text=True,
        stderr=subprocess.PIPE,
        umask=umask,
    ) as process:
        try:
            wait_until(lambda: len(waiting_for(process)) == 2, process)
            halves = waiting_for(process)
            (halves[False] / "fifo").write_text("from a FIFO\n")
            done = f"{unfinished}/{halves[False].name}/*/below/file"
            wait_until(lambda: len(list(place.glob(done))) == DIRECTORIES, process)
            yield process, halves[True] / "fifo"
        finally:
            process.kill()


def end(process: subprocess.Popen[str], fifo: Path) -> tuple[int, str]:
    fifo.write_text("from a FIFO\n")
    _, said = process.communicate(timeout=DEADLINE_S)
    return process.returncode, said


def nurseries(place: Path) -> list[Path]:
    return list(place.glob("t.partial-*/*.partial-*"))


def flags(path: Path) -> int:
    found = array.array("l", [0])
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, found)
    finally:
        os.close(fd)
    return found[0]


def check_same(place: Path) -> None:
    """But for the FIFOs, whose contents were copied."""
    left, right = snapshot(place / "s"), snapshot(place / "t")
    for half in ("a", "b"):
        assert (place / "t" / half / "fifo").read_text() == "from a FIFO\n"
        del left[f"{half}/fifo"], right[f"{half}/fifo"]
    assert left == right
    assert (place / "t").stat().st_mtime == OLD_S
    assert sorted(os.listdir(place)) == ["s", "t"]


@pytest.mark.parametrize("umask", [0o022, 0o777])
def test_a_thread_has_groups_of_its_own(place: Path, ext4: tuple[Path, int], umask: int) -> None:
    def groups(what: str) -> Counter[int]:
        return Counter(path.stat().st_ino // ext4[1] for path in place.glob(what))

    with begun(place, umask) as (process, fifo):
        (nursery,) = nurseries(place)
        assert not list(nursery.iterdir())
        assert end(process, fifo) == (0, "")
    second = "b" if fifo.parent.name == "a" else "a"
    (top,) = groups("t")
    directories = groups(f"t/{second}/*/")
    assert len(directories) == 2
    # But for the first few.
    assert directories[top] < 4
    assert set(groups(f"t/{second}/*/below/file")) <= set(directories)
    assert not any(flags(path) & FS_TOPDIR_FL for path in (place / "t").rglob("*") if path.is_dir())
    check_same(place)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_one_that_was_left_is_removed(cp: Ours, place: Path, number: signal.Signals) -> None:
    with begun(place) as (process, _):
        (nursery,) = nurseries(place)
        # As if it had been killed between two calls.
        (nursery / "half").mkdir()
        process.send_signal(number)
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert nurseries(place) == [nursery]
    for half in ("a", "b"):
        (place / "s" / half / "fifo").unlink()
        (place / "s" / half / "fifo").write_text("from a FIFO\n")
    outcome = cp("-a", "--copy-contents", "--resume", f"{place}/s", f"{place}/t")
    assert (outcome.status, outcome.stderr) == (0, [])
    check_same(place)


def test_one_that_stays_is_told(place: Path) -> None:
    with begun(place) as (process, fifo):
        (nursery,) = nurseries(place)
        (nursery / "another's").mkdir()
        status, said = end(process, fifo)
    assert status == 1
    assert said == f"proactor cp: cannot remove 't/{nursery.name}': Directory not empty\n"
    assert (place / "t" / nursery.name / "another's").is_dir()


@pytest.mark.parametrize("option", ["--in-place", "--preserve=flags"])
def test_some_trees_have_none(place: Path, option: str) -> None:
    """What others see, and what gets flags."""
    unfinished = "t" if option == "--in-place" else "t.partial-*"
    with begun(place, options=[option], unfinished=unfinished) as (process, fifo):
        assert not list(place.glob(f"{unfinished}/*.partial-*"))
        assert end(process, fifo) == (0, "")
    check_same(place)
