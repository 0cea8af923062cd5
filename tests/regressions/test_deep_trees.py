"""Trees that are deeper than `rmtree` keeps directories open.

Users saw 100 removals at once fail with "Too many open files", since each kept one descriptor a level
(test_descriptor_limit.py), and so did temporary directories. What is closed meanwhile and opened again has
to be the same directory.
"""

from __future__ import annotations

import gc
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import proactor.os
import proactor.shutil
import proactor.tempfile
import pytest
from capabilities import needs
from conftest import Run


def deep(path: Path, levels: int) -> Path:
    for number in range(levels):
        path = path / f"level{number}"
    path.mkdir(parents=True)
    (path / "file").touch()
    return path


@pytest.mark.parametrize("is_ignored", [False, True])
def test_a_tree_that_is_moved_while_it_is_removed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_ignored: bool
) -> None:
    """Directories that were closed are opened by their names; what is not there any more is not followed."""
    lowest = deep(tmp_path / "top", 6)
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    unlink = os.unlink

    def moving(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        # All above level2 stays where it is, and level1 becomes another directory.
        (tmp_path / "top/level0/level1/level2").rename(outside / "level2")
        (tmp_path / "top/level0/level1").rename(outside / "level1")
        (tmp_path / "top/level0/level1").mkdir()

    assert lowest.exists()
    monkeypatch.setattr(os, "unlink", moving)

    async def main() -> None:
        before = os.listdir("/proc/self/fd")
        await proactor.shutil.rmtree(tmp_path / "top", ignore_errors=is_ignored)
        assert len(os.listdir("/proc/self/fd")) == len(before)

    if is_ignored:
        run(main())
    else:
        with pytest.raises(FileNotFoundError) as caught:
            run(main())
        assert caught.value.filename == os.fspath(tmp_path / "top/level0/level1")
    assert (outside / "kept").exists()
    assert (outside / "level1").exists()
    assert (tmp_path / "top/level0/level1").exists()


def test_a_subtree_that_is_moved_does_not_stop_the_rest(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep(tmp_path / "top", 6)
    (tmp_path / "elsewhere").mkdir()
    unlink = os.unlink

    def moving(name: str, *, dir_fd: int) -> None:
        unlink(name, dir_fd=dir_fd)
        (tmp_path / "top/level0/level1/level2").rename(tmp_path / "elsewhere/level2")

    monkeypatch.setattr(os, "unlink", moving)
    run(proactor.shutil.rmtree(tmp_path / "top"))
    assert os.listdir(tmp_path / "elsewhere") == ["level2"]
    assert not (tmp_path / "top").exists()


# More than there are descriptors.
LEVELS = 80


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Numbers are given from the lowest on.
    least = os.dup(0)
    os.close(least)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(least, 64) + 8, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("in_bytes", [False, True])
def test_a_temporary_directory(run: Run, tmp_path: Path, few_descriptors: None, in_bytes: bool) -> None:
    async def main() -> None:
        folder = os.fsencode(tmp_path) if in_bytes else tmp_path
        async with proactor.tempfile.TemporaryDirectory(dir=folder) as name:
            deep(Path(os.fsdecode(name)), LEVELS)

    run(main())
    assert os.listdir(tmp_path) == []


def test_a_forgotten_temporary_directory(run: Run, tmp_path: Path, few_descriptors: None) -> None:
    async def main() -> None:
        made = await proactor.tempfile.TemporaryDirectory(dir=tmp_path)
        deep(Path(made.name), LEVELS)

    def forget() -> None:
        run(main())
        gc.collect()

    with pytest.warns(ResourceWarning, match="Implicitly cleaning up"):
        forget()
    assert os.listdir(tmp_path) == []


def test_fwalk_keeps_what_the_standard_library_keeps(run: Run, tmp_path: Path) -> None:
    """A descriptor a level: each directory is opened in the one above it."""
    deep(tmp_path, 5)

    def open_now() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def main() -> list[int]:
        before = open_now()
        return [open_now() - before async for _ in proactor.os.fwalk(tmp_path)]

    assert run(main()) == [1, 2, 3, 4, 5, 6]


@pytest.fixture
def without_kinds(tmp_path: Path) -> Iterator[Path]:
    """A file system whose directories do not say of what kind an entry is."""
    image, root = tmp_path / "image", tmp_path / "root"
    root.mkdir()
    image.touch()
    os.truncate(image, 4 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^filetype", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, root], check=True)
    try:
        yield root
    finally:
        subprocess.run(["umount", root], check=True)


@needs("root", "loop device")
def test_kinds_are_asked_for_while_a_directory_is_open(run: Run, without_kinds: Path) -> None:
    top = without_kinds / "top"
    for number in range(4):
        deep(top / f"first{number}", 5)
        deep(top / f"first{number}/second", 5)
    run(proactor.shutil.rmtree(top))
    assert not top.exists()
