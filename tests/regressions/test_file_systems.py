"""Files of FUSE that are opened with direct I/O were read wrong by io_uring, without an error.

The kernel's queues return more bytes than such a file has, or none where its size is said to be 0. They are
used on file systems whose transfers are tested; all others are read by `pread` on a thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import mount_point, needs
from conftest import Run
from proactor import aio

sys.path.insert(0, os.path.dirname(__file__))


async def every_way(path: Path, engine: str, size: int) -> dict[str, Any]:
    """The file's bytes, by each way to read it."""

    async def chunks() -> bytes:
        async with proactor.open(path, "rb", engine=engine) as file:
            pieces: list[bytes] = []
            while len(pieces) < 400 and (piece := await file.read(10_000)):
                pieces.append(piece)
            return b"".join(pieces)

    async with proactor.open(path, "rb", engine=engine) as file:
        whole = await file.read()
        part = await file.pread(size + 5000, 0)
    with aio.Context(4, engine=engine) as context, path.open("rb") as opened:
        read = aio.Read(opened.fileno(), size + 5000, offset=0)
        context.submit(read)
        (event,) = context.wait(1)

        by_aio = bytes(read.buffer)[: event.check()]
    return {
        "read_bytes": await proactor.read_bytes(path, engine=engine),
        "read": whole,
        "chunks": await chunks(),
        "pread": part,
        "read_many": dict([pair async for pair in proactor.read_many([path], engine=engine)])[path],
        "aio": by_aio,
    }


@contextlib.contextmanager
def mounted(kind: str, place: Path, *options: str) -> Iterator[Path]:
    subprocess.run(["mount", "-t", kind, *options, kind, str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "served"
    place.mkdir()
    server = str(Path(__file__).with_name("fuse_server.py"))
    with subprocess.Popen([sys.executable, server, str(place)], stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 30
        while not os.path.ismount(place):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        try:
            yield place
        finally:
            process.terminate()
            process.wait()
            with contextlib.suppress(OSError):
                subprocess.run(["umount", "-l", place], stderr=subprocess.DEVNULL, check=False)


@needs("root", "FUSE")
@pytest.mark.parametrize("name", ["exact", "zero", "toobig"])
def test_fuse_with_direct_io(run: Run, engine: str, served: Path, name: str) -> None:
    data = (served / name).read_bytes()

    async def main() -> None:
        for way, found in (await every_way(served / name, engine, len(data))).items():
            assert found == data, (way, len(found))

    run(main())


@needs("root", "FUSE")
def test_short_writes_to_fuse(run: Run, engine: str, served: Path) -> None:
    data = bytes(range(256)) * 100

    async def main() -> None:
        async with proactor.open(served / "written", "wb", buffering=0, engine=engine) as file:
            count = await file.pwrite(data, 0)
            assert (served / "written").read_bytes() == data[:count]
            await file.seek(0)
            await file.write(data)
        assert (served / "written").read_bytes() == data

    run(main())


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory for an overlay's layers: over another overlay there can be none."""
    base = Path(f"/dev/shm/{os.getpid()}-{tmp_path.name}")
    try:
        for name in ("lower", "upper", "work", "merged"):
            (base / name).mkdir(parents=True)
        yield base
    finally:
        subprocess.run(["rm", "-rf", str(base)], check=True)


def overlay(base: Path, lower: Path) -> contextlib.AbstractContextManager[Path]:
    options = f"lowerdir={lower},upperdir={base}/upper,workdir={base}/work"
    return mounted("overlay", base / "merged", "-o", options)


@needs("root", "overlay mount")
def test_overlay(run: Run, engine: str, base: Path) -> None:
    data = bytes(range(256)) * 1200
    (base / "lower" / "below").write_bytes(data)

    async def main(merged: Path) -> None:
        for name, content in (("below", data), ("above", data[7:])):
            for way, found in (await every_way(merged / name, engine, len(content))).items():
                assert found == content, (name, way)

    with overlay(base, base / "lower") as merged:
        (merged / "above").write_bytes(data[7:])
        run(main(merged))


@needs("root", "FUSE", "overlay mount")
@pytest.mark.parametrize("name", ["exact", "zero", "toobig"])
def test_overlay_over_fuse(run: Run, engine: str, base: Path, served: Path, name: str) -> None:
    """The transfers of an overlay's files are those of the layer's file system."""

    async def main(path: Path, data: bytes) -> None:
        for way, found in (await every_way(path, engine, len(data))).items():
            assert found == data, (way, len(found))

    with overlay(base, served) as merged:
        run(main(merged / name, (merged / name).read_bytes()))


@pytest.mark.parametrize(
    "path",
    [
        "/proc/cpuinfo",
        "/proc/self/cmdline",
        "/proc/sys/kernel/pid_max",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ],
)
def test_files_without_a_size(run: Run, engine: str, path: str) -> None:
    read_every_way(run, engine, path)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param("cgroup2", "cgroup.controllers", marks=needs("root", "cgroup2")),
        pytest.param("cgroup2", "cgroup.max.depth", marks=needs("root", "cgroup2")),
        pytest.param("debugfs", "clear_warn_once", marks=needs("root", "debugfs")),
        pytest.param("debugfs", "sched/features", marks=needs("root", "debugfs")),
        pytest.param("tracefs", "README", marks=needs("root", "tracefs")),
        pytest.param("tracefs", "available_events", marks=needs("root", "tracefs")),
    ],
)
def test_files_of_the_kernel(run: Run, engine: str, tmp_path: Path, kind: str, name: str) -> None:
    known = mount_point(kind)
    with contextlib.nullcontext(known) if known else mounted(kind, tmp_path) as place:
        read_every_way(run, engine, str(place / name))


def read_every_way(run: Run, engine: str, path: str) -> None:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        expected = error.errno
        with pytest.raises(OSError, match=rf"\[Errno {expected}\]"):
            run(proactor.read_bytes(path, engine=engine))
        return

    async def main() -> None:
        for way, found in (await every_way(Path(path), engine, len(data))).items():
            # Clock rates change from read to read.
            if path == "/proc/cpuinfo":
                assert found.count(b"\n") == data.count(b"\n") or way in ("pread", "aio")
            elif way in ("pread", "aio"):
                # One call, of which the kernel answers as much as it likes.
                assert found
                assert data.startswith(found)
            else:
                assert found == data, way

    run(main())


def test_doctor_names_them() -> None:
    command = [sys.executable, "-m", "proactor", "doctor", "--json"]
    found = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)["file_systems"]
    assert found["proc"]["how"] == "threads"
    assert "tested" in found["proc"]["reason"]
