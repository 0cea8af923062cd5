"""Who comes when, and what is left by a call that is given up."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import subprocess
import sys
import time
from collections.abc import Awaitable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import proactor
import pytest
from conftest import Run
from file_helpers import in_time, turns, until

T = TypeVar("T")


class TestClose:
    @pytest.mark.parametrize("mode", ["w", "wb"])
    def test_behind_what_was_awaited_before(self, run: Run, tmp_path: Path, mode: str) -> None:
        path = tmp_path / "f"
        data: Any = "x" * 100_000 if mode == "w" else b"x" * 100_000

        async def main() -> None:
            file: Any = await proactor.open(path, mode)
            found = await asyncio.gather(file.write(data), file.write(data), file.close())
            assert list(found) == [100_000, 100_000, None]

        run(main())
        assert path.stat().st_size == 200_000

    def test_cancelled_while_others_have_the_turn(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def main() -> None:
            file = await proactor.open(path, "w")
            write = asyncio.ensure_future(file.write("x" * 100_000))
            await asyncio.sleep(0)
            close = asyncio.ensure_future(file.close())
            await asyncio.sleep(0)
            close.cancel()
            assert await write == 100_000
            await until(lambda: file.closed)

        run(main())
        assert path.stat().st_size == 100_000

    def test_cancelled_together_with_whoever_has_the_turn(self, run: Run) -> None:
        async def main() -> None:
            reader, writer = os.pipe()
            file = await proactor.open(reader, "rb")
            tasks = [asyncio.ensure_future(file.read(10)), asyncio.ensure_future(file.close())]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await until(lambda: file.closed)
            os.close(writer)

        run(main())


async def paused(
    other: proactor.BinaryFile, call: Awaitable[T], *behind: Awaitable[Any]
) -> tuple[asyncio.Task[T], list[asyncio.Future[Any]]]:
    """A task whose call has found the turn of the loop used up, and has given way before it has begun.

    Others make the calls behind it meanwhile.
    """
    begun = asyncio.Event()
    others: list[asyncio.Future[Any]] = []

    async def main() -> T:
        with turns() as turn:
            # What comes after a call that gave way starts from nothing.
            while not turn():
                await other.write(b"x")
                time.sleep(0.0001)  # noqa: ASYNC251
        time.sleep(0.01)  # noqa: ASYNC251
        # The next one looks at the clock (turn.rs).
        for _ in range(15):
            await other.write(b"x")
        others.extend(map(asyncio.ensure_future, behind))
        begun.set()
        return await call

    task = asyncio.ensure_future(main())
    await begun.wait()
    assert not task.done()
    return task, others


class TestPausedReads:
    """A call that has its turn of the file, and gives way to the loop before it has begun."""

    def content(self, path: Path) -> Path:
        # The second chunk is the first that needs no decoder.
        path.write_text("".join(f"{number:07}\n" for number in range(2048)))
        return path

    async def three(self, path: Path, *, cancelled: bool) -> list[Any]:
        async with proactor.open(path.with_name("g"), "wb") as other, proactor.open(path) as file:
            for _ in range(1024):
                await file.readline()
            first, others = await paused(other, file.readline(), file.__anext__(), file.read(3))
            if cancelled:
                first.cancel()
            return await asyncio.gather(first, *others, return_exceptions=True)

    def test_others_wait_behind_it(self, run: Run, tmp_path: Path) -> None:
        found = run(in_time(self.three(self.content(tmp_path / "f"), cancelled=False)))
        assert found == ["0001024\n", "0001025\n", "000"]

    def test_a_cancelled_one_takes_nothing(self, run: Run, tmp_path: Path) -> None:
        cancelled, *found = run(in_time(self.three(self.content(tmp_path / "f"), cancelled=True)))
        assert isinstance(cancelled, asyncio.CancelledError)
        assert found == ["0001024\n", "000"]

    def test_of_a_file_that_is_closed_meanwhile(self, run: Run, tmp_path: Path) -> None:
        path = self.content(tmp_path / "f")

        async def main() -> None:
            async with proactor.open(tmp_path / "g", "wb") as other, proactor.open(path) as file:
                for _ in range(1024):
                    await file.readline()
                line, _ = await paused(other, file.readline())
                await file.buffer.close()
                with pytest.raises(ValueError, match="closed file"):
                    await line

        run(in_time(main()))


class TestCancelledWrites:
    async def cancelled(self, file: proactor.TextFile, other: proactor.BinaryFile) -> None:
        """A write that finds the loop's turn used up, and is cancelled before it has begun."""
        task, _ = await paused(other, file.write("first"))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def test_the_byte_order_mark_comes_with_the_first_that_is_written(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"

        async def main() -> None:
            async with (
                proactor.open(tmp_path / "g", "wb") as other,
                proactor.open(path, "w", encoding="utf-16") as file,
            ):
                await self.cancelled(file, other)
                await file.write("second")

        run(main())
        assert path.read_text("utf-16") in ("second", "firstsecond")

    def test_what_was_read_ahead_stays(self, run: Run, tmp_path: Path) -> None:
        path = tmp_path / "f"
        content = "".join(f"{at}\n" for at in range(1000))
        path.write_text(content)

        async def main() -> None:
            async with proactor.open(tmp_path / "g", "wb") as other, proactor.open(path, "r+") as file:
                assert await file.readline() == "0\n"
                await self.cancelled(file, other)
                line = await file.readline()
            # All or nothing.
            assert (line == "1\n") == (path.read_text() == content)

        run(main())


def test_settings_that_do_not_matter_to_reading(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("one\ntwo\nthree\n")

    async def main() -> None:
        async with proactor.open(path, "r+") as file:
            assert await file.readline() == "one\n"
            await file.reconfigure(line_buffering=True)
            assert file.line_buffering
            assert await file.readline() == "two\n"

    run(main())


def test_a_position_after_the_binary_file_was_moved(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("".join(f"line {at:06}\n" for at in range(10_000)))

    async def main() -> None:
        async with proactor.open(path) as file:
            for _ in range(2000):
                await file.readline()
            await file.buffer.seek(8 * 8192)
            for _ in range(1500):
                await file.readline()
            mark = await file.tell()
            line = await file.readline()
            await file.seek(mark)
            assert await file.readline() == line

    run(main())


class TestTurns:
    @pytest.mark.parametrize("read", ["read", "readline", "readlines", "long"])
    def test_reading_gives_way(self, run: Run, tmp_path: Path, read: str) -> None:
        path = tmp_path / "f"
        # With a size `readline` is Python.
        lines = 30_000 if read == "readline" else 300_000
        path.write_text("x" * (1 << 24) if read == "long" else "a line of some length, or so\n" * lines)

        async def main() -> None:
            async with proactor.open(path) as file:
                call: Any = file.readline if read == "long" else partial(getattr(file, read), 1000)
                with turns() as count:
                    while await call():
                        pass
                    assert count() > 1

        run(main())

    @pytest.mark.parametrize("mode", ["r", "rb"])
    def test_one_long_read_gives_way(self, run: Run, tmp_path: Path, mode: str) -> None:
        path = tmp_path / "f"
        path.write_bytes(bytes(64 << 20))

        async def main() -> None:
            file: Any
            async with proactor.open(path, mode) as file:
                with turns() as count:
                    assert len(await file.read()) == 64 << 20
                    assert count() > 1

        run(main())

    def test_a_dropped_circle_passes_its_turn_on(self, run: Run) -> None:
        async def main() -> None:
            reader, writer = os.pipe()
            file = await proactor.open(reader, "rb")
            call = file.read(10)
            call.send(None)
            circle: list[Any] = [call]
            circle.append(circle)
            del call, circle
            gc.collect()
            os.write(writer, b"hello")
            assert await in_time(file.read(2)) == b"he"
            os.close(writer)
            await file.close()

        run(main())


AGAIN = """
import asyncio, importlib, sys
import proactor, proactor._native
del sys.modules["proactor._native"]
importlib.import_module("proactor._native")

async def main():
    async with proactor.open(sys.argv[1], "rb") as file:
        calls = [file.close() for _ in range(200)]
        for call in calls:
            call.close()
        calls.clear()
        del call
        print(await file.read())

asyncio.run(main())
"""


def test_a_module_that_is_imported_again(tmp_path: Path) -> None:
    """Its classes are the same, and so are their slots."""
    path = tmp_path / "f"
    path.write_bytes(b"content")
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "b'content'\n"), done.stderr


@pytest.mark.parametrize("newline", [None, "", "\n", "\r", "\r\n"])
def test_line_ends_between_two_chunks(run: Run, tmp_path: Path, newline: str | None) -> None:
    """`io` decodes 8192 bytes at a time: each of them ends between the two characters of a line end."""
    path = tmp_path / "f"
    path.write_bytes(b"short\r\n" + b"x" * 8184 + b"\r\n" + (b"a\r\n" + b"y" * 8187 + b"\r\n") * 6)

    async def main() -> None:
        with io.open(path, newline=newline) as model:  # noqa: UP020, ASYNC230
            expected = model.readlines()
        async with proactor.open(path, newline=newline) as file:
            assert [line async for line in file] == expected
        async with proactor.open(path, newline=newline) as file:
            assert [await file.readline() for _ in range(len(expected) + 1)] == [*expected, ""]

    run(main())


@pytest.mark.parametrize("first", [100, 8192, 20_000, 30_000, 45_000])
def test_a_write_goes_behind_the_chunk_of_the_last_line(run: Run, tmp_path: Path, first: int) -> None:
    paths = [tmp_path / "model", tmp_path / "ours"]
    for path in paths:
        path.write_bytes(b"a\n" + b"x" * first + b"\n" + b"line\n" * 12_000)

    async def main() -> None:
        with io.open(paths[0], "r+") as model:  # noqa: UP020, ASYNC230
            expected = [model.readline() for _ in range(3)]
            model.write("written")
        async with proactor.open(paths[1], "r+") as file:
            assert [await file.readline() for _ in range(3)] == expected
            await file.write("written")

    run(main())
    assert paths[1].read_bytes() == paths[0].read_bytes()
