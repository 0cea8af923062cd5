"""Calls of an open file that leave its position alone: `pread` and its kin."""

from __future__ import annotations

import asyncio
import errno
import io
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import (
    LARGE_BYTES,
    MIB,
    content,
    evict,
    failure,
    in_time,
    turns,
)

pytest_plugins = ["file_fixtures"]

SIZE_BYTES = 10_000


class Sync:
    """The standard library's calls on a descriptor, with our names."""

    def __init__(self, path: Path, mode: str) -> None:
        self.file = io.open(path, mode, buffering=0)  # noqa: SIM115, UP020

    async def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self.file.fileno(), size, offset)

    async def preadinto(self, buffer: Any, offset: int) -> int:
        return os.preadv(self.file.fileno(), [buffer], offset)

    async def preadv(self, buffers: Any, offset: int) -> int:
        return os.preadv(self.file.fileno(), buffers, offset)

    async def pwrite(self, data: Any, offset: int) -> int:
        return os.pwrite(self.file.fileno(), data, offset)

    async def pwritev(self, buffers: Any, offset: int) -> int:
        return os.pwritev(self.file.fileno(), buffers, offset)

    async def close(self) -> None:
        self.file.close()


@pytest.fixture(params=["os", "proactor"])
def opened(request: pytest.FixtureRequest) -> Callable[[Path, str], Awaitable[Any]]:
    """The same body on the standard library and on ours."""

    async def by_os(path: Path, mode: str) -> Any:
        return Sync(path, mode)

    async def by_proactor(path: Path, mode: str) -> Any:
        return await proactor.open(path, mode)

    return by_os if request.param == "os" else by_proactor


class TestParity:
    def test_reads(self, run: Run, path: Path, opened: Any) -> None:
        data = content(SIZE_BYTES)

        async def main() -> None:
            file = await opened(path, "rb")
            for size, offset in [(0, 0), (10, 0), (10, 9_995), (99_999, 5_000), (1, 10_000), (7, 1 << 40)]:
                assert await file.pread(size, offset) == data[offset : offset + size]
            target = bytearray(100)
            assert await file.preadinto(target, 300) == 100
            assert target == data[300:400]
            assert await file.preadinto(memoryview(target)[10:], 9_950) == 50
            assert target[10:60] == data[9_950:]
            parts = [bytearray(7), bytearray(0), bytearray(50)]
            assert await file.preadv(parts, 11) == 57
            assert b"".join(parts) == data[11:68]
            assert await file.preadv(parts, 9_999) == 1
            assert parts[0][:1] == data[-1:]
            assert await file.preadv([], 3) == 0
            await file.close()

        run(main())

    def test_writes(self, run: Run, path: Path, opened: Any) -> None:
        async def main() -> None:
            file = await opened(path, "r+b")
            assert await file.pwrite(b"abc", 5) == 3
            assert await file.pwrite(memoryview(b"-def")[1:], 20_000) == 3
            assert await file.pwrite(b"", 90_000) == 0
            assert await file.pwritev([b"12", bytearray(b"34"), b"", memoryview(b"5")], 100) == 5
            await file.close()

        run(main())
        expected = bytearray(content(SIZE_BYTES) + bytes(SIZE_BYTES) + b"def")
        expected[5:8] = b"abc"
        expected[100:105] = b"12345"
        assert path.read_bytes() == expected

    def test_appending_ignores_the_offset(self, run: Run, path: Path, opened: Any) -> None:
        async def main() -> None:
            file = await opened(path, "ab")
            assert await file.pwrite(b"end", 0) == 3
            await file.close()

        run(main())
        assert path.read_bytes() == content(SIZE_BYTES) + b"end"

    def test_errors(self, run: Run, path: Path, opened: Any) -> None:
        async def main() -> None:
            file = await opened(path, "rb")
            for bad in [(10, -1), (-1, 0)]:
                with pytest.raises((OSError, ValueError)):
                    await file.pread(*bad)
            with pytest.raises(BufferError):
                await file.preadinto(b"read-only", 0)
            with pytest.raises(TypeError):
                await file.preadv(3, 0)
            with pytest.raises(OSError):  # noqa: PT011
                await file.pwrite(b"x", 0)
            await file.close()
            with pytest.raises(ValueError, match="closed file"):
                await file.pread(1, 0)
            file = await opened(path, "wb")
            with pytest.raises(OSError):  # noqa: PT011
                await file.pread(1, 0)
            with pytest.raises(TypeError):
                await file.pwrite("text", 0)
            await file.close()

        run(main())

    def test_a_pipe(self, run: Run) -> None:
        reader, writer = os.pipe()
        os.close(writer)

        async def read() -> None:
            async with proactor.open(reader, "rb") as file:
                await file.pread(1, 0)

        error = failure(run, read)
        assert (error.errno, error.filename) == (errno.ESPIPE, reader)


class TestReading:
    def test_each_engine(self, run: Run, engine: str, large: Path) -> None:
        data = content(LARGE_BYTES)

        async def main() -> None:
            async with proactor.open(large, "rb", engine=engine) as file:
                assert await file.pread(LARGE_BYTES, 0) == data
                assert await file.pread(1 << 40, 1000) == data[1000:]
                assert await file.pread(2 * MIB, 1 << 40) == b""
                parts = [bytearray(MIB + 3), bytearray(2 * MIB)]
                assert await file.preadv(parts, 17) == 3 * MIB + 3
                assert b"".join(parts) == data[17 : 17 + 3 * MIB + 3]
                many = [bytearray(3) for _ in range(5_000)]
                assert await file.preadv(many, 5) == 15_000
                assert b"".join(many) == data[5:15_005]
                assert await file.tell() == 0
                assert await file.read(5) == data[:5]

        run(main())

    def test_cached_does_not_suspend(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "rb") as file:
                with turns() as count:
                    for at in range(100):
                        assert len(await file.pread(50, at)) == 50
                        assert await file.preadinto(bytearray(50), at) == 50
                    # Slow machines: the loop has its turn every 2 ms.
                    assert count() <= 20

        run(main())

    @needs("drop caches")
    def test_cold(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> None:
            evict(large)
            async with proactor.open(large, "rb", engine=engine) as file:
                offsets = [at * 40_007 % (LARGE_BYTES - 4096) for at in range(64)]
                found: list[bytes] = await asyncio.gather(*[file.pread(4096, at) for at in offsets])
                assert found == [content(LARGE_BYTES)[at : at + 4096] for at in offsets]

        run(main())

    def test_beside_a_call_that_waits_for_its_turn(self, run: Run, path: Path) -> None:
        """No turn is needed: a call of this kind overtakes those that use the position."""

        async def main() -> None:
            async with proactor.open(path, "r+b") as file:
                task = asyncio.ensure_future(file.fsync())
                await asyncio.sleep(0)
                assert not task.done()
                with turns() as count:
                    assert await file.pread(3, 0) == content(3)
                    assert count() == 0
                await in_time(task)

        run(main())

    def test_files_without_a_size(self, run: Run, engine: str) -> None:
        async def main() -> None:
            async with proactor.open("/proc/self/status", "rb", engine=engine) as file:
                whole = await file.pread(2 * MIB, 0)
                assert whole.startswith(b"Name:")
                assert len(whole) > 200
            async with proactor.open("/dev/zero", "rb", engine=engine, buffering=0) as file:
                assert file.seekable()
                assert await file.pread(70_000, 5) == bytes(70_000)

        run(main())

    def test_above_four_gigabytes(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "sparse"
        far = (5 << 30) + 123

        async def main() -> None:
            async with proactor.open(path, "w+b", engine=engine) as file:
                assert await file.pwrite(b"far away", far) == 8
                assert await file.pread(100, far - 10) == bytes(10) + b"far away"
                assert await file.seek(0, os.SEEK_END) == far + 8

        run(main())


class TestWriting:
    def test_sixty_four_in_flight(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        piece = 64 * 1024

        async def main() -> None:
            async with proactor.open(path, "w+b", engine=engine) as file:
                data = [bytes([at]) * piece for at in range(64)]
                writes = [file.pwrite(data[at], at * piece) for at in range(64)]
                assert await asyncio.gather(*writes) == [piece] * 64
                reads = [file.pread(piece, at * piece) for at in range(64)]
                assert await asyncio.gather(*reads) == data
                # On one place: one of them, whole.
                await asyncio.gather(*[file.pwrite(data[at], 0) for at in range(64)])
                assert await file.pread(piece, 0) in data

        run(main())

    def test_large(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        parts = [content(MIB, at) for at in range(3)] + [content(7, at) for at in range(2_000)]

        async def main() -> None:
            async with proactor.open(path, "wb", engine=engine) as file:
                assert await file.pwritev(parts, 11) == 3 * MIB + 14_000

        run(main())
        assert path.read_bytes() == bytes(11) + b"".join(parts)

    def test_a_full_disk(self, run: Run, engine: str) -> None:
        async def fill() -> None:
            async with proactor.open("/dev/full", "wb", engine=engine) as file:
                await file.pwrite(b"x", 0)

        error = failure(run, fill)
        assert (error.errno, error.filename) == (errno.ENOSPC, "/dev/full")


class TestWithTheBuffers:
    def test_what_was_written_before_is_read(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b", engine=engine) as file:
                for at in range(50):
                    await file.write(b"%04d" % at)
                    assert await file.pread(8, 4 * at) == b"%04d" % at + content(SIZE_BYTES)[4 * at + 4 :][:4]
                assert await file.tell() == 200
                await file.write(b"first")
                assert await file.pwrite(b"SECOND", 200) == 6
                assert await file.pread(6, 200) == b"SECOND"

        run(main())
        assert path.read_bytes()[196:206] == b"0049SECOND"

    def test_what_was_written_past_them_is_read(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b", engine=engine) as file:
                assert await file.read(10) == content(10)
                await file.pwrite(b"<new>", 8)
                assert await file.read(5) == b"ew>" + content(15)[13:]
                # Far from what was read ahead: it stays.
                await file.pwrite(b"far", 50_000)
                with turns() as count:
                    assert await file.read(5) == content(20)[15:]
                    assert count() == 0
                # Behind the position, where a seek goes back to.
                await file.pwrite(b"again", 0)
                await file.seek(0)
                assert await file.read(5) == b"again"
                rest = content(8)[5:] + b"<new>" + content(SIZE_BYTES)[13:]
                assert await file.read() == rest + bytes(40_000) + b"far"
                assert await file.read() == b""
                await file.pwrite(b"more", 50_003)
                assert await file.read() == b"more"

        run(main())

    def test_lines_while_others_write(self, run: Run, path: Path) -> None:
        path.write_bytes(b"".join(b"%07d\n" % at for at in range(20_000)))

        async def main() -> None:
            async with proactor.open(path, "r+b") as file:

                async def disturb() -> None:
                    for at in range(0, 20_000, 7):
                        await file.pwrite(b"%07d\n" % at, 8 * at)

                async def lines() -> list[bytes]:
                    return await file.readlines()

                found, _ = await asyncio.gather(lines(), disturb())
                assert found == [b"%07d\n" % at for at in range(20_000)]

        run(main())

    def test_errors_of_earlier_writes(self, run: Run) -> None:
        async def main() -> None:
            file = await proactor.open("/dev/full", "w+b", buffering=100)
            await file.write(b"lost")
            with pytest.raises(OSError, match="No space left"):
                await file.pread(1, 0)
            with pytest.raises(OSError, match="No space left"):
                await file.close()

        run(main())

    def test_through_a_text_file(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "w+", encoding="utf-16-le") as text:
                await text.write("ab")
                await text.flush()
                assert await text.buffer.pread(10, 0) == b"a\0b\0"
                assert not hasattr(text, "pread")

        run(main())
