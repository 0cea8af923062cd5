"""Filters of old container hosts refuse newer system calls with EPERM, and files seemed not to exist there.

`exists` said False, `stat` and reading failed. The older calls are used instead, as with ENOSYS.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import needs
from seccomp import FILTER, NEWER, PRLIMIT64

PROGRAM = (
    FILTER
    + """
import sys
engine, directory, *numbers = sys.argv[1:]
for number in numbers:
    errno_, number = number.split(":")
    deny(int(errno_), int(number))

import asyncio, os
os.chdir(directory)
os.environ["PROACTOR_ENGINE"] = engine
import proactor

async def main():
    data = bytes(range(256)) * 600
    await proactor.write_bytes("file", data)
    assert await proactor.read_bytes("file") == data
    assert await proactor.os.path.exists("file")
    assert not await proactor.os.path.exists("missing")
    assert await proactor.Path("file").is_file()
    assert await proactor.Path("link").is_symlink()
    mine, theirs = await proactor.os.stat("file"), os.stat("file")
    for name in ("mode", "ino", "dev", "nlink", "uid", "gid", "size", "mtime_ns", "atime_ns", "ctime_ns"):
        assert getattr(mine, f"st_{name}") == getattr(theirs, f"st_{name}"), name
    assert (await proactor.os.lstat("link")).st_ino == os.lstat("link").st_ino
    async with proactor.open("file", "r+b") as file:
        assert await file.read() == data
        assert await file.pread(10, 300) == data[300:310]
        assert await file.pwrite(b"abc", 0) == 3
        await file.seek(0)
        await file.write(b"xyz")
    assert await proactor.read_bytes("file") == b"xyz" + data[3:]
    async with proactor.open("file", "rb") as source, proactor.open("copy", "w+b") as target:
        assert await source.copy_range(target, 1000) == 1000
    assert await proactor.read_bytes("copy") == (b"xyz" + data[3:])[:1000]
    await proactor.os.rename("copy", "renamed")
    assert sorted(await proactor.os.listdir(".")) == ["file", "link", "renamed"]
    assert [data async for _, data in proactor.read_many(["renamed"])] == [(b"xyz" + data[3:])[:1000]]
    await proactor.os.mkdir("tree")
    await proactor.shutil.copy2("file", "tree/file")
    await proactor.copy("tree", "copied")
    assert await proactor.read_bytes("copied/file") == await proactor.read_bytes("file")
    assert os.stat("copied/file").st_size == len(data)
    await proactor.shutil.rmtree("tree")
    assert engine in proactor.engines()

asyncio.run(main())
"""
)


@needs("seccomp filter")
@pytest.mark.parametrize(
    ("refusal", "calls"),
    [(errno.ENOSYS, "all"), (errno.EPERM, "all"), *((errno.EPERM, call) for call in NEWER)],
)
def test_newer_calls_are_refused(tmp_path: Path, engine: str, calls: str, refusal: int) -> None:
    os.symlink("file", tmp_path / "link")
    numbers = NEWER.values() if calls == "all" else [NEWER[calls]]
    filters = [f"{refusal}:{number}" for number in numbers]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, engine, str(tmp_path), *filters],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


# What the command asks of its limits when it starts. systemd's `~@resources` refuses the call.
COMMAND = """
import sys
refusal, number, *command = sys.argv[1:]
deny(int(refusal), int(number))
from proactor import _native
sys.exit(_native.cli_main(command))
"""


@needs("seccomp filter")
@pytest.mark.parametrize("refusal", [errno.ENOSYS, errno.EPERM])
@pytest.mark.parametrize(
    "command",
    [
        ["cp", "-a", "source", "target"],
        ["doctor"],
        ["bench", "io", "--size=1M", "--runtime=50ms", "--engine=sync", "--rw=read"],
    ],
    ids=lambda command: command[0],
)
def test_limits_are_not_told(tmp_path: Path, refusal: int, command: list[str]) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").write_text("text")
    done = subprocess.run(
        [sys.executable, "-c", FILTER + COMMAND, str(refusal), str(PRLIMIT64), "proactor", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "panicked" not in done.stderr
    assert done.returncode == 0, done.stderr
    if command[0] == "cp":
        assert (tmp_path / "target" / "file").read_text() == "text"
