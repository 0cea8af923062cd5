"""Open files whose calls, loops and exceptions end at bad moments."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import io
import os
import socket
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import LoopFactory, Run
from file_helpers import MIB, content, descriptors, in_time, until

pytest_plugins = ["file_fixtures"]


@pytest.mark.parametrize("kind", ["call", "opening", "file", "read_bytes"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::ResourceWarning")
def test_dropped_while_an_exception_is_raised(run: Run, path: Path, kind: str) -> None:
    """The interpreter drops what is on its stack with the exception set."""

    async def main() -> None:
        file = await proactor.open(path, "rb")
        pile: list[Any] = [await proactor.open(path, "rb")]
        with pytest.raises(ZeroDivisionError):  # noqa: PT012
            if kind == "call":
                (file.read(), 1 / 0)
            elif kind == "opening":
                (proactor.open(path, "rb"), 1 / 0)
            elif kind == "file":
                (pile.pop(), 1 / 0)
            else:
                (proactor.read_bytes(path), 1 / 0)
        await file.close()
        for left in pile:
            await left.close()

    run(main())


@pytest.mark.parametrize("mode", ["rb", "r", "wb", "w", "r+b"])
def test_a_descriptor_that_somebody_else_has_closed(run: Run, engine: str, path: Path, mode: str) -> None:
    async def main() -> None:
        file = await proactor.open(path, mode, engine=engine)
        if "w" in mode:
            await file.write("x" if mode == "w" else b"x")  # type: ignore[arg-type]
        os.close(file.fileno())
        with pytest.raises(OSError, match="Bad file descriptor"):
            await file.close()
        assert file.closed
        await file.close()

    run(main())


def test_a_borrowed_descriptor_is_given_back_in_silence(run: Run, path: Path) -> None:
    """Forgotten or not, there is nothing to be closed; what was written still goes to the file."""
    fd = os.open(path, os.O_RDWR)

    async def main() -> None:
        file = await proactor.open(fd, "r+b", closefd=False)
        await file.write(b"written")
        del file
        await until(lambda: os.pread(fd, 7, 0) == b"written")

    run(main())
    os.close(fd)


def test_small_writes_behind_a_cancelled_large_one(run: Run, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "f"

    async def main() -> None:
        async with proactor.open(path, "wb", engine=engine) as file:
            large = asyncio.ensure_future(file.write(b"A" * MIB))
            await asyncio.sleep(0)
            large.cancel()
            await asyncio.gather(large, return_exceptions=True)
            for _ in range(20):
                await file.write(b"B" * 10_000)
            assert await file.tell() == MIB + 200_000

    run(main())
    assert path.read_bytes() == b"A" * MIB + b"B" * 200_000


def test_closed_while_a_pipe_is_silent(run: Run, engine: str, tmp_path: Path) -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        try:
            async with proactor.open(reader, "rb", engine=engine) as file:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(file.read(10), 0.01)
            assert file.closed
        finally:
            os.close(writer)

    run(in_time(main()))


def test_cancelled_reads_of_lines_consume_nothing(run: Run, engine: str) -> None:
    async def main() -> None:
        for mode, parts in (("rb", b"one\ntwo\nthr"), ("r", "one\ntwo\nthr")):
            reader, writer = os.pipe()
            os.write(writer, b"one\ntwo\nthr")
            async with proactor.open(reader, mode, engine=engine) as file:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(file.readlines(), 0.01)
                os.close(writer)
                assert await file.read() == parts

    run(in_time(main()))


def test_both_ways_needs_positions(run: Run) -> None:
    ours, theirs = socket.socketpair()

    async def main() -> None:
        with pytest.raises(io.UnsupportedOperation, match="not seekable"):
            await proactor.open(ours.fileno(), "r+b")
        async with proactor.open(ours.fileno(), "r+b", buffering=0, closefd=False) as file:
            await file.write(b"to")
            assert theirs.recv(10) == b"to"
            theirs.send(b"fro")
            assert await file.read(10) == b"fro"

    with ours, theirs:
        run(in_time(main()))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_dropped_file_is_written_to_its_end(
    event_loop_factory: LoopFactory, engine: str, tmp_path: Path, closes: bool, count: int
) -> None:
    path = tmp_path / "f"
    expected = b"".join(bytes([at]) * 3000 for at in range(count))

    async def write() -> Any:
        file = await proactor.open(path, "wb", buffering=4096, engine=engine)
        for at in range(count):
            await file.write(bytes([at]) * 3000)
        return file

    event_loop = event_loop_factory()
    try:
        file = event_loop.run_until_complete(write())
        del file
        if not closes:
            event_loop.run_until_complete(in_time(until(lambda: path.stat().st_size == len(expected))))
    finally:
        event_loop.close()
    assert path.read_bytes() == expected


@needs("O_DIRECT")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("size", [100, 4096, 5000, 20_001])
def test_a_dropped_direct_file_is_written_to_its_end(
    event_loop_factory: LoopFactory, engine: str, tmp_path: Path, closes: bool, size: int
) -> None:
    """Whole blocks are one op, and what is left of the last one is another."""
    path = tmp_path / "f"

    async def write() -> Any:
        file = await proactor.open(path, "wb", buffering=65_536, engine=engine, direct=True)
        await file.write(content(size))
        return file

    event_loop = event_loop_factory()
    try:
        file = event_loop.run_until_complete(write())
        del file
        if not closes:
            event_loop.run_until_complete(in_time(until(lambda: path.stat().st_size == size)))
    finally:
        event_loop.close()
    assert path.read_bytes() == content(size)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_dropped_file_is_written_in_short_parts(run: Run, engine: str) -> None:
    """To a pipe that has room for a page at a time."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(reader, False)
    expected = content(50_000)

    async def main() -> bytes:
        file = await proactor.open(writer, "wb", buffering=65_536, engine=engine)
        await file.write(expected)
        del file
        found = b""
        while len(found) < len(expected):
            try:
                found += os.read(reader, 1000)
            except BlockingIOError:
                await asyncio.sleep(0)
        return found

    try:
        assert run(in_time(main())) == expected
    finally:
        os.close(reader)


def test_the_loop_ends_while_it_writes(event_loop_factory: LoopFactory, engine: str, tmp_path: Path) -> None:
    """What was written is written, in the file's order."""
    path = tmp_path / "f"

    async def write() -> Any:
        file = await proactor.open(path, "wb", engine=engine)
        for at in range(5):
            await file.write(content(20_000, at))
        return file

    expected = b"".join(content(20_000, at) for at in range(5))
    for kept in (True, False):
        loop = event_loop_factory()
        file = loop.run_until_complete(write())
        with pytest.warns(ResourceWarning):  # noqa: PT031
            if kept:
                loop.close()
                del file
            else:
                # Its engine may hold it until then.
                del file
                loop.close()
        assert path.read_bytes() == expected


def test_on_another_loop(event_loop_factory: LoopFactory, engine: str, large: Path) -> None:
    """It says so, closes all the same, and nobody waits for ever."""

    async def begin() -> Any:
        file = await proactor.open(large, "r+b", engine=engine)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(file.read(), 0)
        return file

    async def end(file: Any) -> None:
        await file.seek(2 * MIB)
        with pytest.raises(RuntimeError, match="another event loop"):
            await in_time(file.write(b"x" * MIB))
        await in_time(file.close())
        assert file.closed

    for closed_before in (True, False):
        first, second = event_loop_factory(), event_loop_factory()
        file = first.run_until_complete(begin())
        if closed_before:
            first.close()
            second.run_until_complete(end(file))
        else:
            second.run_until_complete(end(file))
            first.close()
        second.close()


def test_a_close_that_nobody_awaits_tells_of_its_error(run: Run, engine: str) -> None:
    seen = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context))
        file = await proactor.open("/dev/full", "wb", engine=engine)
        await file.write(b"x")
        closing = asyncio.ensure_future(file.close())
        await asyncio.sleep(0)
        closing.cancel()
        found = (await asyncio.gather(closing, return_exceptions=True))[0]
        # Cancelled before the device has said no, or after.
        await until(lambda: file.closed and (isinstance(found, OSError) or seen))
        assert isinstance(found, OSError) or [type(c["exception"]) for c in seen] == [OSError]

    run(in_time(main()))


def test_a_close_cancelled_in_the_queue_closes(run: Run, engine: str, tmp_path: Path) -> None:
    async def main() -> None:
        file = await proactor.open(tmp_path / "f", "wb", engine=engine)
        writing = asyncio.ensure_future(file.write(b"x" * MIB))
        closing = asyncio.ensure_future(file.close())
        await asyncio.sleep(0)
        closing.cancel()
        assert await writing == MIB
        await until(lambda: file.closed)

    run(in_time(main()))
    assert (tmp_path / "f").stat().st_size == MIB


def test_a_turn_is_not_kept_after_an_error(run: Run, path: Path) -> None:
    async def main() -> Any:
        return await proactor.open(path, "rb")

    async def after(file: Any) -> bytes:
        data = await in_time(file.read(3))
        assert isinstance(data, bytes)
        await file.close()
        return data

    async def whole() -> bytes:
        file = await main()

        def by_hand() -> None:
            asyncio._set_running_loop(None)
            try:
                with pytest.raises(RuntimeError):
                    file.read(1).send(None)
            finally:
                asyncio._set_running_loop(loop)

        loop = asyncio.get_running_loop()
        by_hand()
        return await after(file)

    assert run(whole()) == content(3)


def test_no_descriptor_is_left(run: Run, engine: str, path: Path) -> None:
    async def main() -> None:
        await (await proactor.open(path, "rb", engine=engine)).close()
        before = descriptors()
        for _ in range(10):
            file = await proactor.open(path, "rb", engine=engine)
            await file.read(10)
            with pytest.warns(ResourceWarning):
                del file
            assert descriptors() == before

    run(main())


def test_closed_twice_at_once(run: Run, engine: str, tmp_path: Path) -> None:
    async def main() -> None:
        file = await proactor.open(tmp_path / "f", "wb", engine=engine)
        await file.write(b"written")
        await asyncio.gather(*(file.close() for _ in range(3)))

    run(main())
    assert (tmp_path / "f").read_bytes() == b"written"


@pytest.mark.parametrize("mode", ["wb", "w"])
def test_a_full_buffer_is_written_without_another_call(
    run: Run, engine: str, tmp_path: Path, mode: str
) -> None:
    path = tmp_path / "f"
    data: Any = "ä" * 500 if mode == "w" else bytes(1000)

    async def main() -> None:
        async with proactor.open(
            path, mode, encoding="utf-8" if mode == "w" else None, engine=engine
        ) as file:
            for _ in range(40):
                await file.write(data)
            await until(lambda: path.stat().st_size >= 30_000)

    run(main())


@pytest.mark.parametrize("mode", ["rb", "r"])
def test_lines_of_every_size_that_is_asked_for(run: Run, engine: str, path: Path, mode: str) -> None:
    path.write_bytes(b"a\nbcd\n\nef\nghijk\nlast")

    async def main() -> None:
        for hint in range(24):
            with io.open(path, mode) as model:  # noqa: UP020, ASYNC230
                expected = model.readlines(hint)
            async with proactor.open(path, mode, engine=engine) as file:
                assert await file.readlines(hint) == expected

    run(main())


def test_the_rest_of_a_short_write_needs_no_other_call(run: Run, engine: str) -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    got = bytearray()

    def came() -> bool:
        with contextlib.suppress(BlockingIOError):
            got.extend(os.read(reader, 4096))
        return len(got) >= 30_000

    async def main() -> None:
        async with proactor.open(writer, "wb", engine=engine) as file:
            for _ in range(40):
                await file.write(bytes(1000))
            await until(came)
            closing = asyncio.ensure_future(file.close())
            await until(lambda: (came(), closing.done())[1])
            await closing

    run(main())
    os.close(reader)


def test_closed_elsewhere_while_a_call_of_a_closed_loop_is_kept(
    event_loop_factory: LoopFactory, engine: str
) -> None:
    reader, writer = os.pipe()
    kept: list[Any] = []

    async def begin() -> Any:
        file = await proactor.open(reader, "rb", engine=engine)
        kept.append(file.read(1))
        kept[0].send(None)
        return file

    async def end(file: Any) -> None:
        await in_time(file.close())
        assert file.closed

    first, second = event_loop_factory(), event_loop_factory()
    file = first.run_until_complete(begin())
    first.close()
    second.run_until_complete(end(file))
    second.close()
    kept.clear()
    os.close(writer)
