"""Fifos, sockets, devices, other file systems, and files that are not what their size says."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from collections.abc import Iterator
from io import BufferedWriter
from pathlib import Path

import arrangements
import pytest
from capabilities import needs
from cp_helpers import DEADLINE_S, Ours, Same, proactor_command

pytest_plugins = ["cp_fixtures"]


@pytest.mark.parametrize("how", ["-r", "-a", "-rp", "-rl", "-rv", "-rL"])
def test_fifo_and_socket_in_a_tree(same: Same, how: str) -> None:
    same(arrangements.special, how, "s", "new")


@pytest.mark.parametrize("how", ["-a", "-l", "-d -r", "-s"])
def test_fifo_itself(same: Same, how: str) -> None:
    same(arrangements.special, *how.split(), "s/fifo", "new")


@needs("root")
@pytest.mark.parametrize("how", ["-r", "-a", "-rp"])
def test_devices(same: Same, how: str) -> None:
    def devices(root: Path) -> None:
        (root / "s").mkdir()
        os.mknod(root / "s" / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(root / "s" / "disk", stat.S_IFBLK | 0o640, os.makedev(259, 200))

    same(devices, how, "s", "new")


@needs("root")
def test_contents_of_a_device(same: Same) -> None:
    def devices(root: Path) -> None:
        (root / "s").mkdir()
        os.mknod(root / "s" / "null", stat.S_IFCHR | 0o640, os.makedev(1, 3))

    same(devices, "-r", "--copy-contents", "s", "new")
    same(devices, "s/null", "new")
    same(devices, "-p", "s/null", "new")


def test_contents_of_a_fifo(same: Same) -> None:
    writers = []

    def written(root: Path) -> None:
        os.mkfifo(root / "fifo")
        (root / "dest").mkdir()
        writers.append(subprocess.Popen(["sh", "-c", "echo through the fifo > fifo"], cwd=root))

    try:
        outcome = same(written, "fifo", "new")
        assert outcome.tree["new"]["content"] == (17, [(0, b"through the fifo\n")])
        same(written, "-r", "--copy-contents", "fifo", "new")
        same(written, "fifo", "dest")
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()


@pytest.mark.parametrize(
    "arguments",
    ["-n fifo old", "-u fifo young", "fifo fifo", "fifo dir/..", "-fl fifo old", "fifo full"],
)
def test_a_fifo_that_is_not_needed(same: Same, arguments: str) -> None:
    """It has no writer, and nobody waits for one."""

    def idle(root: Path) -> None:
        os.mkfifo(root / "fifo")
        (root / "full" / "fifo").mkdir(parents=True)
        (root / "dir").mkdir()
        for name in ("old", "young"):
            (root / name).write_text(name)
        os.utime(root / "fifo", (1e9, 1e9))

    same(idle, *arguments.split())


def test_attributes_of_a_fifo(cp: Ours) -> None:
    """GNU's waits, and reads nothing then."""
    os.mkfifo(cp.directory / "fifo", 0o640)
    outcome = cp("-p", "--attributes-only", "fifo", "new")
    assert outcome.status == 0
    assert outcome.tree["new"]["content"] == (0, [])


def test_through_two_fifos(cp: Ours) -> None:
    """The target is opened when the source has a writer, before that has written; more than a pipe holds."""
    for name in ("from", "to"):
        os.mkfifo(cp.directory / name)
    contents = os.urandom(1 << 20)

    def feed(writer: BufferedWriter) -> None:
        writer.write(contents)
        writer.close()

    # Opening waits for the copy.
    with (
        subprocess.Popen(proactor_command("cp", "from", "to"), cwd=cp.directory) as copy,
        open(cp.directory / "from", "wb") as writer,
        open(cp.directory / "to", "rb") as reader,
    ):
        feeder = threading.Thread(target=feed, args=(writer,))
        feeder.start()
        assert reader.read() == contents
        feeder.join()
        assert copy.wait(DEADLINE_S) == 0


def test_into_a_fifo(cp: Ours) -> None:
    os.mkfifo(cp.directory / "fifo")
    (cp.directory / "a").write_text("through the fifo\n")
    with subprocess.Popen(["cat", "fifo"], cwd=cp.directory, stdout=subprocess.PIPE) as reader:
        outcome = cp("a", "fifo")
        assert reader.stdout is not None
        assert reader.stdout.read() == b"through the fifo\n"
    assert (outcome.status, outcome.stderr) == (0, [])
    assert stat.S_ISFIFO(outcome.tree["fifo"]["type"])


@pytest.mark.parametrize("how", ["", "-p", "-v", "--sparse=always", "--reflink=auto"])
def test_file_that_says_it_is_empty(same: Same, how: str) -> None:
    """As all of /proc: it is read to its end."""
    outcome = same(arrangements.files, *how.split(), "/proc/sys/kernel/ostype", "new")
    assert outcome.tree["new"]["content"] == (6, [(0, b"Linux\n")])


@pytest.mark.parametrize("how", ["", "--in-place", "-f"])
def test_target_that_knows_no_offsets(cp: Ours, how: str) -> None:
    """A plain file all the same: the name of the process that writes it."""
    arrangements.files(cp.directory)
    outcome = cp(*how.split(), "a", "/proc/self/comm")
    assert (outcome.status, outcome.stderr) == (0, [])


def test_unreadable_file_of_a_tree(same: Same) -> None:
    """/proc/self/mem fails at its first byte, whoever reads it: the rest goes on."""
    same.saying(arrangements.files, "/proc/self/mem", "a", "d")


@pytest.fixture
def mounts() -> Iterator[list[Path]]:
    places: list[Path] = []
    yield places
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


@needs("tmpfs mount")
@pytest.mark.parametrize("how", ["", "-p", "-f"])
def test_file_that_is_mounted_where_nothing_can_be_made(same: Same, mounts: list[Path], how: str) -> None:
    """As /etc/hosts in a container whose root is read-only."""

    def mounted(root: Path) -> None:
        place = root / "place"
        place.mkdir()
        (root / "new").write_text("new\n")
        (root / "old").write_text("old\n")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(place)], check=True)
        (place / "file").touch()
        subprocess.run(["mount", "--bind", str(root / "old"), str(place / "file")], check=True)
        mounts[:0] = [place / "file", place]

    def closed(root: Path) -> None:
        subprocess.run(["mount", "-o", "remount,ro", str(root / "place")], check=True)

    outcome = same(mounted, *how.split(), "new", "place/file", after=closed)
    assert outcome.status == 0
    assert outcome.tree["place/file"]["content"] == (4, [(0, b"new\n")])


@needs("tmpfs mount")
@pytest.mark.parametrize("how", ["-r", "-rx", "-ax", "-a", "-r --one-file-system"])
def test_other_file_system_in_a_tree(same: Same, mounts: list[Path], how: str) -> None:
    def mounted(root: Path) -> None:
        place = root / "s" / "mounted"
        place.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=750", "tmpfs", str(place)], check=True)
        mounts.append(place)
        (place / "file").write_text("on another file system\n")
        (root / "s" / "file").write_text("file\n")

    same(mounted, *how.split(), "s", "new")


@pytest.mark.parametrize("how", ["-rH", "-rL", "-rLf", "-rP", "-r", "-rLb", "-rL --remove-destination"])
@pytest.mark.parametrize("what", ["fifo", "link"])
def test_it_takes_the_place_of_a_file_where_gnu_lets_it(same: Same, how: str, what: str) -> None:
    def both_there(root: Path) -> None:
        for name in ("S", "D"):
            (root / name).mkdir()
        os.mkfifo(root / "S" / "fifo")
        (root / "S" / "link").symlink_to("fifo")
        for name in ("fifo", "link"):
            (root / "D" / name).write_text(name)

    source = f"S/{what}" if what == "fifo" else "S/."
    same(both_there, *how.split(), source, "D")
