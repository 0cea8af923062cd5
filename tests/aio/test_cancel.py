"""`Context.cancel`: what it says is what happens."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket

import pytest
from aio_helpers import run_one
from proactor import aio
from proactor.aio import CancelOutcome

pytest_plugins = ["aio_fixtures"]


def check_cancelled(event: aio.Event, op: aio.Op) -> None:
    assert event.op is op
    assert event.result == -errno.ECANCELED
    assert event.error is not None
    assert event.error.errno == errno.ECANCELED
    assert op.state == "done"


def test_an_empty_pipe(context: aio.Context, pipe: tuple[int, int]) -> None:
    buffer = bytearray(4)
    op = aio.Read(pipe[0], buffer)
    context.submit(op)
    assert context.cancel(op) == CancelOutcome.CANCELLED
    assert context.pending == 1
    (event,) = context.wait()
    check_cancelled(event, op)
    assert event.data is None or len(event.data) == 0
    assert buffer == bytes(4)


def test_a_cancelled_read_takes_nothing(context: aio.Context, pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    for round_ in range(50):
        op = aio.Read(reader, 4)
        context.submit(op)
        outcome = context.cancel(op)
        os.write(writer, b"%04d" % round_)
        (event,) = context.wait()
        assert outcome == CancelOutcome.CANCELLED
        check_cancelled(event, op)
        assert os.read(reader, 10) == b"%04d" % round_


def test_a_vector_and_a_socket(context: aio.Context) -> None:
    left, right = socket.socketpair()
    with left, right:
        op = aio.ReadV(left, [bytearray(4)])
        context.submit(op)
        assert context.cancel(op) == CancelOutcome.CANCELLED
        check_cancelled(context.wait()[0], op)


def test_a_poll(context: aio.Context, pipe: tuple[int, int]) -> None:
    op = aio.Poll(pipe[0], select.POLLIN)
    context.submit(op)
    assert context.cancel(op) == CancelOutcome.CANCELLED
    check_cancelled(context.wait()[0], op)
    # The op is as good as new.
    os.write(pipe[1], b"x")
    assert run_one(context, op).result & select.POLLIN


def test_a_full_pipe(context: aio.Context, pipe: tuple[int, int]) -> None:
    os.write(pipe[1], bytes(fcntl.fcntl(pipe[1], fcntl.F_GETPIPE_SZ)))
    op = aio.Write(pipe[1], b"x")
    context.submit(op)
    assert context.cancel(op) == CancelOutcome.CANCELLED
    check_cancelled(context.wait()[0], op)


def test_finished_and_waiting(context: aio.Context, fd: int) -> None:
    op = aio.Read(fd, 5, 0)
    context.submit(op)
    assert select.select([context], [], [], 10)[0]
    assert context.cancel(op) == CancelOutcome.FINISHED
    (event,) = context.wait()
    assert event.data == b"hello"


def test_finished_and_taken(context: aio.Context, fd: int) -> None:
    op = aio.Read(fd, 5, 0)
    run_one(context, op)
    assert context.cancel(op) == CancelOutcome.FINISHED


def test_twice(context: aio.Context, pipe: tuple[int, int]) -> None:
    op = aio.Read(pipe[0], 4)
    context.submit(op)
    assert context.cancel(op) == CancelOutcome.CANCELLED
    assert context.cancel(op) in (CancelOutcome.CANCELLED, CancelOutcome.FINISHED)
    check_cancelled(context.wait()[0], op)
    assert context.wait() == []


def test_never_submitted(context: aio.Context, fd: int) -> None:
    with pytest.raises(ValueError, match="submitted"):
        context.cancel(aio.Read(fd, 1))


def test_of_another_context(context: aio.Context, engine: str, pipe: tuple[int, int]) -> None:
    op = aio.Read(pipe[0], 1)
    context.submit(op)
    with aio.Context(engine=engine) as other, pytest.raises(ValueError, match="context"):
        other.cancel(op)
    assert op.state == "submitted"


def test_the_outcome_is_true_whatever_it_is(engine: str, fd: int) -> None:
    seen = set()
    with aio.Context(256, engine=engine, inline=False) as context:
        for _ in range(20):
            ops = [aio.Write(fd, b"x" * 1024, at * 1024) for at in range(64)]
            assert context.submit(*ops) == 64
            outcomes: dict[aio.Op, CancelOutcome] = {op: context.cancel(op) for op in ops}
            for event in context.wait(64):
                outcome = outcomes.pop(event.op)
                seen.add(outcome)
                if outcome == CancelOutcome.CANCELLED:
                    assert event.result == -errno.ECANCELED
                elif outcome == CancelOutcome.FINISHED:
                    assert event.result == 1024
                else:
                    assert event.result in (1024, -errno.ECANCELED, -errno.EINTR)
            assert not outcomes
    assert seen <= set(CancelOutcome)


def test_a_slot_is_free_after_the_event(engine: str, pipe: tuple[int, int]) -> None:
    with aio.Context(1, engine=engine) as context:
        op, other = aio.Read(pipe[0], 1), aio.Read(pipe[0], 1)
        context.submit(op)
        assert context.submit(other) == 0
        context.cancel(op)
        context.wait()
        assert context.submit(other) == 1


def test_many(engine: str, pipe: tuple[int, int]) -> None:
    with aio.Context(512, engine=engine) as context:
        ops = [aio.Read(pipe[0], 1) for _ in range(500)]
        assert context.submit(*ops) == 500
        assert {context.cancel(op) for op in ops} == {CancelOutcome.CANCELLED}
        events = context.wait(500)
        assert {event.op for event in events} == set(ops)
        assert {event.result for event in events} == {-errno.ECANCELED}


def test_not_an_op(context: aio.Context) -> None:
    with pytest.raises(TypeError):
        context.cancel(5)  # type: ignore[arg-type]
