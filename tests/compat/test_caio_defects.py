"""`proactor.compat.caio`: what the original gets wrong, in one variant at least."""

from __future__ import annotations

import array
import asyncio
import errno
import gc
import importlib
import mmap
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from caio_suite import QUEUES, TIMEOUT_S, Parity, Runner, variant
from proactor.compat import caio as ours

TURN_S = 0.01


class TestDefectsNotCopied(Parity):
    @pytest.fixture
    def package(self) -> Any:
        return ours

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

    def test_direct(self, raw: Runner, direct_file: tuple[Path, int]) -> None:
        path, fd = direct_file
        content = path.read_bytes()
        operation = raw.module.Operation.read(len(content), fd, 0)
        assert raw.run(operation) == len(content)
        assert operation.get_value() == content
        assert raw.run(raw.module.Operation.write(content[::-1], fd, 0)) == len(content)
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
