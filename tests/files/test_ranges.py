"""`fallocate`, `advise`, `copy_range` and `sendfile` of open files."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import LARGE_BYTES, MIB, content, failure, in_time, until

pytest_plugins = ["file_fixtures"]

# linux/falloc.h
KEEP_SIZE, PUNCH_HOLE = 1, 2


class TestFallocate:
    def test_space(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "file"

        async def main() -> None:
            async with proactor.open(path, "w+b", engine=engine) as file:
                assert await file.fallocate(100, MIB) is None  # type: ignore[func-returns-value]
                assert os.fstat(file.fileno()).st_size == MIB + 100
                await file.write(b"x" * 10_000)
                # What is punched out was written before.
                await file.fallocate(0, 5_000, mode=PUNCH_HOLE | KEEP_SIZE)
                assert await file.pread(10_000, 0) == bytes(5_000) + b"x" * 5_000
                await file.seek(0)
                assert await file.read(10) == bytes(10)
                await file.fallocate(0, 4 * MIB, mode=KEEP_SIZE)
                assert os.fstat(file.fileno()).st_size == MIB + 100

        run(main())

    def test_errors(self, run: Run, path: Path) -> None:
        async def allocate(offset: int, length: int) -> None:
            async with proactor.open(path, "r+b") as file:
                await file.fallocate(offset, length)

        for offset, length, number in [(0, 0, errno.EINVAL), (1 << 62, 1 << 62, errno.EFBIG)]:
            error = failure(run, lambda o=offset, n=length: allocate(o, n))  # type: ignore[misc]
            assert (error.errno, error.filename) == (number, str(path))

        async def main() -> None:
            async with proactor.open(path, "r+b") as file:
                with pytest.raises(OSError, match="Invalid argument"):
                    file.fallocate(-1, 1)  # type: ignore[unused-coroutine]
            async with proactor.open(path, "rb") as file:
                with pytest.raises(OSError, match="not writable"):
                    file.fallocate(0, 1)  # type: ignore[unused-coroutine]

        run(main())


class TestAdvise:
    def test_every_advice(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "rb", engine=engine) as file:
                for name in ("NORMAL", "SEQUENTIAL", "RANDOM", "NOREUSE", "WILLNEED", "DONTNEED"):
                    await file.advise(getattr(os, f"POSIX_FADV_{name}"))
                    await file.advise(getattr(os, f"POSIX_FADV_{name}"), 5, 1 << 40)
                assert await file.read(3) == content(3)

        run(main())

    def test_errors(self, run: Run, path: Path) -> None:
        async def advise() -> None:
            async with proactor.open(path, "rb") as file:
                await file.advise(99)

        error = failure(run, advise)
        assert (error.errno, error.filename) == (errno.EINVAL, str(path))


class TestCopyRange:
    def test_between_files(self, run: Run, engine: str, large: Path, tmp_path: Path) -> None:
        target = tmp_path / "target"

        async def main() -> None:
            async with (
                proactor.open(large, "rb", engine=engine) as src,
                proactor.open(target, "w+b", engine=engine) as dst,
            ):
                assert await src.copy_range(dst, 1 << 40) == LARGE_BYTES
                assert await src.copy_range(dst, 100, offset_src=7, offset_dst=LARGE_BYTES) == 100
                assert await src.copy_range(dst, 100, LARGE_BYTES - 10, 0) == 10
                assert await src.copy_range(dst, 100, LARGE_BYTES) == 0
                assert (await src.tell(), await dst.tell()) == (0, 0)

        run(main())
        expected = content(LARGE_BYTES) + content(107)[7:]
        assert target.read_bytes() == expected[LARGE_BYTES - 10 : LARGE_BYTES] + expected[10:]

    def test_after_what_was_written_to_either(self, run: Run, engine: str, tmp_path: Path) -> None:
        """Bytes that only the buffers have are copied, and not written over those that are copied."""

        async def main() -> None:
            async with (
                proactor.open(tmp_path / "source", "w+b", engine=engine) as src,
                proactor.open(tmp_path / "target", "w+b", engine=engine) as dst,
            ):
                await src.write(b"source")
                await dst.write(b"target")
                assert await src.copy_range(dst, 3, 1, 2) == 3
                assert await dst.pread(10, 0) == b"taourt"

        run(main())
        assert (tmp_path / "target").read_bytes() == b"taourt"

    def test_closed_while_it_waits(self, run: Run, engine: str, path: Path, tmp_path: Path) -> None:
        """For the flush of the target, whose limiter somebody else has."""

        async def main() -> None:
            limiter = asyncio.Semaphore(1)
            src = await proactor.open(path, "rb", engine=engine)
            async with proactor.open(tmp_path / "target", "w+b", engine=engine, limiter=limiter) as dst:
                await dst.write(b"target")
                async with limiter:
                    copying = asyncio.ensure_future(src.copy_range(dst, 3))
                    await asyncio.sleep(0)
                    await src.close()
                    assert not copying.done()
                with pytest.raises(ValueError, match="closed file"):
                    await in_time(copying)

        run(main())
        assert (tmp_path / "target").read_bytes() == b"target"

    def test_with_the_buffers(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b") as file:
                assert await file.read(5) == content(5)
                await file.write(b"written")
                # Within one file, of what has just been written, to what has been read ahead.
                assert await file.copy_range(file, 7, 5, 20) == 7
                assert await file.pread(7, 20) == b"written"
                assert await file.seek(20) == 20
                assert await file.read(9) == b"written" + content(29)[27:]
                await file.copy_range(file, 3, 20, 29)
                assert await file.read(3) == b"wri"
                with pytest.raises(OSError, match="Invalid argument"):
                    await file.copy_range(file, 100, 0, 50)

        run(main())

    def test_where_the_kernel_cannot(self, run: Run, engine: str, tmp_path: Path) -> None:
        """From a file that states no size."""
        target = tmp_path / "target"

        async def main() -> None:
            async with proactor.open("/proc/filesystems", "rb", engine=engine) as src:
                fd = os.open(target, os.O_RDWR | os.O_CREAT)
                assert await src.copy_range(fd, MIB) == os.fstat(fd).st_size > 0
                os.close(fd)
            if os.path.isdir("/dev/shm"):  # noqa: ASYNC240
                name = f"/dev/shm/{tmp_path.name}-{os.getpid()}"
                async with proactor.open(target, "rb") as src, proactor.open(name, "w+b") as dst:
                    os.unlink(name)
                    assert await src.copy_range(dst, MIB) == target.stat().st_size
                    assert await dst.read() == target.read_bytes()

        run(main())
        assert target.read_bytes() == Path("/proc/filesystems").read_bytes()

    def test_errors(self, run: Run, path: Path, tmp_path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b") as file, proactor.open(path, "rb") as source:
                with pytest.raises(OSError, match="not writable"):
                    file.copy_range(source, 1)  # type: ignore[unused-coroutine]
                with pytest.raises(OSError, match="Bad file descriptor"):
                    file.copy_range(999_999, 1)  # type: ignore[unused-coroutine]
                with pytest.raises(TypeError):
                    file.copy_range("name", 1)  # type: ignore[unused-coroutine, arg-type]
                with pytest.raises(OSError, match="Invalid argument"):
                    file.copy_range(file, -1)  # type: ignore[unused-coroutine]
                fd = os.open(tmp_path, os.O_RDONLY)
                with pytest.raises(OSError, match="Is a directory") as caught:
                    await file.copy_range(fd, 5)
                os.close(fd)
                assert caught.value.filename == str(path)

        run(main())

    def test_cancelled(self, run: Run, engine: str, tmp_path: Path) -> None:
        """It stops, and what it has copied is no secret to the buffers."""
        source = tmp_path / "source"
        with source.open("wb") as file:
            file.truncate(8 << 30)

        async def main() -> None:
            async with (
                proactor.open(source, "rb", engine=engine) as src,
                proactor.open("/dev/null", "wb", engine=engine) as dst,
            ):
                task = asyncio.ensure_future(src.copy_range(dst, 8 << 30))
                await asyncio.sleep(0.01)
                assert not task.done()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        run(main())


class TestSendfile:
    @pytest.mark.parametrize("blocking", [False, True])
    def test_a_slow_peer(self, run: Run, engine: str, large: Path, blocking: bool) -> None:
        async def main() -> None:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.setblocking(blocking)
                theirs.setblocking(False)
                async with proactor.open(large, "rb", engine=engine) as file:
                    sending = asyncio.ensure_future(file.sendfile(ours, 5, 2 * MIB))
                    loop = asyncio.get_running_loop()
                    data = bytearray()
                    while len(data) < 2 * MIB:
                        data += await in_time(loop.sock_recv(theirs, 100_000))
                    assert await in_time(sending) == 2 * MIB
                    assert data == content(LARGE_BYTES)[5 : 5 + 2 * MIB]
                    assert await file.sendfile(ours.fileno(), LARGE_BYTES - 3, 100) == 3
                    assert theirs.recv(10) == content(LARGE_BYTES)[-3:]

        run(main())

    def test_cancelled(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> None:
            ours, theirs = socket.socketpair()
            with theirs:
                with ours:
                    async with proactor.open(large, "rb", engine=engine) as file:
                        with pytest.raises(asyncio.TimeoutError):
                            await asyncio.wait_for(file.sendfile(ours, 0, LARGE_BYTES), 0.01)
                # Nobody holds our end any more, once the worker has let go of it.
                theirs.setblocking(False)

                def at_end() -> bool:
                    try:
                        return theirs.recv(MIB) == b""
                    except BlockingIOError:
                        return False

                await until(at_end)

        run(main())

    def test_to_pipes_and_files(self, run: Run, engine: str, path: Path, tmp_path: Path) -> None:
        async def main() -> None:
            reader, writer = os.pipe()
            async with proactor.open(path, "r+b", engine=engine) as file:
                await file.write(b"written before")
                assert await file.sendfile(writer, 0, 20) == 20
                assert os.read(reader, 100) == b"written before" + content(20)[14:]
                with (tmp_path / "target").open("wb", buffering=0) as target:
                    target.write(b"-")
                    assert await file.sendfile(target, 0, 1 << 40) == 10_000
            async with proactor.open("/proc/filesystems", "rb", engine=engine) as file:
                assert await file.sendfile(writer, 3, 9) == 9
                assert os.read(reader, 100) == Path("/proc/filesystems").read_bytes()[3:12]  # noqa: ASYNC240
            os.close(reader)
            os.close(writer)

        run(main())
        assert (tmp_path / "target").read_bytes() == b"-written before" + content(10_000)[14:]

    def test_errors(self, run: Run, path: Path) -> None:
        async def send() -> None:
            reader, writer = os.pipe()
            os.close(reader)
            try:
                async with proactor.open(path, "rb") as file:
                    await file.sendfile(writer, 0, 5)
            finally:
                os.close(writer)

        error = failure(run, send)
        assert (error.errno, error.filename) == (errno.EPIPE, str(path))

        async def main() -> None:
            async with proactor.open(path, "rb") as file:
                with pytest.raises(OSError, match="Invalid argument"):
                    file.sendfile(1, -1, 5)  # type: ignore[unused-coroutine]
                bad: Any = "out"
                with pytest.raises(TypeError):
                    file.sendfile(bad, 0, 5)  # type: ignore[unused-coroutine]

        run(main())


@pytest.mark.parametrize(("name", "arguments"), [("copy_range", (1,)), ("sendfile", (0, 1))])
def test_what_is_no_open_descriptor(run: Run, path: Path, name: str, arguments: tuple[int, ...]) -> None:
    async def main() -> None:
        async with proactor.open(path, "r+b") as file:
            with pytest.raises(OSError, match="Bad file descriptor") as caught:
                await getattr(file, name)(1 << 30, *arguments)
            assert caught.value.errno == errno.EBADF
            with pytest.raises(ValueError, match="negative"):
                await getattr(file, name)(-1, *arguments)

    run(main())
