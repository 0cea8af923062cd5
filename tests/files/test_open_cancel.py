"""Open files whose calls end at each of their await points: what docs/files.md says of it, call by call."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import warnings
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import descriptors, in_time, until
from stepping import ENDS, drive, end

# A line that no buffer holds, and others behind it.
CONTENT = b"x" * 150_000 + b"\n" + b"".join(b"line %d\n" % at for at in range(5_000))
HEAD = 100
# What no call returns.
ENDED = object()

Call = Callable[[Any], Any]


def cuts() -> Iterator[tuple[int, bool, type[BaseException]]]:
    """At which await point, before or after what it waits for has happened, and how."""
    return itertools.product(range(4), (False, True), ENDS)


async def cut(call: Any, step: int, wait: bool, kind: type[BaseException]) -> Any:
    """Its result, or ENDED at that point."""
    got = await in_time(drive(call, step, wait=wait))
    if got is not call:
        return got
    end(call, kind)
    return ENDED


def uncached(path: Path) -> None:
    """So that reading has to wait: the file's pages leave the cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


async def readinto(file: Any) -> bytes:
    target = bytearray(100_000)
    return bytes(target[: await file.readinto(target)])


READS: dict[str, Call] = {
    "read": lambda file: file.read(),
    "read some": lambda file: file.read(100_000),
    "readline": lambda file: file.readline(),
    "anext": lambda file: file.__anext__(),
}
BINARY_READS: dict[str, Call] = {
    "read1": lambda file: file.read1(200_000),
    "readinto": readinto,
}


MODES_AND_READS = [(mode, read) for mode in ("rb", "r") for read in READS] + [
    ("rb", read) for read in BINARY_READS
]


@pytest.mark.parametrize(("mode", "read"), MODES_AND_READS)
def test_reads_of_a_file_consume_nothing(run: Run, engine: str, tmp_path: Path, mode: str, read: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    whole: Any = CONTENT if mode == "rb" else CONTENT.decode()
    call = (READS | BINARY_READS)[read]

    async def main() -> None:
        for step, wait, kind in cuts():
            async with proactor.open(path, mode, engine=engine) as file:
                await file.seek(HEAD)
                uncached(path)
                got = await cut(call(file), step, wait, kind)
                assert (whole[:0] if got is ENDED else got) + await file.read() == whole[HEAD:], (
                    step,
                    wait,
                    kind,
                )

    run(main())


@pytest.mark.parametrize(("mode", "read"), MODES_AND_READS)
def test_reads_of_a_pipe_consume_nothing(run: Run, engine: str, mode: str, read: str) -> None:
    """Here each of them has to wait, and more than once: the pipe is filled a little at a time."""
    parts = [b"x" * 5000, b"y" * 5000 + b"\nend of the first line", b"z" * 5000]
    whole: Any = b"".join(parts) if mode == "rb" else b"".join(parts).decode()
    call = (READS | BINARY_READS)[read]

    async def fill(writer: int) -> None:
        for part in parts:
            await asyncio.sleep(0)
            os.write(writer, part)
        os.close(writer)

    async def main() -> int:
        ended = 0
        for step, wait, kind in cuts():
            reader, writer = os.pipe()
            async with proactor.open(reader, mode, engine=engine) as file:
                filling = asyncio.ensure_future(fill(writer))
                got = await cut(call(file), step, wait, kind)
                ended += got is ENDED
                rest = await in_time(file.read())
                assert (whole[:0] if got is ENDED else got) + rest == whole, (step, wait, kind)
                await filling
        return ended

    assert run(main()) >= 4


WRITES: dict[str, Call] = {
    "write": lambda file: file.write("y" * 100_000 if "b" not in file.mode else b"y" * 100_000),
    "flush": lambda file: file.flush(),
    "fsync": lambda file: (file.buffer if file.mode == "w" else file).fsync(),
    "close": lambda file: file.close(),
}


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("name", WRITES)
def test_what_was_written_stays(run: Run, engine: str, tmp_path: Path, mode: str, name: str) -> None:
    """The call in hand is done wholly or not at all, and those before it are done."""
    path = tmp_path / "file"
    before: Any = b"before" * 2000 if mode == "wb" else "before" * 2000

    async def main() -> int:
        suspended = 0
        first: Any
        async with proactor.open(path, mode, engine=engine) as first:
            await first.write(before)
        left = descriptors()
        for step, wait, kind in cuts():
            file = await proactor.open(path, mode, engine=engine)
            await file.write(before)
            got = await cut(WRITES[name](file), step, wait, kind)
            suspended += got is ENDED
            await file.close()
            await until(lambda: descriptors() <= left)
            content = path.read_bytes()
            assert content[: len(before)] == b"before" * 2000, (step, wait, kind)
            assert content[len(before) :] in {b"", b"y" * 100_000 if name == "write" else b""}
            assert got is ENDED or name != "write" or len(content) == len(before) + got
        return suspended

    assert run(main()) > 0, "nothing had to wait"


@pytest.mark.parametrize("mode", ["r+b", "r+"])
def test_a_seek_has_happened_or_not(run: Run, engine: str, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "file"

    async def main() -> None:
        for step, wait, kind in cuts():
            path.write_bytes(CONTENT)
            file: Any
            async with proactor.open(path, mode, engine=engine) as file:
                await file.write("new" if mode == "r+" else b"new")
                await cut(file.seek(HEAD), step, wait, kind)
                at = await file.tell()
                assert at in (3, HEAD)
                rest = await file.read()
                written = b"new" + CONTENT[3:]
                assert (rest if mode == "r+b" else rest.encode()) == written[at:], (step, wait, kind)
            assert path.read_bytes() == written

    run(main())


def test_a_truncate_has_happened_or_not(run: Run, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "file"

    async def main() -> None:
        for step, wait, kind in cuts():
            path.write_bytes(CONTENT)
            async with proactor.open(path, "r+b", engine=engine) as file:
                assert len(await file.read(HEAD)) == HEAD
                await cut(file.truncate(1000), step, wait, kind)
                assert await file.tell() == HEAD
                rest = await file.read()
                assert rest in (CONTENT[HEAD:1000], CONTENT[HEAD:]), (step, wait, kind)

    run(main())


@pytest.mark.parametrize("mode", ["rb", "r", "wb", "w"])
def test_an_open_leaves_nothing_open(run: Run, engine: str, tmp_path: Path, mode: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")

    async def main() -> None:
        first: Any
        async with proactor.open(path, mode, engine=engine) as first:
            await (first.read() if "r" in mode else first.write("" if mode == "w" else b""))
        left = descriptors()
        for step, wait, kind in cuts():
            file: Any = await cut(proactor.open(path, mode, engine=engine).__await__(), step, wait, kind)
            if file is not ENDED:
                await file.close()
            await until(lambda: descriptors() <= left)

    run(main())


@pytest.mark.parametrize("mode", ["rb", "r", "w"])
def test_a_task_that_never_begins_has_nothing_forgotten(run: Run, tmp_path: Path, mode: str) -> None:
    """Its `open` was handed to a task, which was cancelled: no warning that nobody awaited it."""

    async def main() -> None:
        task: asyncio.Task[Any] = asyncio.ensure_future(proactor.open(tmp_path / "file", mode))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(main())
        gc.collect()
    assert [str(warning.message) for warning in caught if "never awaited" in str(warning.message)] == []
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("size", [5, 100_000])
def test_a_write_does_not_wait_for_a_cancelled_read(run: Run, engine: str, tmp_path: Path, size: int) -> None:
    """As on a serial line: nobody has answered in time, and the next command is sent."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    data = b"x" * size

    async def main() -> None:
        async with proactor.open(path, "r+b", 0, engine=engine) as line:
            for _ in range(5):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(line.read(3), 0.01)
                writing = asyncio.ensure_future(line.write(data))
                other = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                got = b""
                while len(got) < size:
                    try:
                        got += os.read(other, size)
                    except BlockingIOError:
                        await asyncio.sleep(0)
                assert (got, await in_time(writing)) == (data, size)
                os.close(other)
            # What a cancelled read has brought comes before the rest.
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(line.read(6), 0.01)
            await in_time(line.write(b"abc"))
            assert await in_time(line.read(3)) == b"abc"

    run(main())


def test_ten_thousand_opens(run: Run, tmp_path: Path) -> None:
    """Half of them are cancelled, before they have begun or while the file is being created."""

    async def use(path: Path) -> None:
        async with proactor.open(path, "w") as file:
            await file.write("text")

    async def ended(calls: list[Awaitable[None]], at: int) -> None:
        tasks = [asyncio.ensure_future(call) for call in calls]
        for _ in range(at % 3):
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} <= {type(None), asyncio.CancelledError}

    async def main() -> None:
        await asyncio.gather(use(tmp_path / "0"), proactor.write_bytes(tmp_path / "1", b""))
        left = descriptors()
        for at in range(100):
            await in_time(ended([use(tmp_path / str(number)) for number in range(100)], at))
        await until(lambda: descriptors() <= left)

    run(main())
