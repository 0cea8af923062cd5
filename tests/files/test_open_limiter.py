"""`proactor.open(..., limiter=...)`: what bounds the calls that wait for the engine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import COLD_BYTES, MIB, content, in_time, until
from proactor._encoding import PIECE

pytest_plugins = ["file_fixtures"]


class Limiter:
    """A semaphore that counts, and that only the task that has it may give back, as anyio's."""

    def __init__(self, most: int) -> None:
        self.semaphore = asyncio.Semaphore(most)
        self.holders: list[asyncio.Task[Any] | None] = []
        self.entered = 0
        self.most = 0

    async def __aenter__(self) -> None:
        assert asyncio.current_task() not in self.holders
        await self.semaphore.acquire()
        # Even a free one may suspend.
        try:
            await asyncio.sleep(0)
        except BaseException:
            self.semaphore.release()
            raise
        self.holders.append(asyncio.current_task())
        self.entered += 1
        self.most = max(self.most, len(self.holders))

    async def __aexit__(self, *exc_info: object) -> None:
        self.holders.remove(asyncio.current_task())
        self.semaphore.release()
        await asyncio.sleep(0)


def test_held_by_what_waits_for_the_engine(run: Run, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "f"

    async def main() -> None:
        limiter = Limiter(1)

        async def entered(call: Awaitable[Any]) -> int:
            before = limiter.entered
            await call
            assert not limiter.holders
            return limiter.entered - before

        file: Any = None

        async def opening() -> None:
            nonlocal file
            file = await proactor.open(path, "w+b", engine=engine, limiter=limiter)

        assert await entered(opening()) == 1
        assert await entered(file.write(b"short")) == 0
        assert await entered(file.tell()) == 0
        assert await entered(file.flush()) == 1
        assert await entered(file.flush()) == 0
        assert await entered(file.write(content(MIB))) == 1
        assert await entered(file.pwrite(b"SHORT", 0)) == 1
        assert await entered(file.fsync()) == 1
        assert await entered(file.seek(0)) == 0
        # Cached now, unless the file system has no way to say so.
        assert await entered(file.read(10)) <= 1
        assert await entered(file.truncate(7)) == 1
        assert await entered(file.lock()) == 0
        assert await entered(file.unlock()) == 0
        assert await entered(file.write(b"buffered")) == 0
        assert await entered(file.close()) == 0

    run(in_time(main()))
    assert path.read_bytes() == b"SHORT" + content(2) + bytes(3) + b"buffered"


def test_bounds_all_files_together(run: Run, engine: str, cold: Path) -> None:
    """Direct, so that each read waits."""

    async def main() -> None:
        limiter = Limiter(3)
        options: Any = {"direct": True, "engine": engine, "limiter": limiter}

        async def whole(mode: str, encoding: str | None) -> int:
            file: Any
            async with proactor.open(cold, mode, -1, encoding, **options) as file:
                return len(await file.read())

        async def lines() -> int:
            async with proactor.open(cold, encoding="latin-1", newline="", **options) as file:
                return sum([len(line) async for line in file])

        async def places() -> int:
            async with proactor.open(cold, "rb", **options) as file:
                calls: list[Any] = [file.pread(MIB, at * MIB) for at in range(3)]
                return sum([len(piece) for piece in await asyncio.gather(*calls)])

        found = await asyncio.gather(whole("rb", None), whole("r", "latin-1"), lines(), places())
        assert list(found) == [COLD_BYTES] * 4
        assert limiter.most == 3
        assert not limiter.holders

    run(in_time(main()))


def test_written_behind_it(run: Run, engine: str, tmp_path: Path) -> None:
    """Nothing goes to the engine without it, and everything to the file."""

    async def main() -> None:
        limiter = Limiter(1)

        async def lines(name: str) -> None:
            async with proactor.open(tmp_path / name, "w", engine=engine, limiter=limiter) as file:
                for at in range(20_000):
                    await file.write(f"{name} {at}\n")

        await asyncio.gather(*(lines(name) for name in "abc"))
        assert limiter.most == 1

    run(in_time(main()))
    for name in "abc":
        assert (tmp_path / name).read_text().splitlines() == [f"{name} {at}" for at in range(20_000)]


CALLS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "read": lambda file: file.read(),
    "read some": lambda file: file.read(10),
    "readinto": lambda file: file.readinto(bytearray(MIB)),
    "readline": lambda file: file.readline(),
    "pread": lambda file: file.pread(10, MIB),
    "advise": lambda file: file.advise(os.POSIX_FADV_NORMAL),
    "truncate": lambda file: file.truncate(1),
    "pwrite": lambda file: file.pwrite(b"x", 100),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["cancelled", "closed"])
def test_given_up_while_it_waits(run: Run, engine: str, cold: Path, name: str, kind: str) -> None:
    """Nothing has happened, and the next call has the file. Direct, so that each read waits."""

    async def main() -> None:
        semaphore = asyncio.Semaphore(1)
        options: Any = {"direct": True, "engine": engine, "limiter": semaphore}
        async with proactor.open(cold, "r+b", **options) as file:
            await semaphore.acquire()
            call: Any = CALLS[name](file)
            if kind == "cancelled":
                task = asyncio.ensure_future(call)
                for _ in range(3):
                    await asyncio.sleep(0)
                assert not task.done()
                task.cancel()
                assert await asyncio.wait([task], timeout=10)
                assert task.cancelled()
            else:
                call.send(None)
                call.close()
            assert await file.tell() == 0
            waiting = asyncio.ensure_future(file.fsync())
            await asyncio.sleep(0)
            assert not waiting.done()
            semaphore.release()
            await waiting
            assert await file.read() == content(COLD_BYTES)
            assert not semaphore.locked()

    run(in_time(main()))
    assert cold.read_bytes() == content(COLD_BYTES)


def test_a_write_given_up_while_it_waits(run: Run, engine: str, tmp_path: Path) -> None:
    """It has begun: with whatever comes next, or at the end, it is written. (The text is encoded at once.)"""

    async def main() -> None:
        semaphore = asyncio.Semaphore(1)
        for mode, data in (("wb", b"x" * PIECE), ("w", "x" * PIECE)):
            path = tmp_path / mode
            file: Any = await proactor.open(path, mode, engine=engine, limiter=semaphore)
            async with semaphore:
                task = asyncio.ensure_future(file.write(data))
                for _ in range(3):
                    await asyncio.sleep(0)
                task.cancel()
                assert await asyncio.wait([task], timeout=10)
                assert task.cancelled()
                await file.close()
            assert path.read_bytes() == b"x" * PIECE

    run(in_time(main()))


def test_an_open_given_up_while_it_waits(run: Run, engine: str, tmp_path: Path) -> None:
    async def main() -> None:
        semaphore = asyncio.Semaphore(1)
        async with semaphore:
            for mode in ("wb", "w"):

                async def opening(mode: str = mode) -> None:
                    await proactor.open(tmp_path / mode, mode, engine=engine, limiter=semaphore)

                task = asyncio.ensure_future(opening())
                for _ in range(3):
                    await asyncio.sleep(0)
                assert not task.done()
                task.cancel()
                assert await asyncio.wait([task], timeout=10)
                assert task.cancelled()
                assert not (tmp_path / mode).exists()
        async with proactor.open(tmp_path / "f", "w", engine=engine, limiter=semaphore) as file:
            assert await file.write("works") == 5

    run(in_time(main()))
    assert (tmp_path / "f").read_text() == "works"


def test_close_does_not_wait_for_it(run: Run, engine: str, tmp_path: Path) -> None:
    async def main() -> None:
        semaphore = asyncio.Semaphore(1)
        file = await proactor.open(tmp_path / "f", "wb", engine=engine, limiter=semaphore)
        await file.write(b"buffered")
        forgotten = await proactor.open(tmp_path / "g", "wb", engine=engine, limiter=semaphore)
        await forgotten.write(b"forgotten")
        async with semaphore:
            await in_time(file.close())
            with pytest.warns(ResourceWarning):
                del forgotten
            await until(lambda: (tmp_path / "g").stat().st_size)

    run(in_time(main()))
    assert (tmp_path / "f").read_bytes() == b"buffered"
    assert (tmp_path / "g").read_bytes() == b"forgotten"


def test_in_the_order_of_asking(run: Run, engine: str, cold: Path) -> None:
    async def main() -> None:
        semaphore = asyncio.Semaphore(1)
        options: Any = {"direct": True, "engine": engine, "limiter": semaphore}
        async with proactor.open(cold, "rb", **options) as file:
            async with semaphore:
                reading = [asyncio.ensure_future(file.read(size)) for size in (MIB, 100, MIB, 100)]
                for _ in range(3):
                    await asyncio.sleep(0)
                reading[1].cancel()
            found: list[Any] = await asyncio.gather(*reading, return_exceptions=True)
        assert isinstance(found.pop(1), asyncio.CancelledError)
        assert b"".join(found) == content(2 * MIB + 100)

    run(in_time(main()))


def test_what_may_wait_for_a_peer_does_without(run: Run, engine: str) -> None:
    async def main() -> None:
        reader, writer = os.pipe()
        semaphore = asyncio.Semaphore(1)
        async with semaphore, proactor.open(reader, "rb", engine=engine, limiter=semaphore) as file:
            reading = asyncio.ensure_future(file.read(4))
            await asyncio.sleep(0)
            os.write(writer, b"some")
            assert await reading == b"some"
            os.close(writer)

    run(in_time(main()))


def test_errors_come_out(run: Run, engine: str, cold: Path) -> None:
    class Broken(Limiter):
        broken = False

        async def __aenter__(self) -> None:
            await super().__aenter__()
            if self.broken:
                await self.__aexit__()
                raise LookupError

    async def main() -> None:
        limiter = Broken(1)
        with pytest.raises(NotADirectoryError):
            await proactor.open(cold / "no" / "such", "wb", engine=engine, limiter=limiter)
        async with proactor.open(cold, "rb", direct=True, engine=engine, limiter=limiter) as file:
            limiter.broken = True
            for _ in range(2):
                with pytest.raises(LookupError):
                    await file.read(10)
            with pytest.raises(LookupError):
                await file.pread(10, MIB)
            limiter.broken = False
            assert await file.read(10) == content(10)
        assert not limiter.holders

    run(in_time(main()))


def test_one_that_cannot_be_entered(path: Path) -> None:
    for mode in ("r", "rb"):
        with pytest.raises(TypeError, match="asynchronous context manager, not int"):
            proactor.open(path, mode, limiter=3)  # type: ignore[call-overload]


def test_the_names_of_a_call_that_asks_its_limiter(run: Run, tmp_path: Path) -> None:
    """While it runs they are general, and nothing fails."""
    names: set[str] = set()

    class Curious:
        async def __aenter__(self) -> None:
            task = asyncio.current_task()
            assert task is not None
            call: Any = task.get_coro()
            assert call.__qualname__ in repr(task)
            names.update((call.__name__, call.__qualname__, repr(call)))

        async def __aexit__(self, *exc_info: object) -> None:
            pass

    async def main() -> None:
        async with proactor.open(tmp_path / "f", "wb", limiter=Curious()) as file:
            await file.write(b"bytes")
            await asyncio.create_task(file.flush())
        async with proactor.open(tmp_path / "t", "w", limiter=Curious()) as text:
            # Beyond the buffer: Python's coroutine writes it.
            await asyncio.create_task(text.write("x" * MIB))
        await asyncio.create_task(opened())

    async def opened() -> None:
        # A call that asks no limiter of Python's runs no code of Python's, but to make its opener's path.
        def opener(path: str, flags: int) -> int:
            names.add(repr(call))
            return os.open(path, flags)

        call = proactor.open(tmp_path / "f", "rb", opener=opener)
        async with call:
            pass

    run(in_time(main()))
    running = {f"<proactor {name}, running>" for name in ("FileCall", "TextCall", "open")}
    assert {"FileCall", "TextCall", *running} <= names
