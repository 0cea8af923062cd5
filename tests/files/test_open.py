"""Open files: what `io` has no counterpart for. (test_open_parity.py has the rest.)"""

from __future__ import annotations

import asyncio
import errno
import gc
import io
import os
import warnings
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import MIB, content, descriptors, evict, in_time, turns, until

pytest_plugins = ["file_fixtures"]


class TestOpening:
    def test_awaited_and_as_a_context(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "rb", engine=engine) as file:
                assert await file.read() == content(10_000)
                assert not file.closed
            assert file.closed
            file = await proactor.open(path, "rb", engine=engine)
            async with file as same:
                assert same is file
            assert file.closed
            async with proactor.open(path, encoding="latin-1", engine=engine) as text:
                assert (await text.read()).encode("latin-1") == content(10_000).replace(b"\r", b"\n")
            task = asyncio.create_task(proactor.open(path, "rb"))
            await (await task).close()
            text_task = asyncio.create_task(proactor.open(path, "w"))
            await (await text_task).close()

        run(main())

    def test_once(self, run: Run, path: Path) -> None:
        async def main() -> None:
            opening = proactor.open(path, "rb")
            async with opening:
                pass
            with pytest.raises(RuntimeError, match="already awaited"):
                await opening

        run(main())

    @pytest.mark.parametrize("mode", ["r", "rb"])
    def test_never_awaited(self, path: Path, mode: str) -> None:
        with pytest.warns(RuntimeWarning, match="never awaited"):
            proactor.open(path, mode)

    def test_attributes(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b") as file:
                assert (file.name, file.mode, file.closed) == (str(path), "rb+", False)
                assert (file.readable(), file.writable(), file.seekable(), file.isatty()) == (
                    True,
                    True,
                    True,
                    False,
                )
                assert os.path.samestat(os.fstat(file.fileno()), path.stat())  # noqa: ASYNC240
                assert str(path) in repr(file)
            for use in (file.fileno, file.readable, file.read, file.tell, lambda: file.write(b"")):
                with pytest.raises(ValueError, match="closed file"):
                    use()
            async with proactor.open(path, "w", encoding="utf-16", newline="\r") as text:
                assert (text.name, text.mode, text.encoding, text.errors) == (
                    str(path),
                    "w",
                    "utf-16",
                    "strict",
                )
                assert (text.newlines, text.line_buffering) == (None, False)
                assert isinstance(text.buffer, proactor.BinaryFile)

        run(main())

    def test_a_descriptor(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            fd = os.open(path, os.O_RDWR)
            os.lseek(fd, 100, os.SEEK_SET)
            async with proactor.open(fd, "r+b", closefd=False, engine=engine) as file:
                assert (file.fileno(), file.name) == (fd, fd)
                assert await file.read(10) == content(10_000)[100:110]
            # What is done is seen by the descriptor's other users.
            assert os.lseek(fd, 0, os.SEEK_CUR) == 110
            async with proactor.open(fd, "r+b", engine=engine) as file:
                assert await file.tell() == 110
                await file.write(b"new")
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(fd)

        run(main())
        assert path.read_bytes()[110:113] == b"new"

    def test_bad_descriptors(self, run: Run) -> None:
        async def main() -> None:
            for closefd in (True, False):
                with pytest.raises(OSError, match=r"^\[Errno 9\] Bad file descriptor$"):
                    await proactor.open(999_999, "rb", closefd=closefd)
            with pytest.raises(ValueError, match="negative"):
                proactor.open(-1, "rb")
            with pytest.raises(TypeError):
                proactor.open(3.5, "rb")  # type: ignore[call-overload]

        run(main())

    def test_opener(self, run: Run, path: Path) -> None:
        seen: list[Any] = []

        def opener(name: str, flags: int) -> int:
            seen.append((name, flags & os.O_ACCMODE))
            return os.open(name, flags)

        async def main() -> None:
            async with proactor.open(path, "rb", opener=opener) as file:
                assert len(await file.read()) == 10_000
            with pytest.raises(ZeroDivisionError):
                await proactor.open(path, "rb", opener=lambda name, flags: 1 // 0)
            before = descriptors()
            with pytest.raises(IsADirectoryError):
                await proactor.open(path, "rb", opener=lambda name, flags: os.open(path.parent, flags))
            assert descriptors() == before
            with pytest.raises(ValueError, match="opener returned -1"):
                await proactor.open(path, "rb", opener=lambda name, flags: -1)

        run(main())
        assert seen == [(str(path), os.O_RDONLY)]

    def test_ten_thousand_cancelled(self, run: Run, path: Path, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        async def main() -> None:
            await (await proactor.open(path, "rb")).close()
            before = descriptors()
            for at in range(1_000):
                tasks = [
                    asyncio.ensure_future(proactor.open(path, "wb" if at % 2 else "rb")) for _ in range(9)
                ]
                tasks.append(asyncio.ensure_future(proactor.open(fifo, "rb")))
                await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                for found in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(found, proactor.BinaryFile):
                        await found.close()
            del tasks, found
            await until(lambda: len(descriptors()) <= len(before) + 1)

        run(main())


class TestSpecialFiles:
    def test_a_fifo(self, run: Run, engine: str, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        async def main() -> None:
            opening = asyncio.ensure_future(proactor.open(fifo, "rb", engine=engine))
            writer = await in_time(proactor.open(fifo, "wb", engine=engine))
            reader = await in_time(opening)
            waiting = asyncio.ensure_future(reader.readline())
            await asyncio.sleep(0)
            await writer.write(b"one\ntwo")
            await writer.flush()
            assert await in_time(waiting) == b"one\n"
            # A cancelled read loses nothing.
            waiting = asyncio.ensure_future(reader.readline())
            await asyncio.sleep(0.001)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await writer.close()
            assert await in_time(reader.read()) == b"two"
            assert not reader.seekable()
            with pytest.raises(io.UnsupportedOperation):
                reader.seek(0)  # type: ignore[unused-coroutine]
            await reader.close()

        run(main())

    def test_proc_and_dev(self, run: Run, engine: str) -> None:
        async def main() -> None:
            async with proactor.open("/proc/self/status", engine=engine) as text:
                lines = [line async for line in text]
                assert any(line.startswith("Pid:") for line in lines)
            async with proactor.open("/dev/zero", "rb", engine=engine) as file:
                assert await file.read(100_000) == bytes(100_000)
            async with proactor.open("/dev/null", "r+b", engine=engine) as file:
                assert await file.write(b"x" * 100_000) == 100_000
                assert await file.read() == b""

        run(main())

    def test_a_full_device(self, run: Run, engine: str) -> None:
        """The error comes once, at the latest when it is closed; the file is closed all the same."""

        async def main() -> None:
            file = await proactor.open("/dev/full", "wb", engine=engine)
            await file.write(b"x")
            with pytest.raises(OSError, match="No space") as caught:
                await file.flush()
            assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")
            with pytest.raises(OSError, match="No space"):
                await file.close()
            assert file.closed
            await file.close()
            with pytest.raises(OSError, match="No space"):
                async with proactor.open("/dev/full", "w", engine=engine) as text:
                    await text.write("x")
            assert text.closed
            file = await proactor.open("/dev/full", "wb", engine=engine)
            with pytest.raises(OSError, match="No space"):
                await file.write(b"x" * MIB)
            await file.close()

        run(main())


class TestSync:
    def test_the_data_are_there(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b", engine=engine) as file:
                for sync in (file.fsync, file.fdatasync, file.flush):
                    await file.write(b"new")
                    assert await sync() is None  # type: ignore[func-returns-value]
                    assert path.read_bytes()[:3] == b"new"  # noqa: ASYNC240
                    await file.seek(0)
            async with proactor.open(path, "w", engine=engine) as text:
                await text.write("text")
                await text.fsync()
                await text.fdatasync()
                assert path.read_text() == "text"  # noqa: ASYNC240
            async with proactor.open("/dev/full", "wb", engine=engine) as full:
                await full.write(b"x")
                with pytest.raises(OSError, match="No space"):
                    await full.fsync()
                with pytest.raises(OSError, match="No space"):
                    await full.close()

        run(main())


class TestLarge:
    def test_round_trip(self, run: Run, engine: str, tmp_path: Path) -> None:
        data = content(5 * MIB + 1234)

        async def main() -> None:
            async with proactor.open(tmp_path / "f", "w+b", engine=engine) as file:
                assert await file.write(data[: 3 * MIB]) == 3 * MIB
                await file.write(b"")
                for at in range(3 * MIB, len(data), 10_000):
                    await file.write(memoryview(data)[at : at + 10_000])
                assert await file.tell() == len(data)
                await file.seek(0)
                assert await file.read() == data
                await file.seek(10)
                assert await file.read(2 * MIB) == data[10 : 2 * MIB + 10]
                target = bytearray(3 * MIB)
                await file.seek(5)
                assert await file.readinto(target) == len(target)
                assert target == data[5 : 3 * MIB + 5]

        run(main())

    def test_beyond_four_gigabytes(self, run: Run, engine: str, tmp_path: Path) -> None:
        async def main() -> None:
            async with proactor.open(tmp_path / "sparse", "w+b", engine=engine) as file:
                await file.seek(5 << 30)
                await file.write(b"far away")
                assert await file.tell() == (5 << 30) + 8
                assert await file.seek(-4, os.SEEK_END) == (5 << 30) + 4
                assert await file.read() == b"away"
                assert await file.seek(0, os.SEEK_DATA) > 4 << 30
                assert await file.truncate(3) == 3

        run(main())
        assert (tmp_path / "sparse").read_bytes() == bytes(3)

    @needs("root", "drop caches")
    def test_cold(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "f"
        path.write_bytes(b"".join(b"line %d\n" % at for at in range(100_000)))

        async def main() -> int:
            evict(path)
            async with proactor.open(path, "rb", engine=engine) as file:
                count = 0
                async for line in file:
                    assert line == b"line %d\n" % count
                    count += 1
                return count

        assert run(main()) == 100_000


class TestConcurrency:
    def test_writes_of_many_tasks(self, run: Run, engine: str, tmp_path: Path) -> None:
        """No interleaved bytes, and each task's in its order."""
        path = tmp_path / "f"

        async def work(file: Any, name: int) -> None:
            for at in range(200):
                await file.write(b"%03d %05d " % (name, at) + b"x" * (at % 300) + b"\n")

        async def main() -> None:
            async with proactor.open(path, "wb", engine=engine) as file:
                await asyncio.gather(*(work(file, name) for name in range(50)))

        run(main())
        seen = [0] * 50
        for line in path.read_bytes().splitlines():
            name, at, rest = line.split(b" ", 2)
            assert rest == b"x" * (int(at) % 300)
            assert seen[int(name)] == int(at)
            seen[int(name)] += 1
        assert seen == [200] * 50

    def test_in_the_order_of_awaiting(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def main() -> None:
            async with proactor.open(path, "w+b", engine=engine) as file:
                parts = [b"%d\n" % at * 30_000 for at in range(10)]
                await asyncio.gather(*(file.write(part) for part in parts))
                lines: list[Any] = await asyncio.gather(file.seek(0), *(file.readline() for _ in range(10)))
                assert lines == [0] + [b"0\n"] * 10
                assert await file.seek(0) == 0
                assert await file.read() == b"".join(parts)

        run(main())

    @pytest.mark.parametrize("seed", range(5))
    def test_cancelled_at_any_moment(self, run: Run, engine: str, tmp_path: Path, seed: int) -> None:
        """Some calls are cancelled: each has done all or nothing, and those behind it are done."""
        path = tmp_path / "f"

        async def main() -> None:
            file = await proactor.open(path, "wb", engine=engine)
            tasks = []
            for at in range(300):
                data = b"%04d" % at + b"x" * ((at * 7919 + seed) % 50_000) + b"\n"
                tasks.append(asyncio.ensure_future(file.write(data)))
                if at % 3 == seed % 3:
                    await asyncio.sleep(0)
                if at % 5 == 0:
                    tasks[-1 - at % 2].cancel()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            await file.close()
            lines = [int(line[:4]) for line in path.read_bytes().splitlines()]
            done = [at for at, result in enumerate(found) if not isinstance(result, BaseException)]
            assert set(done) <= set(lines)
            assert lines == sorted(lines)
            for line in path.read_bytes().splitlines():
                assert len(line) == 4 + (int(line[:4]) * 7919 + seed) % 50_000

        run(main())

    def test_the_loop_has_its_turn(self, run: Run, path: Path, tmp_path: Path) -> None:
        """Calls that never suspend give way all the same."""

        async def flat_out(at: int) -> None:
            async with proactor.open(tmp_path / str(at), "wb") as file:
                for _ in range(5_000):
                    await file.write(b"line\n")

        async def main() -> int:
            with turns() as count:
                await asyncio.gather(*(flat_out(at) for at in range(20)))
                return count()

        # 100,000 writes take 20 ms at the very least, and there is a turn every 2 ms.
        assert run(main()) >= 5


class TestClosing:
    def test_cancelled(self, run: Run, engine: str, tmp_path: Path) -> None:
        """A close that is cancelled still closes."""

        async def main() -> None:
            for at in range(50):
                path = tmp_path / str(at)
                file = await proactor.open(path, "wb", engine=engine)
                await file.write(b"data" * at * 100)
                fd = file.fileno()
                task = asyncio.ensure_future(file.close())
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await until(lambda: file.closed and not _is_open(fd, path))  # noqa: B023
                assert path.read_bytes() == b"data" * at * 100

        run(main())

    def test_in_a_cancelled_scope(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def work() -> None:
            async with proactor.open(path, "wb", engine=engine) as file:
                await file.write(b"kept")
                await asyncio.sleep(60)

        async def main() -> None:
            task = asyncio.ensure_future(work())
            await until(path.exists)
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert path.read_bytes() == b"kept"

        run(main())

    def test_collected_while_open(self, run: Run, engine: str, tmp_path: Path) -> None:
        """It warns, what was written is written, and the descriptor is closed."""
        path = tmp_path / "f"

        async def main() -> None:
            file = await proactor.open(path, "wb", engine=engine)
            await file.write(b"kept")
            fd = file.fileno()
            with pytest.warns(ResourceWarning, match="unclosed file"):
                del file
            await until(lambda: not _is_open(fd, path))

        run(main())
        assert path.read_bytes() == b"kept"

    def test_collected_after_its_loop(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def main() -> Any:
            file = await proactor.open(path, "wb", engine=engine)
            await file.write(b"kept" * 20_000)
            return file

        file = run(main())
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del file
        assert path.read_bytes() == b"kept" * 20_000

    def test_closed_ones_do_not_warn(self, run: Run, path: Path) -> None:
        async def main() -> None:
            for mode in ("rb", "r+b", "r"):
                async with proactor.open(path, mode):
                    pass

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run(main())
            gc.collect()


def _is_open(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return False
