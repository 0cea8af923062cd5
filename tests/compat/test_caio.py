"""`proactor.compat.caio`: parity with the original where it is followed, and its defects that are not."""

from __future__ import annotations

import array
import asyncio
import errno
import gc
import importlib
import mmap
import os
import queue
import select
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from proactor.compat import caio as ours
from rivals import THEIRS, rival

T = TypeVar("T")

CONTENT = b"hello world"
VARIANTS = ["linux_uring", "linux_aio", "thread_aio", "python_aio"]
QUEUES = ["linux_uring", "linux_aio"]
POOLS = ["thread_aio", "python_aio"]
ENGINE = {"linux_uring": "io_uring", "linux_aio": "linux_aio"}
TIMEOUT_S = 10
TURN_S = 0.01

# What an original may raise for a failed operation, by variant.
FAILURES = (OSError, SystemError, ValueError)


@pytest.fixture(params=["ours", THEIRS])
def package(request: pytest.FixtureRequest) -> Any:
    return ours if request.param == "ours" else rival("caio", "caio")


def variant(package: Any, name: str) -> Any:
    try:
        module = importlib.import_module(f"{package.__name__}.{name}")
    except ImportError as error:
        pytest.skip(f"needs {ENGINE.get(name, name)}: {error}")
    if package is ours and module not in (*ours.variants, *ours.variants_asyncio):
        pytest.skip(f"needs {ENGINE.get(name.removesuffix('_asyncio'), name)}: {ours.variants}")
    return module


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


class Runner:
    """Submits operations to a raw context and waits for their callbacks, whichever way they come."""

    def __init__(self, module: Any, max_requests: int = 8) -> None:
        self.module = module
        self.context = module.Context(max_requests)
        self.results: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def submit(self, operation: Any) -> int:
        operation.set_callback(self.results.put)
        count: int = self.context.submit(operation)
        if hasattr(self.context, "flush"):
            self.context.flush()
        return count

    def result(self) -> Any:
        if hasattr(self.context, "process_events"):
            while self.results.empty():
                # Readable does not promise an event: an earlier one may have been taken already.
                if not select.select([self.context.fileno], [], [], TIMEOUT_S)[0]:
                    pytest.fail("no event")
                self.context.poll()
                self.context.process_events(512, 0, 0)
        return self.results.get(timeout=TIMEOUT_S)

    def run(self, operation: Any) -> Any:
        assert self.submit(operation) == 1
        return self.result()

    def close(self) -> None:
        if hasattr(self.context, "close"):
            self.context.close()


@pytest.fixture(params=VARIANTS)
def raw(request: pytest.FixtureRequest, package: Any) -> Iterator[Runner]:
    runner = Runner(variant(package, request.param))
    yield runner
    runner.close()


class TestRawParity:
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


class TestQueueParity:
    """What the two kernel variants add."""

    @pytest.fixture(params=QUEUES)
    def raw(self, request: pytest.FixtureRequest, package: Any) -> Iterator[Runner]:
        runner = Runner(variant(package, request.param))
        yield runner
        runner.close()

    def test_fileno(self, raw: Runner, fd: int) -> None:
        assert isinstance(raw.context.fileno, int)
        assert raw.context.max_requests == 8

    def test_in_flight_has_no_value(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.fsync(fd)
        assert raw.context.submit(operation) == 1
        with pytest.raises(RuntimeError):
            operation.get_value()

    def test_defaults(self, raw: Runner) -> None:
        assert raw.module.Context().max_requests == 32
        assert raw.module.Context(0).max_requests == 32

    def test_context_of_an_operation(self, raw: Runner, fd: int) -> None:
        operation = raw.module.Operation.fsync(fd)
        assert operation.context is None
        raw.context.submit(operation)
        assert operation.context is raw.context

    def test_a_negative_size(self, raw: Runner, fd: int) -> None:
        with pytest.raises(OverflowError):
            raw.module.Operation.read(-1, fd, 0)


class TestPoolParity:
    """What the two thread variants add."""

    @pytest.fixture(params=POOLS)
    def raw(self, request: pytest.FixtureRequest, package: Any) -> Iterator[Runner]:
        runner = Runner(variant(package, request.param))
        yield runner
        runner.close()

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


class TestAsyncioParity:
    """`AsyncioContext`, of both packages and every variant."""

    @pytest.fixture(params=VARIANTS)
    def module(self, request: pytest.FixtureRequest, package: Any) -> Any:
        return variant(package, f"{request.param}_asyncio")

    def run(self, module: Any, test: Callable[[Any], Coroutine[Any, Any, T]], **options: Any) -> T:
        async def main() -> T:
            async with module.AsyncioContext(**options) as context:
                return await asyncio.wait_for(test(context), TIMEOUT_S)

        return asyncio.run(main())

    def test_round(self, module: Any, fd: int) -> None:
        async def test(context: Any) -> None:
            assert await context.write(b"HELLO", fd, 0) == 5
            assert await context.read(50, fd, 0) == b"HELLO world"
            assert await context.read(nbytes=5, fd=fd, offset=6, priority=1) == b"world"
            assert await context.fsync(fd) is None
            assert await context.fdsync(fd=fd) is None

        self.run(module, test)

    @pytest.mark.parametrize("deferred", [False, True])
    def test_more_than_fit(self, module: Any, fd: int, deferred: bool) -> None:
        async def test(context: Any) -> None:
            values = await asyncio.gather(*(context.read(1, fd, at % 11) for at in range(100)))
            assert b"".join(values) == (CONTENT * 10)[:100]

        self.run(module, test, max_requests=4, deferred=deferred)

    def test_attributes(self, module: Any) -> None:
        async def test(context: Any) -> None:
            assert context.loop is asyncio.get_running_loop()
            assert context.context.max_requests == 4
            assert context.semaphore._value == 4
            assert context.deferred is False

        self.run(module, test, max_requests=4)
        assert module.AsyncioContext.MAX_REQUESTS_DEFAULT == 512
        raw = importlib.import_module(module.__name__.removesuffix("_asyncio"))
        assert module.AsyncioContext.OPERATION_CLASS is raw.Operation
        assert module.AsyncioContext.CONTEXT_CLASS is raw.Context

    def test_submit(self, module: Any, fd: int) -> None:
        async def test(context: Any) -> None:
            operation = context.OPERATION_CLASS.read(5, fd, 0)
            assert await context.submit(operation) == b"hello"
            with pytest.raises(OSError, match="not submitted"):
                await context.submit(operation)
            with pytest.raises(ValueError, match="Operation object expected"):
                await context.submit(5)

        self.run(module, test)

    def test_failures(self, module: Any, fd: int) -> None:
        async def test(context: Any) -> None:
            for failing in (context.read(5, 9999, 0), context.write(b"x", 9999, 0)):
                with pytest.raises(FAILURES):
                    await failing
            with pytest.raises(TypeError):
                await context.read(5, None, 0)
            with pytest.raises(ValueError, match="payload_bytes"):
                await context.write("text", fd, 0)
            # The slots are free again.
            assert await asyncio.gather(*(context.read(5, fd, 0) for _ in range(8))) == [b"hello"] * 8

        self.run(module, test, max_requests=4)

    def test_close_twice(self, module: Any) -> None:
        async def main() -> None:
            context = module.AsyncioContext(4)
            context.close()
            context.close()

        asyncio.run(main())


def test_package_names(package: Any) -> None:
    for name in ("AsyncioContext", "Context", "Operation", "AbstractContext", "AbstractOperation"):
        assert hasattr(package, name)
    assert package.thread_aio in package.variants
    assert package.thread_aio_asyncio in package.variants_asyncio
    assert isinstance(package.__version__, str)


class TestDefectsNotCopied:
    """What the original gets wrong, in one variant at least."""

    @pytest.fixture(params=VARIANTS)
    def raw(self, request: pytest.FixtureRequest) -> Iterator[Runner]:
        runner = Runner(variant(ours, request.param))
        yield runner
        runner.close()

    @pytest.fixture(params=VARIANTS)
    def module(self, request: pytest.FixtureRequest) -> Any:
        return variant(ours, f"{request.param}_asyncio")

    @pytest.mark.parametrize(
        "payload",
        [bytearray(b"abc"), memoryview(b"abc"), array.array("b", b"abc"), mmap.mmap(-1, 3)],
        ids=["bytearray", "memoryview", "array", "mmap"],
    )
    def test_any_buffer(self, raw: Runner, fd: int, payload: Any) -> None:
        assert raw.run(raw.module.Operation.write(payload, fd, 0)) == 3
        assert os.pread(fd, 3, 0) == bytes(payload)

    def test_a_failure_is_an_oserror(self, raw: Runner, tmp_path: Path) -> None:
        directory = os.open(tmp_path, os.O_RDONLY)
        try:
            operation = raw.module.Operation.read(5, directory, 0)
            assert raw.run(operation) == -errno.EISDIR
        finally:
            os.close(directory)
        with pytest.raises(IsADirectoryError) as caught:
            operation.get_value()
        assert isinstance(caught.value, SystemError)
        assert caught.value.errno == operation.error == errno.EISDIR
        assert raw.run(raw.module.Operation.read(5, 9999, 0)) == -errno.EBADF

    def test_a_pipe(self, raw: Runner, pipe: tuple[int, int]) -> None:
        reader, writer = pipe
        operation = raw.module.Operation.read(3, reader, 5)
        assert raw.submit(operation) == 1
        os.write(writer, b"abc")
        assert raw.result() == 3
        assert operation.get_value() == b"abc"

    def test_direct(self, raw: Runner, tmp_path: Path) -> None:
        path, content = tmp_path / "direct", os.urandom(4096)
        path.write_bytes(content)
        try:
            fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        except OSError as error:
            pytest.skip(f"needs O_DIRECT: {error}")
        try:
            operation = raw.module.Operation.read(4096, fd, 0)
            assert raw.run(operation) == 4096
            assert operation.get_value() == content
            assert raw.run(raw.module.Operation.write(content[::-1], fd, 0)) == 4096
        finally:
            os.close(fd)
        assert path.read_bytes() == content[::-1]

    @pytest.mark.parametrize("name", QUEUES)
    def test_timeout_0_polls(self, name: str, pipe: tuple[int, int]) -> None:
        runner = Runner(variant(ours, name))
        operation = runner.module.Operation.read(3, pipe[0], 0)
        runner.submit(operation)
        assert runner.context.process_events(8, 1, 0) == 0
        assert runner.context.poll() == 0
        assert runner.context.cancel(operation) == 1
        assert runner.context.process_events(8, 1, -1) == 1
        assert runner.result() == -errno.ECANCELED
        runner.close()

    @pytest.mark.parametrize("name", QUEUES)
    def test_submit_takes_what_there_is_room_for(self, name: str, pipe: tuple[int, int]) -> None:
        runner = Runner(variant(ours, name), max_requests=2)
        operations = [runner.module.Operation.read(1, pipe[0], 0) for _ in range(3)]
        assert runner.context.submit(*operations) == 2
        assert runner.context.submit(operations[2]) == 0
        assert runner.context.cancel(*operations) == 2
        # A slot is free when its event was collected, not before.
        assert runner.context.process_events(8, 2, None) == 2
        assert runner.context.submit(operations[2]) == 1
        runner.close()

    def test_close_lets_writes_end(self, raw: Runner, fd: int) -> None:
        for at in range(8):
            assert raw.submit(raw.module.Operation.write(b"x", fd, at)) == 1
        raw.context.close()
        assert os.pread(fd, 8, 0) == b"x" * 8
        assert [raw.results.get_nowait() for _ in range(8)] == [1] * 8

    def test_a_callback_that_raises(self, raw: Runner, fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
        raised: list[type[BaseException]] = []
        monkeypatch.setattr(sys, "excepthook", lambda kind, *_: raised.append(kind))

        def callback(_: Any) -> None:
            raise ZeroDivisionError

        bad = raw.module.Operation.fsync(fd)
        bad.set_callback(callback)
        raw.context.submit(bad)
        assert raw.run(raw.module.Operation.read(5, fd, 0)) == 5
        raw.close()
        assert raised == [ZeroDivisionError]

    def test_a_pool_that_is_forgotten_ends(self) -> None:
        before = threading.active_count()
        for _ in range(3):
            ours.thread_aio.Context(2)
        gc.collect()
        assert threading.active_count() == before

    def test_a_cancelled_await_keeps_its_slot_until_done(self, module: Any, pipe: tuple[int, int]) -> None:
        async def main() -> None:
            reader, writer = pipe
            async with module.AsyncioContext(1) as context:
                task = asyncio.ensure_future(context.read(3, reader, 0))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                os.write(writer, b"abc")
                # The cancelled read has taken nothing with it.
                assert await asyncio.wait_for(context.read(3, reader, 0), TIMEOUT_S) == b"abc"
            assert context.semaphore._value == 1

        asyncio.run(main())

    def test_close_wakes_every_awaiter(self, module: Any, pipe: tuple[int, int]) -> None:
        async def main() -> None:
            context = module.AsyncioContext(2)
            tasks = [asyncio.ensure_future(context.read(3, pipe[0], 0)) for _ in range(4)]
            await asyncio.sleep(TURN_S)
            context.close()
            done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), TIMEOUT_S)
            assert sum(isinstance(end, OSError) and end.errno == errno.ECANCELED for end in done) == 2
            assert sum(isinstance(end, RuntimeError) for end in done) == 2
            with pytest.raises(RuntimeError, match="closed"):
                await context.read(1, pipe[0], 0)

        asyncio.run(main())

    def test_the_implementation_by_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CAIO_IMPL", "thread")
        try:
            assert importlib.reload(ours).AsyncioContext is ours.thread_aio_asyncio.AsyncioContext
        finally:
            monkeypatch.delenv("CAIO_IMPL")
            importlib.reload(ours)
