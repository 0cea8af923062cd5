"""Trees that are deeper than `rmtree` keeps directories open.

Users saw 100 removals at once fail with "Too many open files", since each kept one descriptor a level
(test_descriptor_limit.py). What is closed meanwhile and opened again has to be the same directory.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import proactor.shutil
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
