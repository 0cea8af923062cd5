"""`lock` and `unlock`: open file description locks."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import content, descriptors, failure, in_time, turns, until

pytest_plugins = ["file_fixtures"]

# Takes a lock of the same kind, by its own means, says so, and keeps it until its input ends.
OTHER = """
import fcntl, struct, sys
file = open(sys.argv[1], "r+b")
kind, start, length = (int(word) for word in sys.argv[2:])
request = struct.pack("hhqqi4x", kind, 0, start, length, 0)
fcntl.fcntl(file, fcntl.F_OFD_SETLKW, request)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(path: Path, kind: int = fcntl.F_WRLCK, start: int = 0, length: int = 0) -> Iterator[Any]:
    """Another process has the lock."""
    command = [sys.executable, "-c", OTHER, str(path), str(kind), str(start), str(length)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        yield other
        other.stdin.close()


def is_free(path: Path, kind: int = fcntl.F_WRLCK, start: int = 0, length: int = 0) -> bool:
    with path.open("r+b") as file:
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, 0, start, length, 0))
        except BlockingIOError:
            return False
        return True


class TestAlone:
    def test_lock_and_unlock(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b", engine=engine) as file:
                with turns() as count:
                    assert await file.lock() is None  # type: ignore[func-returns-value]
                    assert count() == 0
                assert not is_free(path)
                await file.unlock()
                assert is_free(path)
                await file.lock(exclusive=False)
                assert is_free(path, fcntl.F_RDLCK)
                assert not is_free(path)
                # The same file again: it takes the place of the first.
                await file.lock(start=0, length=10)
                assert not is_free(path, fcntl.F_RDLCK, 9, 1)
                assert is_free(path, fcntl.F_RDLCK, 10)
                await file.unlock(start=5, length=1)
                assert is_free(path, fcntl.F_WRLCK, 5, 1)
                assert not is_free(path, fcntl.F_WRLCK, 4, 1)
            assert is_free(path)

        run(main())

    def test_two_files_of_one_process(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b") as one, proactor.open(path, "r+b", engine=engine) as two:
                await one.lock(length=10)
                await two.lock(start=10)
                with pytest.raises(BlockingIOError) as caught:
                    await two.lock(blocking=False)
                assert (caught.value.errno, caught.value.filename) == (errno.EAGAIN, str(path))
                waiting = asyncio.ensure_future(two.lock())
                # It waits in no one's way: neither the loop's nor that of other calls on the file.
                for _ in range(3):
                    await asyncio.sleep(0)
                    assert await two.pread(3, 0) == content(3)
                assert not waiting.done()
                await one.unlock()
                await in_time(waiting)
                assert not is_free(path, fcntl.F_RDLCK, 0, 1)

        run(main())

    def test_errors(self, run: Run, path: Path) -> None:
        async def exclusive() -> None:
            async with proactor.open(path, "rb") as file:
                await file.lock(exclusive=False)
                await file.lock()

        error = failure(run, exclusive)
        assert (error.errno, error.filename) == (errno.EBADF, str(path))

        async def negative() -> None:
            async with proactor.open(path, "rb") as file:
                await file.lock(exclusive=False, start=-1)

        assert failure(run, negative).errno == errno.EINVAL

        async def closed() -> None:
            file = await proactor.open(path, "r+b")
            late = file.lock()
            await file.close()
            with pytest.raises(ValueError, match="closed file"):
                await late
            for call in (file.lock, file.unlock):
                with pytest.raises(ValueError, match="closed file"):
                    call()  # type: ignore[unused-coroutine]

        run(closed())


class TestBetweenProcesses:
    def test_waiting(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            with held(path, length=100) as other:
                async with proactor.open(path, "r+b", engine=engine) as file:
                    await file.lock(start=100)
                    with pytest.raises(BlockingIOError):
                        await file.lock(exclusive=False, blocking=False)
                    waiting = asyncio.ensure_future(file.lock(exclusive=False))
                    await asyncio.sleep(0.01)
                    assert not waiting.done()
                    other.stdin.close()
                    await in_time(waiting)
                    assert not is_free(path)

        run(main())

    def test_what_others_have_written(self, run: Run, path: Path) -> None:
        """Buffers go to the kernel before an unlock, and what was read ahead is dropped by a lock."""
        replace, current = path.write_bytes, path.read_bytes

        async def main() -> None:
            async with proactor.open(path, "r+b") as file:
                assert await file.read(2) == content(2)
                replace(b"somebody else's")
                await file.lock()
                assert await file.read(6) == b"mebody"
                await file.write(b"<mine>")
                await file.unlock()
                assert current()[8:14] == b"<mine>"

        run(main())

    def test_a_counter(self, run: Run, tmp_path: Path) -> None:
        """Increments through buffers, from several files at once."""
        path = tmp_path / "counter"
        path.write_bytes(b"%06d" % 0)

        async def increment() -> None:
            async with proactor.open(path, "r+b") as file:
                for _ in range(10):
                    await file.lock()
                    await file.seek(0)
                    value = int(await file.read(6))
                    await file.seek(0)
                    await file.write(b"%06d" % (value + 1))
                    await file.unlock()

        async def main() -> None:
            await in_time(asyncio.gather(*[increment() for _ in range(8)]))

        run(main())
        assert path.read_bytes() == b"000080"

    def test_an_unlock_whose_flush_fails(self, run: Run, path: Path) -> None:
        async def main() -> None:
            file = await proactor.open("/dev/full", "w+b")
            await file.lock()
            await file.write(b"lost")
            with pytest.raises(OSError, match="No space left"):
                await file.unlock()
            fd = os.open("/dev/full", os.O_RDWR)
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            os.close(fd)
            with pytest.raises(OSError, match="No space left"):
                await file.close()

        run(main())


class TestCancelled:
    def test_while_it_waits(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "r+b") as one, proactor.open(path, "r+b", engine=engine) as two:
                await one.lock()
                for _ in range(20):
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(two.lock(), 0.001)
                await one.unlock()
                # A worker that is still to be stopped may have it for a moment.
                await until(lambda: is_free(path))
                # Given up before a worker has begun.
                await one.lock()
                waiting = asyncio.ensure_future(two.lock())
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.sleep(0)
                await one.unlock()
                await in_time(two.lock())
                await two.unlock()

        run(main())

    def test_just_as_it_is_granted(self, run: Run, engine: str, path: Path) -> None:
        """Whoever is cancelled has no lock, however late it was."""

        async def main() -> None:
            async with proactor.open(path, "r+b") as one, proactor.open(path, "r+b", engine=engine) as two:
                for at in range(60):
                    await one.lock()
                    waiting = asyncio.ensure_future(two.lock())
                    await asyncio.sleep(0.0005)
                    await one.unlock()
                    for _ in range(at % 20):
                        await asyncio.sleep(0)
                    if waiting.cancel():
                        with pytest.raises(asyncio.CancelledError):
                            await waiting
                        await in_time(one.lock())
                        await one.unlock()
                    else:
                        await waiting
                        await two.unlock()

        run(main())

    def test_with_the_loop(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            file = await proactor.open(path, "r+b", engine=engine)
            asyncio.ensure_future(file.lock())  # noqa: RUF006
            await asyncio.sleep(0.001)
            del file

        with held(path):
            with pytest.warns(ResourceWarning):
                run(main())
            assert is_free(path, fcntl.F_RDLCK) is False
        assert is_free(path)

    def test_the_file_is_closed_meanwhile(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            before = descriptors()
            async with proactor.open(path, "r+b") as one:
                await one.lock()
                two = await proactor.open(path, "r+b", engine=engine)
                waiting = asyncio.ensure_future(two.lock())
                await asyncio.sleep(0)
                await two.close()
                await one.unlock()
                with pytest.raises(ValueError, match="closed file"):
                    await in_time(waiting)
                await in_time(one.lock())
            del before

        run(main())


class TestMany:
    def test_those_that_wait_keep_no_worker_from_the_others(self, run: Run, path: Path) -> None:
        """More than the threads' engine has workers, and the holder needs one of them."""

        async def main() -> None:
            async with proactor.open(path, "r+b", engine="threads") as one:
                await one.lock()
                files = [await proactor.open(path, "r+b", engine="threads") for _ in range(80)]
                waiting = [asyncio.ensure_future(file.lock(exclusive=False)) for file in files]
                await asyncio.sleep(0)
                assert await in_time(one.pwrite(b"x", 0)) == 1
                await one.unlock()
                await in_time(asyncio.gather(*waiting))
                for file in files:
                    await file.close()

        run(main())
