"""A disk that fills up while files are written to it, and has room again later."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import in_time

pytestmark = needs("root", "tmpfs mount")

SIZE_BYTES = 512 * 1024
FILLER_BYTES = 384 * 1024


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        gc.collect()
        subprocess.run(["umount", place], check=True)


@pytest.fixture
def disk(mounted: Path) -> Path:
    """A file system of half a MiB, most of which a file named `filler` has."""
    for path in mounted.iterdir():
        path.unlink()
    (mounted / "filler").write_bytes(b"x" * FILLER_BYTES)
    return mounted


def is_full(caught: pytest.ExceptionInfo[OSError], path: Path) -> bool:
    return (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))


@pytest.mark.parametrize("size", [100, 10_000, 100_000])
@pytest.mark.parametrize("mode", ["wb", "w", "ab", "r+"])
def test_nothing_that_was_taken_is_lost(run: Run, engine: str, disk: Path, mode: str, size: int) -> None:
    """What was written before a write that fails is in the file in the end, and nothing is there twice."""
    path = disk / "file"
    path.write_bytes(b"")
    pieces = [bytes([97 + at % 26]) * size for at in range(SIZE_BYTES // size)]

    async def main() -> int:
        taken = 0
        file: Any = await proactor.open(str(path), mode, engine=engine)

        async def fill() -> None:
            nonlocal taken
            for piece in pieces:
                await in_time(file.write(piece if "b" in mode else piece.decode()))
                taken += 1
            await in_time(file.flush())

        with pytest.raises(OSError, match="No space") as caught:
            await fill()
        assert is_full(caught, path)
        os.unlink(disk / "filler")
        await in_time(file.flush())
        await in_time(file.close())
        return taken

    taken = run(main())
    written = path.read_bytes()
    # The one that failed may be there in part, if it was longer than a buffer, or may have brought the
    # error of the write before it.
    assert b"".join(pieces[: taken + 1]).startswith(written)
    assert len(written) >= taken * size


def test_a_close_tells_of_it(run: Run, engine: str, disk: Path) -> None:
    path = disk / "file"

    async def main() -> None:
        (disk / "more").write_bytes(b"x" * (SIZE_BYTES - FILLER_BYTES - 4096))
        file = await proactor.open(str(path), "wb", engine=engine)
        await file.write(b"x" * 20_000)
        with pytest.raises(OSError, match="No space") as caught:
            await in_time(file.close())
        assert is_full(caught, path)
        assert file.closed

    run(main())


def test_whole_files_and_places(run: Run, engine: str, disk: Path) -> None:
    path = disk / "file"

    async def main() -> None:
        with pytest.raises(OSError, match="No space") as caught:
            await in_time(proactor.write_bytes(str(path), b"x" * SIZE_BYTES, engine=engine))
        assert is_full(caught, path)
        path.unlink()
        async with proactor.open(str(path), "wb", engine=engine) as file:
            with pytest.raises(OSError, match="No space") as caught:
                await in_time(file.pwrite(b"x" * SIZE_BYTES, 0))
            assert is_full(caught, path)
            await file.truncate(0)
            assert await file.pwrite(b"fits", 0) == 4

    run(main())
    assert path.read_bytes() == b"fits"
