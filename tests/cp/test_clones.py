"""Which files share their blocks with the source (--reflink=auto), on the file systems that can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from capabilities import needs
from cp_helpers import Runner, proactor_command
from seccomp import FILTER, IOCTL

pytest_plugins = ["cp_fixtures"]

MIB = 1 << 20
FICLONERANGE = 0x4020940D
SHORT, LONG = (300, 4_096, 10_000), (16_384, 100_000)


@pytest.fixture(
    params=[
        pytest.param(("btrfs", 128 * MIB), id="btrfs", marks=needs("root", "btrfs quota")),
        pytest.param(("xfs", 300 * MIB), id="xfs", marks=needs("root", "xfs mount")),
    ]
)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A file system's name, and one that is mounted."""
    name, size_bytes = request.param
    image, place = tmp_path / "image", tmp_path / "disk"
    image.touch()
    os.truncate(image, size_bytes)
    subprocess.run([f"mkfs.{name}", "-q", image], check=True)
    place.mkdir()
    subprocess.run(["mount", "-o", "loop", image, place], check=True)
    try:
        yield name, place
    finally:
        subprocess.run(["umount", place], check=True)


def shared_bytes(runner: Runner, place: Path, *args: str) -> int:
    """How much was not copied; the report accounts for the rest as well."""
    done = runner.proactor(place, "cp", "--json", *args)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout.splitlines()[-1])
    shared: int = report["shared_bytes"]
    total = sum(path.stat().st_size for path in (place / args[-1]).rglob("*") if path.is_file())
    total = total or (place / args[-1]).stat().st_size
    assert report["bytes"] + shared == total
    return shared


@pytest.mark.parametrize("size", SHORT + LONG)
def test_by_length(runner: Runner, disk: tuple[str, Path], size: int) -> None:
    """Nobody looks at whether a file that is named by itself is in memory."""
    name, place = disk
    (place / "file").write_bytes(os.urandom(size))
    expected = size if name == "btrfs" or size in LONG else 0
    assert shared_bytes(runner, place, "file", "auto") == expected
    assert shared_bytes(runner, place, "--reflink=never", "file", "never") == 0
    assert shared_bytes(runner, place, "--reflink=always", "file", "always") == size
    for copy in ("auto", "never", "always"):
        assert (place / copy).read_bytes() == (place / "file").read_bytes()


@pytest.mark.parametrize("engine", ["auto", "threads", pytest.param("uring", marks=needs("io_uring"))])
@pytest.mark.parametrize("length", [700, 20_000])
def test_a_tree_that_is_not_in_memory(
    runner: Runner, disk: tuple[str, Path], engine: str, length: int
) -> None:
    """Short files are copied until it is noticed, and no longer read from then on."""
    _, place = disk
    for number in range(600):
        path = place / "tree" / f"{number % 3}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(number.to_bytes(2, "big") * (length + number))
    subprocess.run(["sync", "-f", place], check=True)
    for path in (place / "tree").rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    shared = shared_bytes(runner, place, "-r", f"--engine={engine}", "tree", "copy")
    if length >= LONG[0]:
        assert shared == sum(2 * (length + number) for number in range(600))
    for path in (place / "tree").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (place / "copy" / path.relative_to(place / "tree")).read_bytes()


# Appends to a file whenever a command is about to share blocks.
GROWING = (
    FILTER
    + f"""
import subprocess, sys
def grow():
    with open(sys.argv[1], "ab") as file:
        file.write(b"more" * 5_000)
watch({IOCTL}, {FICLONERANGE}, grow)
sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""
)


@needs("seccomp notification")
@pytest.mark.parametrize("size", [65_536, 70_000])
@pytest.mark.parametrize("options", [(), ("--verify",), ("--reflink=always",), ("--in-place",)])
def test_a_file_that_grows_before_it_is_shared(
    disk: tuple[str, Path], size: int, options: tuple[str, ...]
) -> None:
    """It has the length that it had when it was opened. Parts of a block are shared only if they must be."""
    place = disk[1]
    contents = os.urandom(size)
    (place / "file").write_bytes(contents)
    command = proactor_command("cp", "--json", *options, "file", "copy")
    done = subprocess.run(
        [sys.executable, "-c", GROWING, "file", *command], cwd=place, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "proactor cp: warning: 'file' grew while it was read\n"
    assert (place / "copy").read_bytes() == contents
    report = json.loads(done.stdout.splitlines()[-1])
    is_shared = size % 4_096 == 0 or "--reflink=always" in options
    assert (report["bytes"], report["shared_bytes"]) == ((0, size) if is_shared else (size, 0))
