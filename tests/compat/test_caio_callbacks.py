"""`proactor.compat.caio`: callbacks that raise, close or ask for events, and operations that cannot start."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
from caio_suite import POOLS, QUEUES, TIMEOUT_S, VARIANTS, Runner, variant
from proactor.compat import caio as ours
from proactor.compat.caio.context import _Pump
from rivals import WithFile

STOPS = [KeyboardInterrupt, SystemExit, asyncio.CancelledError]
ERRORS = [TypeError("bad"), MemoryError(), OSError(errno.EINVAL, "bad"), RuntimeError("bad")]


class CannotStart(ours.Operation):
    """An operation that no context can start."""

    __slots__ = ("problem",)

    problem: Exception

    def _start(self) -> NoReturn:
        raise self.problem


def cannot_start(fd: int, problem: Exception = ERRORS[0]) -> Any:
    operation = CannotStart.fsync(fd)
    operation.problem = problem
    return operation


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> list[type[BaseException]]:
    """What `sys.excepthook` was called with."""
    raised: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, *_: raised.append(kind))
    return raised


class _Suite(WithFile):
    @pytest.fixture
    def raw(self, name: str) -> Iterator[Runner]:
        runner = Runner(ours if name == "automatic" else variant(ours, name))
        yield runner
        runner.close()

    def submit_raising(self, raw: Runner, fd: int, kind: type[BaseException]) -> Any:
        """A read whose callback raises."""

        def callback(result: int) -> None:
            raw.results.put(result)
            raise kind

        operation = raw.module.Operation.read(5, fd, 0)
        operation.set_callback(callback)
        assert raw.context.submit(operation) == 1
        return operation


class TestQueues(_Suite):
    @pytest.fixture(params=[*QUEUES, "automatic"])
    def name(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.mark.parametrize("what", ["process_events", "close"])
    @pytest.mark.parametrize("within", ["process_events", "close"])
    def test_a_callback_that_calls(self, raw: Runner, fd: int, what: str, within: str) -> None:
        results = []

        def callback(result: int) -> None:
            results.append(result)
            getattr(raw.context, what)()

        operations = [raw.module.Operation.write(b"abc", fd, 0) for _ in range(3)]
        for operation in operations:
            operation.set_callback(callback)
        assert raw.context.submit(*operations) == 3
        if within == "close":
            raw.context.close()
        else:
            assert raw.context.process_events(8, 3, None) == 3
        assert results == [3] * 3

    @pytest.mark.parametrize("kind", STOPS)
    def test_an_interrupt_comes_after_the_other_callbacks(
        self, raw: Runner, fd: int, kind: type[BaseException], hooked: list[type[BaseException]]
    ) -> None:
        for each in (kind, ZeroDivisionError, GeneratorExit):
            self.submit_raising(raw, fd, each)
        with pytest.raises(kind):
            raw.context.process_events(8, 3, None)
        assert [raw.results.get_nowait() for _ in range(3)] == [5] * 3
        assert hooked == [ZeroDivisionError]
        assert raw.run(raw.module.Operation.read(5, fd, 0)) == 5

    def test_a_hook_that_exits(self, raw: Runner, fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "excepthook", lambda *_: sys.exit(1))
        for _ in range(3):
            self.submit_raising(raw, fd, ZeroDivisionError)
        with pytest.raises(SystemExit):
            raw.context.process_events(8, 3, None)
        assert raw.results.qsize() == 3

    def test_an_interrupt_in_close(self, raw: Runner, pipe: tuple[int, int]) -> None:
        for _ in range(2):
            self.submit_raising(raw, pipe[0], KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            raw.context.close()
        assert [raw.results.get_nowait() for _ in range(2)] == [-errno.ECANCELED] * 2
        assert raw.context._core.context.closed


class TestPools(_Suite):
    @pytest.fixture(params=POOLS)
    def name(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.mark.parametrize("kind", STOPS)
    def test_a_callback_that_raises(
        self, raw: Runner, fd: int, kind: type[BaseException], hooked: list[type[BaseException]]
    ) -> None:
        self.submit_raising(raw, fd, kind)
        assert raw.results.get(timeout=TIMEOUT_S) == 5
        assert raw.run(raw.module.Operation.read(5, fd, 0)) == 5
        raw.close()
        assert hooked == [kind]

    @pytest.mark.parametrize("problem", ERRORS, ids=repr)
    def test_an_operation_that_cannot_start(self, raw: Runner, fd: int, problem: Exception) -> None:
        bad = cannot_start(fd, problem)
        assert raw.run(bad) == -errno.EINVAL
        with pytest.raises(OSError, match=re.escape(f"[Errno {errno.EINVAL}]")):
            bad.get_value()
        assert raw.run(raw.module.Operation.read(5, fd, 0)) == 5

    def test_what_a_dead_thread_leaves(
        self, raw: Runner, fd: int, pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = _Pump._start

        def dying(pump: _Pump, core: Any, operation: Any) -> None:
            start(pump, core, operation)
            raise ZeroDivisionError

        died: list[Any] = []
        monkeypatch.setattr(threading, "excepthook", lambda args: died.append(args.exc_type))
        monkeypatch.setattr(_Pump, "_start", dying)
        operations = [raw.module.Operation.read(5, pipe[0], 0) for _ in range(3)]
        for operation in operations:
            operation.set_callback(raw.results.put)
        assert raw.context.submit(*operations) == 3
        assert [raw.results.get(timeout=TIMEOUT_S) for _ in range(3)] == [-errno.EIO] * 3
        with pytest.raises(OSError, match="died"):
            operations[0].get_value()
        with pytest.raises(RuntimeError, match="closed"):
            raw.context.submit(raw.module.Operation.fsync(fd))
        raw.context._pump.join(TIMEOUT_S)
        assert died == [ZeroDivisionError]


class TestAll(_Suite):
    @pytest.fixture(params=VARIANTS)
    def name(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    def test_a_payload_with_a_zero_in_its_shape(
        self, raw: Runner, fd: int, direct_file: tuple[Path, int]
    ) -> None:
        for file in (fd, direct_file[1]):
            assert raw.run(raw.module.Operation.write(((ctypes.c_char * 3) * 0)(), file, 0)) == 0

    @pytest.mark.parametrize("problem", ERRORS, ids=repr)
    def test_only_the_bad_one_of_a_turn_fails(self, name: str, fd: int, problem: Exception) -> None:
        async def main() -> None:
            module = variant(ours, f"{name}_asyncio")
            async with module.AsyncioContext(deferred=True) as context:
                ends = asyncio.gather(
                    context.read(5, fd, 0),
                    context.submit(cannot_start(fd, problem)),
                    context.read(5, fd, 6),
                    return_exceptions=True,
                )
                first, bad, last = await asyncio.wait_for(ends, TIMEOUT_S)
            assert (first, last) == (b"hello", b"world")
            assert bad is problem

        asyncio.run(main())
