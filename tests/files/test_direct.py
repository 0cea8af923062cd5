"""`open(..., direct=True)`: O_DIRECT without its rules."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import gc
import io
import os
import random
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import LARGE_BYTES, MIB, content, descriptors, failure, in_time

pytest_plugins = ["file_fixtures"]
pytestmark = needs("O_DIRECT")


def is_direct(file: Any) -> bool:
    return bool(fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_DIRECT)


class TestParity:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("buffering", [-1, 0, 1000])
    def test_random_programs(self, run: Run, tmp_path: Path, seed: int, buffering: int) -> None:
        """Against a file of `io` without a buffer."""
        path, model_path = tmp_path / "file", tmp_path / "model"
        start = content(70_001)
        path.write_bytes(start)
        model_path.write_bytes(start)
        engine = ["io_uring", "threads", "linux_aio"][seed % 3]
        if engine not in proactor.engines():
            engine = "threads"

        async def main() -> None:
            dice = random.Random(seed)
            with io.open(model_path, "r+b") as model:  # noqa: UP020, ASYNC230
                async with proactor.open(path, "r+b", buffering, direct=True, engine=engine) as file:
                    assert is_direct(file)
                    for _ in range(80):
                        await self.act(dice, model, file, buffering)
                    assert await file.tell() == model.tell()

        run(main())
        assert path.read_bytes() == model_path.read_bytes()

    async def act(self, dice: random.Random, model: Any, file: Any, buffering: int) -> None:
        size = dice.choice([0, 1, 500, 511, 512, 4096, 5000, 40_000])
        at = dice.choice([0, 1, 512, 4095, 4096, 20_000, 69_999, dice.randrange(80_000)])
        data = dice.randbytes(size)
        match dice.randrange(9):
            case 0:
                assert await file.read(size) == model.read(size)
            case 1:
                # Without a buffer each byte is a read of the device.
                assert await file.readline(20) == model.readline(20)
            case 2 | 3:
                assert await file.write(data) == model.write(data)
            case 4:
                assert await file.seek(at) == model.seek(at)
            case 5:
                model.flush()
                assert await file.pread(size, at) == os.pread(model.fileno(), size, at)
            case 6:
                model.flush()
                os.pwrite(model.fileno(), data, at)
                assert await file.pwrite(data, at) == size
                # What io has read ahead may be stale.
                model.seek(model.tell())
                model.peek()
                place = model.tell()
                model.seek(0, 2)
                model.seek(place)
            case 7:
                await file.flush()
                model.flush()
                assert os.stat(file.name).st_size == os.fstat(model.fileno()).st_size
            case 8:
                assert await file.truncate(at) == model.truncate(at)


class TestReading:
    def test_each_engine(self, run: Run, engine: str, large: Path) -> None:
        data = content(LARGE_BYTES)

        async def main() -> None:
            async with proactor.open(large, "rb", engine=engine, direct=True) as file:
                assert is_direct(file)
                assert await file.read() == data
                assert await file.read() == b""
                assert await file.seek(4099) == 4099
                assert await file.read(10) == data[4099:4109]
                assert await file.pread(1 << 40, 3) == data[3:]
                assert await file.pread(7, LARGE_BYTES - 3) == data[-3:]
                assert await file.pread(7, LARGE_BYTES + 3) == b""
                target = bytearray(10_000)
                assert await file.preadinto(target, 511) == 10_000
                assert target == data[511:10_511]
                parts = [bytearray(1), bytearray(5_000), bytearray(0), bytearray(9)]
                assert await file.preadv(parts, 1) == 5_010
                assert b"".join(parts) == data[1:5_011]
            async with proactor.open(large, "rb", 0, engine=engine, direct=True) as raw:
                assert await raw.read(5) == data[:5]
                assert await raw.read(5_000) == data[5:5_005]

        run(main())

    def test_aligned_memory_is_used_as_it_is(self, run: Run, large: Path) -> None:
        async def main() -> None:
            async with proactor.open(large, "rb", direct=True) as file:
                with proactor.aio.aligned(MIB) as memory:
                    assert await file.preadinto(memory, 4096) == MIB
                    assert memory == content(LARGE_BYTES)[4096 : 4096 + MIB]
                    # Its end is the file's, which is at no block.
                    rest = LARGE_BYTES % 4096 + 4096
                    at = LARGE_BYTES - rest
                    assert await file.preadinto(memory, at) == rest
                    assert memory[:rest] == content(LARGE_BYTES)[at:]

        run(main())

    def test_lines(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "lines"
        path.write_text("".join(f"line {at}\n" for at in range(50_000)))

        async def main() -> None:
            async with proactor.open(path, encoding="ascii", engine=engine, direct=True) as text:
                assert [line async for line in text] == [f"line {at}\n" for at in range(50_000)]

        run(main())

    def test_sixty_four_in_flight(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> None:
            async with proactor.open(large, "rb", engine=engine, direct=True) as file:
                places = [at * 40_007 % (LARGE_BYTES - 4096) for at in range(64)]
                reads = [file.pread(4096, at) for at in places]
                expected = [content(LARGE_BYTES)[at : at + 4096] for at in places]
                assert await in_time(asyncio.gather(*reads)) == expected

        run(main())


class TestWriting:
    def test_whole_files(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        read = path.read_bytes

        async def main() -> None:
            for size in [0, 1, 511, 512, 4095, 4096, 4097, 256 * 1024, MIB + 1, LARGE_BYTES]:
                data = content(size)
                async with proactor.open(path, "wb", engine=engine, direct=True) as file:
                    assert await file.write(data) == size
                assert read() == data
                async with proactor.open(path, "w+b", engine=engine, direct=True) as file:
                    assert await file.pwrite(data, 3) == size
                    assert await file.read() == (bytes(3) if size else b"") + data
                assert len(read()) == size + 3 * (size > 0)

        run(main())

    def test_small_writes(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        lines = [b"%d\n" % at for at in range(60_000)]

        async def main() -> None:
            async with proactor.open(path, "wb", 10_000, engine=engine, direct=True) as file:
                for at, line in enumerate(lines):
                    await file.write(line)
                    if at % 9_999 == 0:
                        await file.flush()
                        assert path.stat().st_size == await file.tell()

        run(main())
        assert path.read_bytes() == b"".join(lines)

    def test_nobody_sees_padding(self, run: Run, tmp_path: Path) -> None:
        """The length is never more than what was written, and what is behind stays."""
        path = tmp_path / "file"
        path.write_bytes(b"x" * 10_000)

        async def main() -> None:
            async with proactor.open(path, "r+b", direct=True) as file:
                await file.write(b"y" * 5_000)
                await file.flush()
                assert path.read_bytes() == b"y" * 5_000 + b"x" * 5_000
                await file.pwrite(b"z" * 1_000, 9_500)
                assert path.read_bytes()[9_000:] == b"x" * 500 + b"z" * 1_000

        run(main())

    def test_concurrently(self, run: Run, engine: str, tmp_path: Path) -> None:
        """Neighbours that share blocks."""
        path = tmp_path / "file"
        piece = 5_003

        async def main() -> None:
            async with proactor.open(path, "w+b", engine=engine, direct=True) as file:
                data = [bytes([at]) * piece for at in range(64)]
                writes = [file.pwrite(data[at], at * piece) for at in range(64)]
                assert await in_time(asyncio.gather(*writes)) == [piece] * 64
                reads = [file.pread(piece, at * piece) for at in range(64)]
                assert await in_time(asyncio.gather(*reads)) == data

        run(main())

    def test_left_open(self, run: Run, tmp_path: Path) -> None:
        """What was written is written all the same: by the loop's engine, or when there is none any more."""
        paths = [tmp_path / "collected", tmp_path / "kept"]

        async def write(path: Path) -> Any:
            file = await proactor.open(path, "wb", direct=True)
            await file.write(content(9_999))
            return file

        async def main() -> None:
            await write(paths[0])
            gc.collect()

        with pytest.warns(ResourceWarning):
            run(main())
        file = run(write(paths[1]))
        files = [file]
        del file
        with pytest.warns(ResourceWarning):
            files.clear()
        assert [path.read_bytes() for path in paths] == [content(9_999)] * 2

    def test_copies_and_sends(self, run: Run, engine: str, large: Path, tmp_path: Path) -> None:
        async def main() -> None:
            async with (
                proactor.open(large, "rb", engine=engine, direct=True) as src,
                proactor.open(tmp_path / "target", "w+b", engine=engine, direct=True) as dst,
            ):
                assert await src.copy_range(dst, MIB + 1, 7, 3) == MIB + 1
                assert await dst.pread(MIB, 4) == content(LARGE_BYTES)[8 : MIB + 8]
                reader, writer = os.pipe()
                assert await src.sendfile(writer, 13, 99) == 99
                assert os.read(reader, 100) == content(112)[13:]
                os.close(reader)
                os.close(writer)

        run(main())


class TestOpening:
    def test_where_there_is_none(self, run: Run, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        async def opened(path: Any, mode: str = "rb", **more: Any) -> None:
            await (await proactor.open(path, mode, direct=True, **more)).close()

        for path, mode in [("/proc/self/status", "rb"), ("/proc/self/status", "r"), (fifo, "r+b")]:
            error = failure(run, lambda p=path, m=mode: opened(p, m))  # type: ignore[misc]
            assert (error.errno, error.filename) == (errno.EINVAL, str(path))
            assert "O_DIRECT" in str(error) or path == fifo

    def test_descriptors_and_openers(self, run: Run, path: Path) -> None:
        async def main() -> None:
            fd = os.open(path, os.O_RDONLY)
            with pytest.raises(OSError, match="this descriptor was not opened with O_DIRECT"):
                await proactor.open(fd, "rb", direct=True)
            os.close(fd)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
            async with proactor.open(fd, "rb", direct=True) as file:
                assert await file.read(7) == content(7)
            async with proactor.open(path, "rb", direct=True, opener=os.open) as file:
                assert is_direct(file)
                assert await file.read(7) == content(7)
            with pytest.raises(ValueError, match="cannot append"):
                proactor.open(path, "ab", direct=True)
            with pytest.raises(FileNotFoundError):
                await proactor.open("/none", "rb", direct=True)

        run(main())

    def test_closing_closes_both_descriptors(self, run: Run, tmp_path: Path) -> None:
        async def main() -> None:
            # The loop's engine first.
            await (await proactor.open(tmp_path / "first", "wb")).close()
            before = len(descriptors())
            file = await proactor.open(tmp_path / "file", "wb", direct=True)
            await file.write(b"tail")
            await file.flush()
            assert len(descriptors()) == before + 2
            await file.close()
            assert len(descriptors()) == before

        run(main())
