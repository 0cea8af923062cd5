"""`proactor.compat.caio`, its contexts: parity with the original where it is followed."""

from __future__ import annotations

import os
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from caio_suite import FAILURES, POOLS, QUEUES, TIMEOUT_S, Parity, Runner, variant


class TestRawParity(Parity):
    """True of both packages, for every variant."""

    def test_read(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.read(5, fd, 6)
        assert (operation.nbytes, operation.fileno, operation.offset) == (5, fd, 6)
        assert raw.run(operation) == 5
        assert operation.get_value() == b"world"
        assert isinstance(operation.get_value(), bytes)

    def test_short_read(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.read(50, fd, 6)
        assert raw.run(operation) == 5
        assert operation.get_value() == b"world"
        operation = raw.module.Operation.read(50, fd, 100)
        assert raw.run(operation) == 0
        assert operation.get_value() == b""

    def test_nothing(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.read(0, fd, 0)
        assert raw.run(operation) == 0
        assert operation.get_value() == b""
        operation = raw.module.Operation.write(b"", fd, 0)
        assert raw.run(operation) == 0
        assert operation.get_value() == 0

    def test_write(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.write(b"HELLO", fd, 6)
        assert operation.nbytes == 5
        assert raw.run(operation) == 5
        assert operation.get_value() == 5
        assert os.pread(fd, 20, 0) == b"hello HELLO"

    @pytest.mark.parametrize("kind", ["fsync", "fdsync"])
    def test_sync(self, raw: Runner, fd: int, kind: str) -> None:
        operation = getattr(raw.module.Operation, kind)(fd)
        assert not raw.run(operation)
        assert operation.get_value() is None

    def test_keywords(self, raw: Runner, fd: int) -> None:
        kind = raw.module.Operation
        assert raw.run(kind.read(nbytes=5, fd=fd, offset=0, priority=1)) == 5
        assert raw.run(kind.write(payload_bytes=b"x", fd=fd, offset=0, priority=1)) == 1
        assert not raw.run(kind.fsync(fd=fd, priority=1))

    def test_the_last_callback_counts(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.read(5, fd, 0)
        assert operation.set_callback(lambda _: pytest.fail("replaced")) is True
        assert raw.run(operation) == 5

    def test_an_operation_is_for_one_use(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.read(5, fd, 0)
        raw.run(operation)
        assert raw.context.submit(operation) == 0
        assert operation.get_value() == b"hello"

    def test_counts(self, raw: Runner, fd: int) -> None:
        assert raw.context.submit() == 0
        operation = raw.module.Operation.read(5, fd, 0)
        assert raw.context.submit(operation, operation) == 1

    def test_not_an_operation(self, raw: Runner) -> None:
        with pytest.raises((TypeError, ValueError)):
            raw.context.submit(5)

    def test_not_a_descriptor(self, raw: Runner, tmp_path: Path, fd: int) -> None:
        with (tmp_path / "file").open() as file, pytest.raises(TypeError):
            raw.module.Operation.read(5, file, 0)

    @pytest.mark.parametrize("payload", ["text", ["list"]], ids=["str", "list"])
    def test_not_a_payload(self, raw: Runner, fd: int, payload: Any) -> None:
        with pytest.raises(ValueError, match="payload_bytes"):
            raw.module.Operation.write(payload, fd, 0)

    def test_a_failure(self, raw: Runner, tmp_path: Path) -> None:
        writer = os.open(tmp_path / "writer", os.O_WRONLY | os.O_CREAT)
        try:
            operation = raw.module.Operation.read(5, writer, 0)
            with pytest.raises(FAILURES):  # noqa: PT012 - some variants raise from submit
                raw.run(operation)
                operation.get_value()
        finally:
            os.close(writer)

    def test_max_requests(self, raw: Runner) -> None:
        assert raw.context.max_requests == 8
        assert raw.module.Context(max_requests=4).max_requests == 4

    def test_names(self, raw: Runner) -> None:
        for name in ("submit", "cancel", "max_requests"):
            assert hasattr(raw.context, name)


class TestQueueParity(Parity):
    """What the two kernel variants add."""

    @pytest.fixture(params=QUEUES)
    def name(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    def test_fileno(self, raw: Runner, fd: int) -> None:
        assert isinstance(raw.context.fileno, int)
        assert raw.context.max_requests == 8

    def test_a_callback_that_asks_for_events(self, raw: Runner, fd: int) -> None:
        def callback(result: int) -> None:
            raw.context.process_events(512, 0, 0)
            raw.results.put(result)

        for _ in range(3):
            operation = raw.module.Operation.read(5, fd, 0)
            operation.set_callback(callback)
            raw.context.submit(operation)
        if hasattr(raw.context, "flush"):
            raw.context.flush()
        assert [raw.result() for _ in range(3)] == [5] * 3

    def test_in_flight_has_no_value(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.fsync(fd)
        assert raw.context.submit(operation) == 1
        with pytest.raises(RuntimeError):
            operation.get_value()

    def test_defaults(self, raw: Runner) -> None:
        assert raw.module.Context().max_requests == 32
        assert raw.module.Context(0).max_requests == 32

    def test_whether_sqpoll_may_be_used(self, package: Any) -> None:
        assert isinstance(variant(package, "linux_uring").SQPOLL_ALLOWED, bool)

    def test_context_of_an_operation(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.fsync(fd)
        assert operation.context is None
        raw.context.submit(operation)
        assert operation.context is raw.context

    def test_a_negative_size(self, raw: Runner, fd: int) -> None:
        with pytest.raises(OverflowError):
            raw.module.Operation.read(-1, fd, 0)


class TestPoolParity(Parity):
    """What the two thread variants add."""

    @pytest.fixture(params=POOLS)
    def name(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    def test_callbacks_come_from_another_thread(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.fsync(fd)
        threads: queue.SimpleQueue[Any] = queue.SimpleQueue()
        operation.set_callback(lambda _: threads.put(threading.current_thread()))
        raw.context.submit(operation)
        assert threads.get(timeout=TIMEOUT_S) is not threading.current_thread()

    def test_submit_from_any_thread(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.read(5, fd, 0)
        thread = threading.Thread(target=raw.submit, args=(operation,))
        thread.start()
        assert raw.result() == 5
        thread.join()

    def test_close(self, raw: Runner, fd: int) -> None:
        raw.context.close()
        raw.context.close()
        with pytest.raises(RuntimeError):
            raw.context.submit(raw.module.Operation.fsync(fd))

    def test_full(self, raw: Runner, fd: int) -> None:
        context = raw.module.Context(1)
        held, go = threading.Event(), threading.Event()

        def hold(_: Any) -> None:
            held.set()
            go.wait(TIMEOUT_S)

        first = raw.module.Operation.fsync(fd)
        first.set_callback(hold)
        context.submit(first)
        held.wait(TIMEOUT_S)
        try:
            with pytest.raises(RuntimeError):  # noqa: PT012 - some hold more than one
                for _ in range(20):
                    context.submit(raw.module.Operation.fsync(fd))
        finally:
            go.set()
            context.close()

    def test_cancel_stops_nothing(self, raw: Runner, fd: int) -> None:
        assert raw.context.cancel(raw.module.Operation.fsync(fd)) == 0

    @pytest.mark.parametrize("size", [-1, 1000])
    def test_pool_size(self, raw: Runner, size: int) -> None:
        with pytest.raises(ValueError, match="pool_size"):
            raw.module.Context(4, size)
