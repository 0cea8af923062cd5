"""`wrap`: synchronous file objects with the interface of ours."""

from __future__ import annotations

import asyncio
import gc
import gzip
import io
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import LoopFactory, Run
from file_helpers import in_time, until


class Slow:
    """A file object whose reads wait until they may go on."""

    def __init__(self) -> None:
        self.go_on = threading.Semaphore(0)
        self.calls: list[Any] = []
        self.running = 0

    def read(self, size: int = -1) -> bytes:
        self.running += 1
        assert self.running == 1, "two at a time"
        assert self.go_on.acquire(timeout=30)
        self.calls.append(size)
        self.running -= 1
        if size == 13:
            raise OSError(5, "unlucky")
        return b"x" * size

    def close(self) -> None:
        self.calls.append("close")


def test_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"

    async def main() -> None:
        async with proactor.wrap(open(str(path), "w+", encoding="utf-8")) as file:  # noqa: ASYNC230
            assert await file.write("one\n") == 4
            await file.writelines(f"{at}\n" for at in range(2500))

            async def more() -> Any:
                yield "last"

            await file.writelines(more())
            assert await file.seek(0) == 0
            assert await file.readline() == "one\n"
            place = await file.tell()
            assert [line async for line in file] == [*(f"{at}\n" for at in range(2500)), "last"]
            await file.seek(place)
            assert await file.read(2) == "0\n"
            assert (await file.readlines())[-1] == "last"
            assert await file.truncate(3) == 3
            await file.flush()
            assert (file.name, file.mode, file.encoding, file.closed) == (str(path), "w+", "utf-8", False)
            assert os.fstat(file.fileno()).st_size == 3
            assert (file.readable(), file.writable(), file.seekable()) == (True, True, True)
            assert not file.isatty()
        assert file.closed
        await file.close()
        with pytest.raises(ValueError, match="closed file"):
            await file.read()

    run(main())


def test_bytes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\n")

    async def main() -> None:
        async with proactor.wrap(open(path, "rb")) as file:  # noqa: ASYNC230
            assert (await file.peek())[:3] == b"one"
            assert await file.read1(4) == b"one\n"
            into = bytearray(2)
            assert await file.readinto(into) == 2
            assert await file.readinto1(into) == 2
            assert into == b"o\n"
            assert await file.read() == b""
            with pytest.raises(io.UnsupportedOperation):
                await file.write(b"x")

    run(main())


def test_a_file_of_another_kind(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "f.gz"

    async def main() -> None:
        async with proactor.wrap(gzip.open(path, "wb")) as file:
            await file.write(b"one\ntwo\n")
        async with proactor.wrap(gzip.open(path, "rb")) as file:
            assert await file.readline() == b"one\n"
            # A method that files of the system have not.
            await file.rewind()
            assert await file.read() == b"one\ntwo\n"

    run(main())


@pytest.mark.parametrize(
    "make",
    [
        lambda: io.StringIO("one\ntwo\n"),
        lambda: io.TextIOWrapper(io.BytesIO(b"one\ntwo\n"), "utf-8"),
        lambda: io.TextIOWrapper(io.BufferedRandom(io.BytesIO(b"one\ntwo\n")), "utf-8"),  # type: ignore[arg-type]
    ],
)
def test_in_memory_nothing_suspends(make: Any) -> None:
    """Not even a loop is needed."""

    def now(call: Coroutine[Any, Any, Any]) -> Any:
        try:
            call.send(None)
        except StopIteration as end:
            return end.value
        raise AssertionError("it suspended")

    file = proactor.wrap(make())
    assert now(file.readline()) == "one\n"
    assert now(file.__anext__()) == "two\n"
    with pytest.raises(StopAsyncIteration):
        now(file.__anext__())
    assert now(file.seek(0)) == 0
    now(file.writelines(["O", "N"]))
    now(file.flush())
    now(file.seek(0))
    assert now(file.read()) == "ONe\ntwo\n"
    now(file.close())
    assert file.closed


def test_what_is_in_memory_stays_reachable() -> None:
    file = proactor.wrap(io.BytesIO(b"data"))
    assert file.getvalue() == b"data"
    assert file.getbuffer()[0] == ord("d")


def test_one_at_a_time_in_the_order_of_awaiting(run: Run) -> None:
    slow = Slow()

    async def main() -> None:
        file = proactor.wrap(slow)
        reads = [asyncio.ensure_future(file.read(at)) for at in range(10)]
        await asyncio.sleep(0)
        # One that waits for its turn is never made; one that runs holds up the next.
        reads[0].cancel()
        reads[4].cancel()
        with pytest.raises(asyncio.CancelledError):
            await reads[0]
        for _ in range(10):
            slow.go_on.release()
        assert await asyncio.gather(*reads[1:4], *reads[5:]) == [b"x" * at for at in (1, 2, 3, 5, 6, 7, 8, 9)]
        assert slow.calls == [0, 1, 2, 3, 5, 6, 7, 8, 9]

    run(in_time(main()))


def test_a_turn_that_comes_too_late(run: Run) -> None:
    """Cancelled after it was given the turn, before it has begun: the next has it."""
    slow = Slow()

    async def main() -> None:
        file = proactor.wrap(slow)
        reads = [asyncio.ensure_future(file.read(at)) for at in range(3)]
        await asyncio.sleep(0)
        reads[0].add_done_callback(lambda _: reads[1].cancel())
        slow.go_on.release()
        slow.go_on.release()
        assert await reads[2] == b"xx"
        assert await reads[0] == b""
        assert slow.calls in ([0, 2], [0, 1, 2])

    slow.go_on.release()
    run(in_time(main()))


def test_errors_pass_on_the_turn(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()

    async def main() -> None:
        file = proactor.wrap(slow)
        for _ in range(3):
            slow.go_on.release()
        with pytest.raises(OSError, match="unlucky") as caught:
            await file.read(13)
        assert caught.value.errno == 5
        assert await file.read(1) == b"x"
        # Nobody hears of this one.
        unheard = asyncio.ensure_future(file.read(13))
        await asyncio.sleep(0)
        unheard.cancel()
        await file.close()
        assert slow.calls[-1] == "close"
        with pytest.raises(AttributeError):
            await file.write(b"")

    run(in_time(main()))
    gc.collect()
    assert not caplog.records


def test_on_another_loop(event_loop_factory: LoopFactory) -> None:
    """A call that the first loop has left behind does not hold up the second for ever."""
    slow = Slow()
    file = proactor.wrap(slow)

    async def begin() -> None:
        reading = asyncio.ensure_future(file.read(1))
        await until(lambda: slow.running)
        reading.cancel()

    async def go_on() -> bytes:
        found = await in_time(file.read(2))
        assert isinstance(found, bytes)
        return found

    first, second = event_loop_factory(), event_loop_factory()
    first.run_until_complete(begin())
    first.close()
    slow.go_on.release()
    slow.go_on.release()
    while slow.running:
        pass
    assert second.run_until_complete(go_on()) == b"xx"
    second.close()


def test_what_is_no_file(run: Run) -> None:
    with pytest.raises(TypeError, match="not int"):
        proactor.wrap(3)
    with pytest.raises(TypeError, match="asynchronous already"):
        proactor.wrap(proactor.wrap(io.BytesIO()))

    async def main() -> None:
        async with proactor.open(os.devnull) as file:
            with pytest.raises(TypeError, match="asynchronous already"):
                proactor.wrap(file)

    run(main())


def test_context_variables_and_threads(run: Run) -> None:
    from contextvars import ContextVar

    variable: ContextVar[str] = ContextVar("variable")

    class Asks:
        def read(self, size: int) -> tuple[str, bool]:
            return variable.get(), threading.current_thread() is threading.main_thread()

    async def main() -> None:
        variable.set("seen")
        assert await proactor.wrap(Asks()).read() == ("seen", False)

    run(main())
