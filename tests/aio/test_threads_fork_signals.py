"""Contexts among threads, forks, signals and the garbage collector; and nothing is left behind."""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aio_helpers import run_one
from proactor import aio

pytest_plugins = ["aio_fixtures"]

SOON_S = 0.02
JOIN_S = 30
# What the allocator may keep without a leak.
SLACK_BYTES = 4 << 20

CALLS: dict[str, Callable[[aio.Context, aio.Op], object]] = {
    "submit": lambda context, op: context.submit(op),
    "wait": lambda context, op: context.wait(0),
    "cancel": lambda context, op: context.cancel(op),
    "fileno": lambda context, op: context.fileno(),
    "close": lambda context, op: context.close(),
}


def in_thread(work: Callable[[], object]) -> BaseException | None:
    """Run it in a new thread; what it raised."""
    raised: list[BaseException] = []

    def target() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join(JOIN_S)
    assert not thread.is_alive()
    return raised[0] if raised else None


class TestThreads:
    @pytest.mark.parametrize("call", CALLS)
    def test_of_another_thread(self, context: aio.Context, pipe: tuple[int, int], call: str) -> None:
        op = aio.Read(pipe[0], 3)
        context.submit(op)
        error = in_thread(lambda: CALLS[call](context, op))
        assert isinstance(error, RuntimeError)
        assert "thread" in str(error)
        # Nothing has come of it.
        os.write(pipe[1], b"abc")
        assert context.wait()[0].data == b"abc"

    def test_what_any_thread_may_ask(self, context: aio.Context, engine: str) -> None:
        assert in_thread(lambda: (context.closed, context.engine, context.max_jobs, context.pending)) is None

    def test_ops_and_events_travel(self, context: aio.Context, fd: int) -> None:
        made: list[aio.Op] = []
        assert in_thread(lambda: made.append(aio.Read(fd, 5, 0))) is None
        event = run_one(context, made[0])
        assert in_thread(lambda: event.check()) is None

    def test_a_context_each(self, engine: str, fd: int) -> None:
        errors: list[BaseException] = []

        def work() -> None:
            try:
                with aio.Context(16, engine=engine) as context:
                    for _ in range(50):
                        ops = [aio.Read(fd, 5, 6) for _ in range(16)]
                        assert context.submit(*ops) == 16
                        assert [event.data for event in context.wait(16)] == [b"world"] * 16
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(JOIN_S)
        assert errors == []

    def test_others_run_during_a_wait(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        context.submit(aio.Read(pipe[0], 1))
        thread = threading.Thread(target=os.write, args=(pipe[1], b"x"))
        thread.start()
        assert context.wait()[0].result == 1
        thread.join(JOIN_S)

    def test_dropped_by_another_thread(self, engine: str, pipe: tuple[int, int]) -> None:
        buffer = bytearray(4)
        holder = [aio.Context(engine=engine)]
        holder[0].submit(aio.Read(pipe[0], buffer))
        assert in_thread(holder.clear) is None
        gc.collect()
        buffer.extend(b"free")

    def test_left_by_a_thread_that_ended(self, engine: str, pipe: tuple[int, int]) -> None:
        buffer = bytearray(4)
        left: list[aio.Context] = []

        def work() -> None:
            context = aio.Context(engine=engine)
            context.submit(aio.Read(pipe[0], buffer))
            left.append(context)

        assert in_thread(work) is None
        with pytest.raises(RuntimeError, match="thread"):
            left[0].wait()
        # A thread's end frees what it had, a moment after join() returns.
        deadline = time.monotonic() + JOIN_S
        while True:
            try:
                buffer.extend(b"free")
                break
            except BufferError:
                assert time.monotonic() < deadline
                time.sleep(0.001)
        left.clear()
        gc.collect()

    def test_dropped_by_another_thread_than_the_main_one(self, engine: str, pipe: tuple[int, int]) -> None:
        """The thread that made it frees it when it makes or uses another."""
        buffer = bytearray(4)
        made, dropped = threading.Event(), threading.Event()
        holder: list[aio.Context] = []

        def work() -> None:
            holder.append(aio.Context(engine=engine))
            holder[0].submit(aio.Read(pipe[0], buffer))
            made.set()
            assert dropped.wait(JOIN_S)
            with pytest.raises(BufferError):
                buffer.extend(b"in use")
            aio.Context(engine=engine).close()
            buffer.extend(b"free")

        thread = threading.Thread(target=lambda: results.append(in_thread(work)))
        results: list[BaseException | None] = []
        thread.start()
        assert made.wait(JOIN_S)
        holder.clear()
        dropped.set()
        thread.join(JOIN_S)
        assert results == [None]

    def test_a_closed_context_is_anyones_to_drop(self, engine: str) -> None:
        holder = [aio.Context(engine=engine)]
        holder[0].close()
        assert in_thread(holder.clear) is None


def in_child(work: Callable[[], object]) -> None:
    """Run it in a fork; fail with what it raised there."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # CPython warns of a fork beside threads, which is the case under test.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            work()
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        problem = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    assert problem == ""


class TestFork:
    @pytest.mark.parametrize("call", ["submit", "wait", "cancel", "fileno"])
    def test_the_childs_copy_is_dead(self, context: aio.Context, pipe: tuple[int, int], call: str) -> None:
        op = aio.Read(pipe[0], 3)
        context.submit(op)

        def work() -> None:
            with pytest.raises(RuntimeError, match="fork"):
                CALLS[call](context, op)

        in_child(work)
        os.write(pipe[1], b"abc")
        assert context.wait()[0].data == b"abc"

    def test_the_child_makes_its_own(
        self, context: aio.Context, engine: str, fd: int, pipe: tuple[int, int]
    ) -> None:
        context.submit(aio.Read(pipe[0], 3))

        def work() -> None:
            with aio.Context(engine=engine) as own:
                assert run_one(own, aio.Read(fd, 5, 0)).data == b"hello"

        in_child(work)
        os.write(pipe[1], b"abc")
        assert context.wait()[0].data == b"abc"

    def test_the_child_drops_its_copy(self, engine: str, pipe: tuple[int, int]) -> None:
        holder = [aio.Context(engine=engine)]
        holder[0].submit(aio.Read(pipe[0], 3))

        def work() -> None:
            holder.clear()
            gc.collect()

        in_child(work)
        os.write(pipe[1], b"abc")
        assert holder[0].wait()[0].data == b"abc"
        holder[0].close()


@contextmanager
def alarm(handler: Callable[..., object]) -> Iterator[None]:
    """SIGALRM soon, with this handler."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, SOON_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class TestSignals:
    def test_the_handler_runs_and_the_wait_goes_on(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        context.submit(aio.Read(pipe[0], 3))
        with alarm(lambda *_: os.write(pipe[1], b"abc")):
            assert context.wait()[0].data == b"abc"

    def test_the_timeout_is_kept(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        ran: list[int] = []
        context.submit(aio.Poll(pipe[0], select.POLLIN))
        with alarm(lambda *_: ran.append(1)):
            assert context.wait(timeout=5 * SOON_S) == []
        assert ran == [1]

    def test_a_handler_that_raises(self, context: aio.Context, fd: int, pipe: tuple[int, int]) -> None:
        def handler(*_: object) -> None:
            raise ZeroDivisionError

        context.submit(aio.Read(fd, 5, 0), aio.Read(pipe[0], 3))
        with pytest.raises(ZeroDivisionError), alarm(handler):
            context.wait(2)
        # No event is lost, also not the one that was there already.
        assert context.pending == 2
        os.write(pipe[1], b"abc")
        assert sorted(bytes(event.data) for event in context.wait(2)) == [b"abc", b"hello"]

    def test_a_handler_that_uses_the_context(
        self, context: aio.Context, fd: int, pipe: tuple[int, int]
    ) -> None:
        """It may be refused; it may not break the wait."""

        def handler(*_: object) -> None:
            with suppress(RuntimeError):
                context.submit(aio.Read(fd, 1))
            os.write(pipe[1], b"abc")

        context.submit(aio.Read(pipe[0], 3))
        with alarm(handler):
            events = context.wait(1)
        while context.pending:
            events += context.wait()
        assert b"abc" in [bytes(event.data) for event in events]

    def test_during_a_close(self, engine: str, fd: int) -> None:
        ran: list[int] = []
        with alarm(lambda *_: ran.append(1)):
            while not ran:
                with aio.Context(engine=engine) as context:
                    context.submit(aio.Write(fd, b"x", 0), aio.Fsync(fd))
        assert ran == [1]


class TestCollected:
    def test_with_ops_in_flight(self, engine: str, pipe: tuple[int, int]) -> None:
        buffers = [bytearray(4) for _ in range(8)]
        context = aio.Context(engine=engine)
        context.submit(*(aio.Read(pipe[0], buffer) for buffer in buffers))
        del context
        gc.collect()
        for buffer in buffers:
            buffer.extend(b"free")
        os.write(pipe[1], b"kept")
        assert os.read(pipe[0], 10) == b"kept"

    def test_in_a_cycle(self, engine: str, pipe: tuple[int, int]) -> None:
        class Marker:
            context: aio.Context
            op: aio.Op

        marker = Marker()
        marker.context = aio.Context(engine=engine)
        marker.op = aio.Read(pipe[0], 4, user_data=marker)
        marker.context.submit(marker.op)
        gone = weakref.ref(marker)
        del marker
        gc.collect()
        assert gone() is None

    @pytest.mark.parametrize("part", ["file", "buffer", "buffers", "resfd", "user_data"])
    def test_an_op_that_its_part_knows(self, part: str) -> None:
        class Memory(bytearray):
            op: aio.Op

        class Numbered:
            op: aio.Op

            def fileno(self) -> int:
                return 0

        thing = Memory(4) if part.startswith("buffer") else Numbered()
        makers: dict[str, Callable[[Any], aio.Op]] = {
            "file": lambda file: aio.Read(file, 4),
            "buffer": lambda buffer: aio.Read(0, buffer),
            "buffers": lambda buffer: aio.ReadV(0, [bytearray(1), buffer]),
            "resfd": lambda resfd: aio.Read(0, 4, resfd=resfd),
            "user_data": lambda data: aio.Read(0, 4, user_data=data),
        }
        thing.op = makers[part](thing)
        gone = weakref.ref(thing)
        del thing
        gc.collect()
        assert gone() is None

    def test_an_op_and_its_event_in_a_cycle(self, context: aio.Context, fd: int) -> None:
        class Marker:
            event: aio.Event

        marker = Marker()
        marker.event = run_one(context, aio.Read(9999, 4, user_data=marker))
        gone = weakref.ref(marker)
        del marker
        gc.collect()
        assert gone() is None

    def test_a_context_that_was_not_made(self) -> None:
        with pytest.raises(ValueError, match="max_jobs"):
            aio.Context(0)
        gc.collect()


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def _resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


class TestLeaks:
    """Beside the fixture that looks for descriptors and threads after each test: what grows with use."""

    def test_contexts(self, engine: str, fd: int, pipe: tuple[int, int]) -> None:
        before = _descriptors()
        for _ in range(10):
            with aio.Context(8, engine=engine) as context:
                run_one(context, aio.Read(fd, 5, 0))
                context.submit(aio.Read(pipe[0], 1))
        assert _descriptors() == before

    def test_memory(self, context: aio.Context, tmp_path: Path) -> None:
        # Numbers up to 256 are kept by the interpreter: their leaks could not be seen.
        (tmp_path / "file").write_bytes(bytes(5000))
        fd = os.open(tmp_path / "file", os.O_RDONLY)

        def work(rounds: int) -> None:
            for _ in range(rounds):
                ops: list[Any] = [
                    aio.Read(fd, 1 << 16, 0),
                    aio.ReadV(fd, [1 << 15], 0),
                    aio.Read(9999, 1 << 16),
                ]
                context.submit(*ops)
                for event in context.wait(3):
                    assert [event.op, event.result, event.buffer, event.data, event.error]

        work(100)
        gc.collect()
        before, blocks = _resident_bytes(), sys.getallocatedblocks()
        work(1000)
        gc.collect()
        assert _resident_bytes() - before < SLACK_BYTES
        assert sys.getallocatedblocks() - blocks < 500
        os.close(fd)

    def test_cancelled_ops(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        before = _descriptors()
        for _ in range(200):
            op = aio.Read(pipe[0], 4)
            context.submit(op)
            context.cancel(op)
            context.wait()
        assert _descriptors() == before
