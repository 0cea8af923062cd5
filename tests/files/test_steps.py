"""Generators advanced by threads: values, errors, and what a cancelled one still does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import aclosing

import pytest
from conftest import Run
from file_helpers import in_time, turns, until
from proactor._pool import MOST_THREADS
from proactor._pool import run as run_in_thread
from proactor._steps import in_slices, in_steps, once

DEADLINE_S = 30


class Work:
    """A generator of ten steps that can be held up in one of them."""

    def __init__(self, held_at: int | None = None) -> None:
        self.held_at = held_at
        self.done: list[int] = []
        self.threads: set[threading.Thread] = set()
        self.closed = 0
        self.held, self.go_on = threading.Event(), threading.Event()

    def steps(self) -> Generator[int, None, str]:
        try:
            for step in range(10):
                self.threads.add(threading.current_thread())
                if step == self.held_at:
                    self.held.set()
                    assert self.go_on.wait(DEADLINE_S)
                self.done.append(step)
                yield step
        finally:
            self.closed += 1
        return "result"


class TestInSteps:
    @pytest.mark.parametrize("slice_s", [0.0, 10.0])
    def test_runs_to_its_end_in_threads(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, slice_s: float
    ) -> None:
        monkeypatch.setattr("proactor._steps.SLICE_S", slice_s)
        work = Work()

        async def main() -> str:
            with turns() as count:
                result = await in_steps(work.steps())
                # A hop for each slice.
                assert (count() >= 10) is (slice_s == 0.0)
            return result

        assert run(main()) == "result"
        assert (work.done, work.closed) == (list(range(10)), 1)
        assert threading.current_thread() not in work.threads

    def test_an_error_is_raised(self, run: Run) -> None:
        def steps() -> Generator[None, None, None]:
            yield
            raise LookupError("this")

        async def main() -> None:
            with pytest.raises(LookupError, match="this"):
                await in_steps(steps())

        run(main())

    def test_once(self, run: Run) -> None:
        async def main() -> int:
            return await in_steps(once(int, "17", base=8))

        assert run(main()) == 15

    @pytest.mark.parametrize("times", [1, 3])
    def test_cancelled_it_waits_for_the_step_in_hand(self, run: Run, times: int) -> None:
        work = Work(held_at=4)

        async def main() -> None:
            task = asyncio.create_task(in_steps(work.steps()))
            await until(work.held.is_set)
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            assert not task.done()
            work.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await in_time(task)
            # Now, and not later.
            assert (work.done, work.closed) == ([0, 1, 2, 3, 4], 1)

        run(main())
        assert work.done == [0, 1, 2, 3, 4]

    def test_cancelled_while_no_thread_is_free(self, run: Run) -> None:
        work, go_on = Work(), threading.Event()

        async def main() -> None:
            others = [run_in_thread(go_on.wait, DEADLINE_S) for _ in range(MOST_THREADS)]
            task = asyncio.create_task(in_steps(work.steps()))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await in_time(task)
            go_on.set()
            await asyncio.gather(*others)

        run(main())
        assert (work.done, work.closed) == ([], 0)

    def test_cancelled_between_steps_while_no_thread_is_free(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It leaves at once, and the next free thread closes the generator."""
        monkeypatch.setattr("proactor._steps.SLICE_S", 0.0)
        monkeypatch.setattr("proactor._pool.MOST_THREADS", 1)
        work = Work(held_at=3)
        begun, go_on = threading.Event(), threading.Event()

        def wait() -> bool:
            begun.set()
            return go_on.wait(DEADLINE_S)

        async def main() -> None:
            task = asyncio.create_task(in_steps(work.steps()))
            await until(work.held.is_set)
            other = run_in_thread(wait)
            work.go_on.set()
            await until(begun.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await in_time(task)
            assert work.closed == 0
            go_on.set()
            await other
            await until(lambda: work.closed)

        run(main())
        assert work.done == [0, 1, 2, 3]


class TestInSlices:
    @pytest.mark.parametrize(("items", "slice_s"), [(512, 10.0), (3, 10.0), (1, 10.0), (512, 0.0)])
    def test_values(self, run: Run, monkeypatch: pytest.MonkeyPatch, items: int, slice_s: float) -> None:
        monkeypatch.setattr("proactor._steps.SLICE_ITEMS", items)
        monkeypatch.setattr("proactor._steps.SLICE_S", slice_s)
        work = Work()

        async def main() -> list[int]:
            return [step async for step in in_slices(work.steps())]

        assert run(main()) == list(range(10))
        assert work.closed == 1
        assert threading.current_thread() not in work.threads

    def test_what_came_before_an_error_is_given_first(self, run: Run) -> None:
        def items() -> Generator[int, None, None]:
            yield from (1, 2)
            raise LookupError("this")

        async def main() -> None:
            found = in_slices(items())
            assert [await anext(found), await anext(found)] == [1, 2]
            with pytest.raises(LookupError, match="this"):
                await anext(found)

        run(main())

    def test_left_early(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("proactor._steps.SLICE_ITEMS", 3)
        work = Work()

        async def main() -> None:
            async with aclosing(in_slices(work.steps())) as items:
                async for _ in items:
                    break
            assert work.closed == 1

        run(main())
        assert work.done == [0, 1, 2]

    def test_cancelled_it_leaves_at_once(self, run: Run) -> None:
        work = Work(held_at=4)

        async def main() -> None:
            items = in_slices(work.steps())
            task = asyncio.create_task(anext(items))
            await until(work.held.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await in_time(task)
            with pytest.raises(StopAsyncIteration):
                await anext(items)
            assert work.closed == 0
            work.go_on.set()
            await until(lambda: work.closed)

        run(main())
        assert work.done == [0, 1, 2, 3, 4]
