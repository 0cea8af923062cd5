"""How the calls of many tasks share the loop's turns.

Each call is followed by a while of work, longer than a machine may be quick, so that a turn is used up after
a known number of calls: a slower machine makes fewer.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import in_time, turns

TASKS = 60
# So many calls that gave way go on in one turn of the loop, and as many calls as this, or lines, are made
# between two looks at the clock (turn.rs, text_state.rs).
SHARES, LOOK_EVERY, LINES = 5, 16, 128
# Completions that one wake-up takes (driver.rs).
BATCH = 16

Work = Callable[[Path], AsyncGenerator[object, None]]


async def writes(path: Path) -> AsyncGenerator[object, None]:
    async with proactor.open(path, "w", encoding="utf-8") as file:
        while True:
            yield await file.write("line\n")


async def binary_writes(path: Path) -> AsyncGenerator[object, None]:
    async with proactor.open(path, "wb") as file:
        while True:
            yield await file.write(b"line\n")


async def lines(path: Path) -> AsyncGenerator[object, None]:
    async with proactor.open(path, encoding="utf-8") as file:
        async for line in file:
            yield line


async def reads_at(path: Path) -> AsyncGenerator[object, None]:
    async with proactor.open(path, "rb") as file:
        while True:
            yield await file.pread(4, 0)


async def opens(path: Path) -> AsyncGenerator[object, None]:
    while True:
        async with proactor.open(path, "rb") as file:
            yield file


async def whole_files(path: Path) -> AsyncGenerator[object, None]:
    while True:
        yield await proactor.read_bytes(path)


async def many_files(path: Path) -> AsyncGenerator[object, None]:
    async for pair in proactor.read_many([path] * 10_000):
        yield pair


async def questions(path: Path) -> AsyncGenerator[object, None]:
    while True:
        yield await proactor.os.stat(path)


WORK = [writes, binary_writes, reads_at, opens, whole_files, many_files, questions]


async def flat_out(work: Work, folder: Path, calls: int, work_s: float) -> list[tuple[int, int]]:
    """The turn of the loop and the task of each call but each task's first: all have begun by then."""
    found: list[tuple[int, int]] = []
    begun = 0
    all_have = asyncio.Event()

    async def one(number: int) -> None:
        nonlocal begun
        left = calls
        async with aclosing(work(folder / str(number))) as calls_of_this:
            await anext(calls_of_this)
            begun += 1
            if begun == TASKS:
                all_have.set()
            await all_have.wait()
            async for _ in calls_of_this:
                found.append((turn(), number))
                end = time.perf_counter() + work_s
                while time.perf_counter() < end:
                    pass
                left -= 1
                if not left:
                    return

    for number in range(TASKS):
        (folder / str(number)).write_text("line\n" * 1000)
    with turns() as turn:
        await asyncio.gather(*map(one, range(TASKS)))
    return found


def busiest(found: list[tuple[int, int]]) -> int:
    """The most calls in one turn, but for the first ones: nobody has given way yet when all tasks begin."""
    counts = Counter(turn for turn, _ in found)
    first = min(counts)
    return max(count for turn, count in counts.items() if turn > first + 2)


def most(calls: int) -> int:
    """Calls in a turn, if so many use up a share. (The end of one turn may be counted with the next.)"""
    return 2 * (SHARES + 1) * calls


@pytest.mark.parametrize("work", WORK)
def test_a_turn_is_shared_by_all_tasks(run: Run, tmp_path: Path, work: Work) -> None:
    """However many they are. A share, a fifth of a millisecond, is used up at the first look at the clock."""
    found = run(in_time(flat_out(work, tmp_path, calls=4 * LOOK_EVERY, work_s=50e-6)))
    assert busiest(found) <= most(LOOK_EVERY) < TASKS * LOOK_EVERY


def test_lines(run: Run, tmp_path: Path) -> None:
    found = run(in_time(flat_out(lines, tmp_path, calls=3 * LINES, work_s=5e-6)))
    assert busiest(found) <= most(LINES) < TASKS * LINES


@pytest.mark.parametrize("work", WORK)
def test_nobody_is_left_behind(run: Run, tmp_path: Path, work: Work) -> None:
    """Those that give way are served in the order in which they did."""
    found = run(in_time(flat_out(work, tmp_path, calls=4 * LOOK_EVERY, work_s=50e-6)))
    by_task: dict[int, list[int]] = {}
    for turn, number in found:
        by_task.setdefault(number, []).append(turn)
    gaps = [b - a for all_of in by_task.values() for a, b in pairwise(all_of)]
    # One turn of the loop for each group of those in the line. (What all begin with is counted, too.)
    assert max(gaps) <= TASKS // SHARES + 4


@pytest.mark.parametrize("call", [proactor.read_bytes, proactor.os.stat, proactor.open])
def test_tasks_that_begin_in_one_turn(run: Run, tmp_path: Path, call: Callable[[Path], Any]) -> None:
    """Each makes its first call at once: to suspend them all would cost more than it spares. Others wait."""
    (tmp_path / "file").write_text("line\n")

    async def one(turn: Callable[[], int], found: list[int], later: list[int]) -> None:
        answer = await call(tmp_path / "file")
        found.append(turn())
        end = time.perf_counter() + 50e-6
        while time.perf_counter() < end:
            pass
        if call is proactor.open:
            await answer.close()
        for _ in range(2 * LOOK_EVERY):
            await proactor.os.stat(tmp_path)
        later.append(turn())

    async def main() -> tuple[list[int], list[int]]:
        found: list[int] = []
        later: list[int] = []
        with turns() as turn:
            await asyncio.gather(*(one(turn, found, later) for _ in range(TASKS)))
        return found, later

    found, later = run(in_time(main()))
    assert set(found) == {found[0]}
    # The first ones found time left.
    assert sum(turn > found[0] for turn in later) > TASKS // 2


@needs("io_uring")
def test_those_whose_ops_have_come_together(run: Run, tmp_path: Path) -> None:
    """A wake-up takes a bounded number, however quick the kernel is and however much is in flight."""
    (tmp_path / "file").write_bytes(b"")
    found: list[int] = []

    async def main() -> None:
        async def one(turn: Callable[[], int], file: proactor.BinaryFile) -> None:
            for _ in range(40):
                # Done in the ring when it is submitted, and never at once.
                await file.advise(os.POSIX_FADV_NORMAL)
                found.append(turn())

        async with proactor.open(tmp_path / "file", "rb", engine="io_uring") as file:
            with turns() as turn:
                await asyncio.gather(*(one(turn, file) for _ in range(20 * BATCH)))

    run(in_time(main()))
    # The loop's reader takes a batch, and so may the handle that submits; one turn may count with the next.
    assert max(Counter(found).values()) <= 4 * BATCH


@needs("io_uring")
def test_those_who_go_on_after_they_were_woken(run: Run, tmp_path: Path) -> None:
    """One call each is free when the turn is used up, not as many as between two looks at the clock."""
    (tmp_path / "file").write_text("line\n")
    found: list[int] = []

    async def main() -> None:
        async def one(turn: Callable[[], int], file: proactor.BinaryFile) -> None:
            await file.advise(os.POSIX_FADV_NORMAL)
            for _ in range(2 * LOOK_EVERY):
                await file.pread(4, 0)
                found.append(turn())
                end = time.perf_counter() + 100e-6
                while time.perf_counter() < end:
                    pass

        async with proactor.open(tmp_path / "file", "rb", engine="io_uring") as file:
            with turns() as turn:
                await asyncio.gather(*(one(turn, file) for _ in range(4 * BATCH)))

    run(in_time(main()))
    assert max(Counter(found).values()) <= most(LOOK_EVERY) < 2 * BATCH * LOOK_EVERY


def test_cancelled_while_it_waits_for_its_share(run: Run, tmp_path: Path) -> None:
    """Others are served in its place, and nothing was done."""

    async def main() -> list[int]:
        async def one(file: proactor.BinaryFile) -> int:
            calls = 0
            try:
                while True:
                    await file.write(b"line\n")
                    calls += 1
                    time.sleep(20e-6)  # noqa: ASYNC251
            except asyncio.CancelledError:
                await file.close()
            return calls

        files = [await proactor.open(tmp_path / str(number), "wb") for number in range(TASKS)]
        tasks = [asyncio.ensure_future(one(file)) for file in files]
        for _ in range(2 * TASKS // SHARES):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
            await asyncio.sleep(0)
        return await asyncio.gather(*tasks)

    calls = run(in_time(main()))
    sizes = [(tmp_path / str(number)).stat().st_size for number in range(TASKS)]
    assert sizes == [5 * count for count in calls]
