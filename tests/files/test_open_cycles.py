"""Open files in circles of references: the collector finds them."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run

# Errors among the results, as most tests look at both.
read_many: Any = partial(proactor.read_many, return_exceptions=True)


class Limiter(asyncio.Semaphore):
    """One that knows a file."""

    file: Any = None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "f"
    path.write_bytes(b"data\n")
    return path


@pytest.mark.parametrize("mode", ["r", "rb"])
def test_a_limiter_that_knows_its_file(run: Run, path: Path, mode: str) -> None:
    async def main() -> weakref.ref[Any]:
        limiter = Limiter()
        limiter.file = await proactor.open(path, mode, limiter=limiter)
        await limiter.file.read()
        await limiter.file.close()
        return weakref.ref(limiter)

    gone = run(main())
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(("mode", "more"), [("ab", b"more\n"), ("a", "more\n")])
def test_open_and_forgotten(run: Run, path: Path, mode: str, more: Any) -> None:
    """It warns and is closed, as one without a circle; what was written is in the file."""

    async def main() -> int:
        limiter = Limiter()
        limiter.file = await proactor.open(path, mode, limiter=limiter)
        await limiter.file.write(more)
        return int(limiter.file.fileno())

    gc.disable()
    try:
        fd = run(main())
        with pytest.warns(ResourceWarning, match="unclosed file"):
            gc.collect()
    finally:
        gc.enable()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
    assert path.read_bytes() == b"data\nmore\n"


def test_a_text_file_that_knows_itself(run: Run, path: Path) -> None:
    async def main() -> weakref.ref[Any]:
        file: Any = await proactor.open(path)
        file.itself = file
        await file.close()
        return weakref.ref(file)

    gone = run(main())
    gc.collect()
    assert gone() is None


def test_a_text_file_that_is_forgotten_half_read(run: Run, path: Path) -> None:
    """What was decoded of it, and who waits for its turn, goes with it."""
    path.write_bytes(b"line\n" * 10_000)

    async def main() -> weakref.ref[Any]:
        limiter = Limiter()
        limiter.file = file = await proactor.open(path, limiter=limiter)
        assert await file.readline() == await file.readline() == "line\n"
        await file.tell()
        return weakref.ref(limiter)

    gc.disable()
    try:
        gone = run(main())
        with pytest.warns(ResourceWarning, match="unclosed file"):
            gc.collect()
    finally:
        gc.enable()
    assert gone() is None


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_batch_whose_paths_know_it(run: Run, path: Path, count: int) -> None:
    class User:
        batch: Any = None

        def paths(self) -> Any:
            for _ in range(10):
                yield path
                assert self.batch

    async def main() -> weakref.ref[Any]:
        user = User()
        user.batch = read_many(path for path in user.paths())
        for _ in range(count):
            assert (await anext(user.batch))[1] == b"data\n"
        return weakref.ref(user)

    gone = run(main())
    gc.collect()
    assert gone() is None


def test_a_batch_that_a_path_knows(run: Run, path: Path) -> None:
    """The path is among those that were read ahead."""

    class Known(type(path)):  # type: ignore[misc]
        batch: Any = None

    async def main() -> weakref.ref[Any]:
        # Never read at once, so that what comes behind it has to be kept.
        known = Known(path)
        known.batch = batch = read_many(iter([Path("/proc/self/status"), path, known]))
        await anext(batch)
        await asyncio.sleep(0.05)
        return weakref.ref(known)

    gone = run(main())
    gc.collect()
    assert gone() is None


def test_an_opener_that_knows_its_open(run: Run, path: Path) -> None:
    async def main() -> weakref.ref[Any]:
        def opener(name: str, flags: int) -> int:
            assert opening
            return os.open(name, flags)

        opening = proactor.open(path, "rb", opener=opener)
        async with opening as file:
            assert await file.read() == b"data\n"
        return weakref.ref(opener)

    gone = run(main())
    gc.collect()
    assert gone() is None


def test_an_open_that_nobody_awaits(run: Run, path: Path) -> None:
    async def main() -> None:
        def opener(name: str, flags: int) -> int:
            raise AssertionError(opening)

        opening = proactor.open(path, "rb", opener=opener)

    gc.disable()
    try:
        run(main())
        with pytest.warns(RuntimeWarning, match="coroutine 'open' was never awaited"):
            gc.collect()
    finally:
        gc.enable()


def test_a_task_that_is_forgotten_while_it_opens(run: Run, path: Path) -> None:
    """The task, its frame and what it awaits know each other, when the loop is gone."""

    async def main() -> weakref.ref[Any]:
        class Slow(asyncio.Event):
            pass

        limiter = Limiter(0)
        event = Slow()

        async def use() -> None:
            async with proactor.open(path, "w+b", limiter=limiter):
                event.set()

        task = asyncio.ensure_future(use())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return weakref.ref(event)

    gone = run(main())
    gc.collect()
    assert gone() is None
