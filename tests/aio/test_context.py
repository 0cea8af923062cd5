"""`aio.Context`: counts, waiting, the eventfd, closing."""

from __future__ import annotations

import asyncio
import errno
import math
import os
import select
import time
from typing import Any

import proactor
import pytest
from aio_helpers import CONTENT, run, run_one
from proactor import aio

pytest_plugins = ["aio_fixtures"]

SHORT_S = 0.02
LONG_S = 10.0


def readable(context: aio.Context, timeout: float = 0) -> bool:
    return bool(select.select([context], [], [], timeout)[0])


class TestMaking:
    def test_attributes(self, engine: str) -> None:
        with aio.Context(engine=engine) as context:
            assert context.engine == engine
            assert context.max_jobs == 128
            assert context.pending == 0
            assert not context.closed

    def test_a_choice_without_a_name(self) -> None:
        with aio.Context() as context:
            assert context.engine in proactor.engines()

    @pytest.mark.parametrize("max_jobs", [0, -1])
    def test_max_jobs(self, max_jobs: int) -> None:
        with pytest.raises(ValueError, match="max_jobs"):
            aio.Context(max_jobs)

    def test_max_jobs_is_an_integer(self) -> None:
        with pytest.raises(TypeError):
            aio.Context(1.5)  # type: ignore[arg-type]

    def test_an_engine_that_does_not_exist(self) -> None:
        with pytest.raises(ValueError, match="no_such_engine"):
            aio.Context(engine="no_such_engine")

    def test_options_are_keywords(self, engine: str) -> None:
        with pytest.raises(TypeError):
            aio.Context(8, engine)  # type: ignore[call-arg]

    @pytest.mark.parametrize("max_threads", [0, -1, 1025])
    def test_bad_max_threads(self, engine: str, max_threads: int) -> None:
        with pytest.raises(ValueError, match="max_threads"):
            aio.Context(engine=engine, max_threads=max_threads)

    def test_max_threads(self, fd: int) -> None:
        def threads() -> set[str]:
            return set(os.listdir("/proc/self/task"))

        before = threads()
        with aio.Context(64, engine="threads", max_threads=2, inline=False) as context:
            run(context, *(aio.Fdatasync(fd) for _ in range(64)))
            assert 1 <= len(threads() - before) <= 2

    def test_without_inline(self, engine: str, fd: int) -> None:
        with aio.Context(8, engine=engine, inline=False) as context:
            assert run_one(context, aio.Read(fd, 5)).data == b"hello"


class TestSubmit:
    def test_nothing(self, context: aio.Context) -> None:
        assert context.submit() == 0

    def test_counts(self, context: aio.Context, fd: int) -> None:
        assert context.submit(aio.Read(fd, 1, 0), aio.Read(fd, 1, 0)) == 2
        assert context.pending == 2
        assert len(context.wait(2)) == 2
        assert context.pending == 0

    def test_the_rest_is_untouched(self, engine: str, pipe: tuple[int, int]) -> None:
        ops = [aio.Read(pipe[0], 1) for _ in range(5)]
        with aio.Context(2, engine=engine) as context, aio.Context(8, engine=engine) as other:
            assert context.submit(*ops) == 2
            assert [op.state for op in ops] == ["submitted"] * 2 + ["new"] * 3
            assert context.submit(ops[2]) == 0
            assert context.pending == 2
            ops[2].offset = None
            os.write(pipe[1], b"abcde")
            assert len(context.wait(2)) == 2
            assert [event.result for event in run(other, *ops[2:])] == [1] * 3

    def test_a_backlog(self, engine: str, pipe: tuple[int, int]) -> None:
        ops = [aio.Read(pipe[0], 1) for _ in range(8)]
        with aio.Context(2, engine=engine, backlog=4) as context:
            assert context.submit(*ops) == 6
            os.write(pipe[1], b"x" * 6)
            assert {event.check() for event in context.wait(6)} == {1}

    def test_an_op_in_flight(self, context: aio.Context, fd: int, pipe: tuple[int, int]) -> None:
        waiting, other = aio.Read(pipe[0], 1), aio.Read(fd, 1)
        assert context.submit(waiting) == 1
        with pytest.raises(ValueError, match="flight"):
            context.submit(waiting, other)
        assert other.state == "new"
        # What was accepted before it is counted instead.
        assert context.submit(other, waiting) == 1

    def test_an_op_in_another_contexts_flight(
        self, context: aio.Context, engine: str, pipe: tuple[int, int]
    ) -> None:
        op = aio.Read(pipe[0], 1)
        assert context.submit(op) == 1
        with aio.Context(engine=engine) as other, pytest.raises(ValueError, match="flight"):
            other.submit(op)

    @pytest.mark.parametrize("thing", [5, None, object()])
    def test_not_an_op(self, context: aio.Context, fd: int, thing: Any) -> None:
        with pytest.raises(TypeError):
            context.submit(thing)
        assert context.pending == 0
        assert context.submit(aio.Read(fd, 1), thing) == 1

    def test_thousands(self, engine: str, fd: int) -> None:
        todo = [aio.Read(fd, 1, at % 11, user_data=at) for at in range(5000)]
        seen = set()
        with aio.Context(256, engine=engine) as context:
            while todo or context.pending:
                del todo[: context.submit(*todo)]
                for event in context.wait():
                    assert event.data == CONTENT[event.user_data % 11 :][:1]
                    seen.add(event.user_data)
        assert len(seen) == 5000


class TestWait:
    def test_nothing_to_wait_for(self, context: aio.Context) -> None:
        assert context.wait() == []
        assert context.wait(5, 10) == []

    def test_a_list_of_events(self, context: aio.Context, fd: int) -> None:
        context.submit(aio.Read(fd, 1))
        events = context.wait()
        assert isinstance(events, list)
        assert isinstance(events[0], aio.Event)

    def test_never_for_more_than_pend(self, context: aio.Context, fd: int) -> None:
        context.submit(aio.Read(fd, 1))
        assert len(context.wait(5)) == 1

    def test_max(self, context: aio.Context, fd: int) -> None:
        context.submit(*(aio.Read(fd, 1, 0) for _ in range(5)))
        assert len(context.wait(2, 2)) == 2
        assert context.pending == 3
        assert len(context.wait(3, 3)) == 3

    def test_max_0(self, context: aio.Context, fd: int) -> None:
        context.submit(aio.Read(fd, 1))
        assert context.wait(0, 0) == []
        assert context.pending == 1

    @pytest.mark.parametrize("arguments", [{"min": 0}, {"timeout": 0}, {"timeout": 0.0}])
    def test_polling(self, context: aio.Context, pipe: tuple[int, int], arguments: dict[str, Any]) -> None:
        context.submit(aio.Poll(pipe[0], select.POLLIN))
        started = time.monotonic()
        assert context.wait(**arguments) == []
        assert time.monotonic() - started < LONG_S

    def test_a_timeout(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        context.submit(aio.Poll(pipe[0], select.POLLIN))
        started = time.monotonic()
        assert context.wait(timeout=SHORT_S) == []
        assert time.monotonic() - started >= SHORT_S

    def test_fewer_than_min_at_the_timeout(
        self, context: aio.Context, fd: int, pipe: tuple[int, int]
    ) -> None:
        read = aio.Read(fd, 1)
        context.submit(aio.Poll(pipe[0], select.POLLIN), read)
        assert [event.op for event in context.wait(2, timeout=0.2)] == [read]

    def test_a_timeout_is_not_waited_out(self, context: aio.Context, fd: int) -> None:
        context.submit(aio.Read(fd, 1))
        started = time.monotonic()
        assert len(context.wait(timeout=LONG_S)) == 1
        assert time.monotonic() - started < LONG_S

    @pytest.mark.parametrize(
        "arguments",
        [
            {"min": -1},
            {"max": -1},
            {"min": 3, "max": 2},
            {"timeout": -1},
            {"timeout": math.nan},
        ],
    )
    def test_bad_arguments(self, context: aio.Context, arguments: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"min|max|timeout"):
            context.wait(**arguments)

    @pytest.mark.parametrize("arguments", [{"min": "1"}, {"timeout": "1"}])
    def test_bad_types(self, context: aio.Context, arguments: dict[str, Any]) -> None:
        with pytest.raises(TypeError):
            context.wait(**arguments)

    def test_a_huge_timeout(self, context: aio.Context, fd: int) -> None:
        for timeout in (1e18, math.inf):
            context.submit(aio.Read(fd, 1))
            assert len(context.wait(timeout=timeout)) == 1


class TestFileno:
    def test_readable_while_events_wait(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        assert isinstance(context.fileno(), int)
        context.submit(*(aio.Read(pipe[0], 1) for _ in range(3)))
        # It may tell once too often, never once too rarely.
        assert context.wait(0) == []
        assert not readable(context)
        os.write(pipe[1], b"abc")
        taken = 0
        while taken < 3:
            assert readable(context, LONG_S)
            taken += len(context.wait(0, 1))
        assert not readable(context)

    def test_readable_when_done_inline(self, context: aio.Context, fd: int) -> None:
        context.submit(aio.Read(fd, 5))
        assert readable(context, LONG_S)
        assert len(context.wait(0)) == 1

    def test_in_an_event_loop(self, context: aio.Context, pipe: tuple[int, int]) -> None:
        async def main() -> bytes:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[bytes] = loop.create_future()

            def on_events() -> None:
                for event in context.wait(0):
                    future.set_result(bytes(event.data))

            loop.add_reader(context.fileno(), on_events)
            context.submit(aio.Read(pipe[0], 3))
            loop.call_soon(os.write, pipe[1], b"abc")
            try:
                return await asyncio.wait_for(future, LONG_S)
            finally:
                loop.remove_reader(context.fileno())

        assert asyncio.run(main()) == b"abc"


class TestClose:
    def test_with(self, engine: str) -> None:
        with aio.Context(engine=engine) as context:
            assert not context.closed
        assert context.closed
        context.close()

    @pytest.mark.parametrize(
        "call",
        [
            lambda context, op: context.submit(op),
            lambda context, op: context.wait(0),
            lambda context, op: context.cancel(op),
            lambda context, op: context.fileno(),
            lambda context, op: context.__enter__(),
        ],
        ids=["submit", "wait", "cancel", "fileno", "with"],
    )
    def test_closed(self, engine: str, fd: int, call: Any) -> None:
        context = aio.Context(engine=engine)
        context.close()
        with pytest.raises(ValueError, match="closed"):
            call(context, aio.Read(fd, 1))

    def test_writes_run_to_their_end(self, engine: str, fd: int) -> None:
        with aio.Context(engine=engine, inline=False) as context:
            assert context.submit(*(aio.Write(fd, b"x", at) for at in range(100))) == 100
        assert os.pread(fd, 200, 0) == b"x" * 100

    def test_reads_are_cancelled(self, engine: str, pipe: tuple[int, int]) -> None:
        buffer = bytearray(4)
        ops = [aio.Read(pipe[0], buffer), aio.Poll(pipe[0], select.POLLIN)]
        with aio.Context(engine=engine) as context:
            context.submit(*ops)
        assert [op.state for op in ops] == ["done", "done"]
        buffer.extend(b"free again")
        os.write(pipe[1], b"kept")
        assert os.read(pipe[0], 10) == b"kept"

    def test_an_op_outlives_its_context(self, engine: str, fd: int, pipe: tuple[int, int]) -> None:
        op = aio.Read(pipe[0], 4)
        with aio.Context(engine=engine) as context:
            context.submit(op)
        with aio.Context(engine=engine) as context:
            op.file = fd
            assert run_one(context, op).data == b"hell"

    def test_an_exception_closes(self, engine: str) -> None:
        with pytest.raises(ZeroDivisionError), aio.Context(engine=engine) as context:
            raise ZeroDivisionError
        assert context.closed

    def test_events_not_taken_are_dropped(self, engine: str, fd: int) -> None:
        op = aio.Read(9999, 1)
        with aio.Context(engine=engine) as context:
            context.submit(op, aio.Read(fd, 1))
        assert op.state == "done"

    def test_several_contexts(self, engine: str, fd: int, pipe: tuple[int, int]) -> None:
        with aio.Context(engine=engine) as first, aio.Context(engine=engine) as second:
            first.submit(aio.Read(pipe[0], 3))
            assert run_one(second, aio.Read(fd, 5)).data == b"hello"
            assert run_one(second, aio.Write(pipe[1], b"abc")).result == 3
            (event,) = first.wait()
            assert event.data == b"abc"
            assert run_one(first, aio.Fsync(9999)).result == -errno.EBADF
