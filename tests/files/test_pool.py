"""The threads that calls run in: results, errors, context, cancelling, and where the threads belong."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import inspect
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Run
from file_helpers import DEADLINE_S, in_time, until
from proactor import _pool
from proactor._pool import in_place, threaded

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")


def double(x: int, *, more: int = 0) -> int:
    """Twice."""
    return 2 * x + more


def test_results_and_errors_come_from_a_thread(run: Run) -> None:
    async def main() -> None:
        assert await threaded(double)(4, more=1) == 9
        assert await threaded(threading.current_thread)() is not threading.main_thread()
        with pytest.raises(TypeError, match="unexpected keyword"):
            await threaded(double)(4, less=1)  # type: ignore[call-arg]

    run(main())


def test_a_stop_iteration_is_no_end_of_the_caller(run: Run) -> None:
    """asyncio's futures refuse it: `asyncio.to_thread` waits for ever (CPython before 3.12)."""

    def stop() -> None:
        raise StopIteration("no more")

    async def main() -> None:
        for waits in (threaded(stop), lambda: _pool.alone(stop), lambda: _pool.make(stop, lambda _: None)):
            with pytest.raises(RuntimeError, match="StopIteration") as caught:
                await in_time(waits())
            assert isinstance(caught.value.__cause__, StopIteration)

    run(main())


def test_the_callers_context(run: Run) -> None:
    def change() -> str:
        seen = variable.get()
        variable.set("the thread's")
        return seen

    async def main() -> None:
        variable.set("the caller's")
        assert await threaded(change)() == "the caller's"
        assert variable.get() == "the caller's"

    run(main())


@pytest.mark.parametrize("kind", [threaded, in_place])
def test_the_functions_name_and_signature(kind: Callable[..., Any]) -> None:
    call = kind(double)
    assert inspect.iscoroutinefunction(call)
    assert inspect.signature(call) == inspect.signature(double)
    assert call.__name__ == call.__qualname__ == "double"
    assert call.__module__ == __name__
    assert call.__doc__.startswith("Twice.\n\nA coroutine")


def test_in_place() -> None:
    with pytest.raises(StopIteration) as end:
        in_place(double)(3).send(None)
    assert end.value.value == 6


def test_errors_hold_nothing_in_a_circle(run: Run) -> None:
    class Failure(Exception):
        pass

    def fail() -> None:
        raise Failure

    async def main() -> weakref.ref[Failure]:
        try:
            await threaded(fail)()
        except Failure as error:
            return weakref.ref(error)
        raise AssertionError("it did not fail")

    gc.disable()
    try:
        error = run(main())
        deadline = time.monotonic() + DEADLINE_S
        while error() and time.monotonic() < deadline:
            time.sleep(0.001)  # the thread may have the loop's last call to return from
        assert error() is None
    finally:
        gc.enable()


class Gate:
    """A call that waits until it is told to go on."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()
        self.passed: list[int] = []

    def __call__(self) -> None:
        self.entered.release()
        assert self.open.wait(30)
        self.passed.append(1)

    async def until_entered(self, count: int) -> None:
        for _ in range(count):
            await until(lambda: self.entered.acquire(blocking=False))


def test_cancelled_calls(run: Run) -> None:
    """One that a thread has begun ends; one that was waiting for a thread is never made."""
    made: list[int] = []
    gate = Gate()

    async def main() -> None:
        calls = [_pool.run(gate) for _ in range(_pool.MOST_THREADS)]
        await in_time(gate.until_entered(_pool.MOST_THREADS))
        calls.append(_pool.run(made.append, 1))
        for call in calls:
            call.cancel()
        for call in calls:
            with pytest.raises(asyncio.CancelledError):
                await in_time(call)
        gate.open.set()
        await in_time(_pool.run(made.append, 2))
        await until(lambda: len(gate.passed) == _pool.MOST_THREADS)

    run(main())
    assert made == [2]


def test_a_loop_that_is_closed_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()

    async def main() -> asyncio.Future[None]:
        future = _pool.run(gate)
        await in_time(gate.until_entered(1))
        return future

    loop = asyncio.new_event_loop()
    future = loop.run_until_complete(main())
    loop.close()
    gate.open.set()
    while not gate.passed:
        os.sched_yield()
    assert not future.done()
    assert not caplog.records


def test_without_a_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        _pool.run(double, 1)


def test_each_loop_has_a_pool(run: Run) -> None:
    async def main() -> int:
        await _pool.run(double, 1)
        return len(_pool._pools)

    gc.collect()
    before = len(_pool._pools)
    assert run(main()) == before + 1


def test_a_forked_child_starts_its_own(run: Run) -> None:
    async def main() -> None:
        await _pool.run(double, 1)

    async def parent() -> int:
        await _pool.run(double, 1)
        child = os.fork()
        if child == 0:
            try:
                asyncio.events._set_running_loop(None)
                asyncio.run(main())
                os._exit(0)
            finally:
                os._exit(1)
        return child

    _, status = os.waitpid(run(parent()), 0)
    assert os.waitstatus_to_exitcode(status) == 0
