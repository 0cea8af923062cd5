"""Whole files among tasks, cancellations, loops, threads and forks."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import LoopFactory, Run
from file_helpers import (
    LARGE_BYTES,
    content,
    descriptors,
    in_time,
    resident_bytes,
    resizable,
    turns,
    until,
)

pytest_plugins = ["file_fixtures"]


class TestTasks:
    def test_gather(self, run: Run, engine: str, tmp_path: Path) -> None:
        paths = [tmp_path / str(at) for at in range(100)]

        async def main() -> list[bytes]:
            writes = (
                proactor.write_bytes(path, content(at * 100, at), engine=engine)
                for at, path in enumerate(paths)
            )
            assert await asyncio.gather(*writes) == [at * 100 for at in range(100)]
            reads = (proactor.read_bytes(path, engine=engine) for path in paths)
            return await asyncio.gather(*reads)

        assert run(main()) == [content(at * 100, at) for at in range(100)]

    def test_gather_with_failures(self, run: Run, engine: str, path: Path, large: Path) -> None:
        async def main() -> list[Any]:
            calls = [proactor.read_bytes(p, engine=engine) for p in (path, "/missing", large, "/missing")]
            return list(await asyncio.gather(*calls, return_exceptions=True))

        small, one, big, two = run(main())
        assert (small, big) == (content(10_000), content(LARGE_BYTES))
        assert type(one) is type(two) is FileNotFoundError

    def test_create_task(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> bytes:
            task: asyncio.Task[bytes] = asyncio.create_task(proactor.read_bytes(large, engine=engine))
            assert "read_bytes" in repr(task)
            return await in_time(task)

        assert run(main()) == content(LARGE_BYTES)

    def test_run_of_a_call_alone(self, run: Run, path: Path) -> None:
        assert run(proactor.read_bytes(path)) == content(10_000)

    if sys.version_info >= (3, 11):

        def test_task_group(self, run: Run, engine: str, path: Path, large: Path) -> None:
            async def main() -> list[bytes]:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(proactor.read_bytes(p, engine=engine)) for p in (path, large)]
                return [task.result() for task in tasks]

            assert run(main()) == [content(10_000), content(LARGE_BYTES)]

    def test_reuse_is_refused(self, run: Run, path: Path, large: Path) -> None:
        async def main() -> None:
            for p in (path, large):
                call = proactor.read_bytes(p)
                await call
                with pytest.raises(RuntimeError, match="already awaited"):
                    await call

        run(main())

    def test_never_awaited(self, path: Path) -> None:
        with pytest.warns(RuntimeWarning, match="coroutine 'read_bytes' was never awaited"):
            proactor.read_bytes(path)  # type: ignore[unused-coroutine]
        with pytest.warns(RuntimeWarning, match="coroutine 'write_bytes' was never awaited"):
            proactor.write_bytes(path, b"")  # type: ignore[unused-coroutine]
        assert path.read_bytes() == content(10_000)

    def test_closed_is_awaited_enough(self, path: Path) -> None:
        proactor.read_bytes(path).close()

    def test_attributes(self, path: Path) -> None:
        call = proactor.read_bytes(path)
        assert call.__name__ == call.__qualname__ == "read_bytes"  # type: ignore[attr-defined]
        assert str(path) in repr(call)
        assert asyncio.iscoroutine(call)
        call.close()

    def test_the_loop_has_its_turn(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> int:
            with turns() as count:
                await in_time(proactor.read_bytes(large, engine=engine))
                return count()

        assert run(main()) > 0


class TestCancellation:
    def test_a_read(self, run: Run, engine: str, path: Path, large: Path) -> None:
        async def main() -> None:
            await proactor.read_bytes(path, engine=engine)
            before = descriptors()
            for _ in range(20):
                task = asyncio.ensure_future(proactor.read_bytes(large, engine=engine))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            # The loop goes on, and what was in flight is let go of.
            assert await in_time(proactor.read_bytes(large, engine=engine)) == content(LARGE_BYTES)
            await until(lambda: descriptors() <= before)

        run(main())

    def test_before_it_starts(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            task = asyncio.ensure_future(proactor.read_bytes(path, engine=engine))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        run(main())

    def test_a_write(self, run: Run, engine: str, tmp_path: Path) -> None:
        path, data = tmp_path / "file", bytearray(content(LARGE_BYTES))

        async def main() -> None:
            task = asyncio.ensure_future(proactor.write_bytes(path, data, engine=engine))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            del task
            await until(lambda: resizable(data))

        before = descriptors()
        run(main())
        assert descriptors() == before
        # All or nothing: it was begun, or it was not.
        assert not path.exists() or path.stat().st_size == LARGE_BYTES

    def test_wait_for(self, run: Run, engine: str, tmp_path: Path) -> None:
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)

        async def main() -> None:
            # Opening a FIFO for reading waits for a writer, which never comes.
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(proactor.read_bytes(fifo, engine=engine), 0.01)
            assert await proactor.read_bytes("/proc/self/comm", engine=engine)

        run(main())

    if sys.version_info >= (3, 11):

        def test_timeout(self, run: Run, engine: str, tmp_path: Path, large: Path) -> None:
            fifo = tmp_path / "fifo"
            os.mkfifo(fifo)

            async def main() -> None:
                # Of what does end it may hear first: uvloop asks the kernel before it looks at timeouts.
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await proactor.read_bytes(fifo, engine=engine)
                async with asyncio.timeout(30):
                    assert await proactor.read_bytes(large, engine=engine) == content(LARGE_BYTES)

            run(main())

    def test_many(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> None:
            tasks = [asyncio.ensure_future(proactor.read_bytes(large, engine=engine)) for _ in range(32)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            results = await in_time(asyncio.gather(*tasks, return_exceptions=True))
            assert {type(result) for result in results[::2]} <= {asyncio.CancelledError, bytes}
            assert all(result == content(LARGE_BYTES) for result in results[1::2])

        run(main())


class TestLoops:
    def test_one_after_another(self, run: Run, engine: str, path: Path, large: Path) -> None:
        async def main() -> int:
            small = await proactor.read_bytes(path, engine=engine)
            big = await in_time(proactor.read_bytes(large, engine=engine))
            return len(small) + len(big)

        before = descriptors()
        for _ in range(5):
            assert run(main()) == 10_000 + LARGE_BYTES
        assert len(descriptors() - before) <= 8

    def test_in_several_threads(self, engine: str, large: Path, event_loop_factory: LoopFactory) -> None:
        results: list[Any] = []

        async def main() -> None:
            for _ in range(3):
                calls = [proactor.read_bytes(large, engine=engine) for _ in range(4)]
                assert await in_time(asyncio.gather(*calls)) == [content(LARGE_BYTES)] * 4

        def work() -> None:
            loop = event_loop_factory()
            try:
                results.append(loop.run_until_complete(main()))
            except BaseException as error:
                results.append(error)
            finally:
                loop.close()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [None] * 4

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_closed_with_ops_in_flight(
        self, engine: str, large: Path, event_loop_factory: LoopFactory, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The task is lost, as asyncio says; descriptors and threads are not: see `no_leaks`."""

        async def main() -> None:
            tasks.append(asyncio.ensure_future(proactor.read_bytes(large, engine=engine)))
            await asyncio.sleep(0)

        for _ in range(3):
            tasks: list[Any] = []
            loop = event_loop_factory()
            loop.run_until_complete(main())
            loop.close()
            tasks.clear()
            del loop

        async def after() -> bytes:
            return await in_time(proactor.read_bytes(large, engine=engine))

        loop = event_loop_factory()
        assert loop.run_until_complete(after()) == content(LARGE_BYTES)
        loop.close()

    def test_moved_to_another_thread(
        self, engine: str, path: Path, tmp_path: Path, event_loop_factory: LoopFactory
    ) -> None:
        """The engine stays where it is: what was pending ends, and what is open can be closed."""
        fifo, written = tmp_path / "fifo", tmp_path / "written"
        os.mkfifo(fifo)

        async def begin() -> tuple[Any, asyncio.Task[bytes]]:
            file = await proactor.open(written, "wb", engine=engine)
            await file.write(b"kept")
            pending = asyncio.ensure_future(proactor.read_bytes(fifo, engine=engine))
            await asyncio.sleep(0.01)
            return file, pending

        async def go_on(file: Any, pending: asyncio.Task[bytes]) -> None:
            assert await in_time(proactor.read_bytes(path, engine=engine)) == content(10_000)
            with pytest.raises(OSError, match="canceled"):
                await in_time(pending)
            with pytest.raises(RuntimeError, match="runs in another thread"):
                await in_time(file.flush())
            await in_time(file.close())
            await in_time(file.close())
            async with proactor.open(written, "ab", engine=engine) as again:
                await again.write(b", and more")

        loop = event_loop_factory()
        begun = loop.run_until_complete(begin())
        results: list[Any] = []

        def work() -> None:
            try:
                results.append(loop.run_until_complete(go_on(*begun)))
            except BaseException as error:
                results.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert results == [None]
        assert written.read_bytes() == b"kept, and more"

        async def back() -> bytes:
            return await in_time(proactor.read_bytes(path, engine=engine))

        assert loop.run_until_complete(back()) == content(10_000)
        loop.close()

    def test_two_engines_on_one_loop(self, run: Run, path: Path) -> None:
        async def main() -> list[bytes]:
            calls = [proactor.read_bytes(path, engine=name) for name in proactor.engines()]
            return await asyncio.gather(*calls)

        assert set(run(main())) == {content(10_000)}

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_a_forked_child_makes_its_own(
        self, engine: str, path: Path, large: Path, event_loop_factory: LoopFactory
    ) -> None:
        async def read() -> bytes:
            assert await proactor.read_bytes(path, engine=engine) == content(10_000)
            return await in_time(proactor.read_bytes(large, engine=engine))

        async def main() -> int:
            task = asyncio.ensure_future(proactor.read_bytes(large, engine=engine))
            await asyncio.sleep(0)
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    # The parent's loop cannot be used here, as ever.
                    asyncio._set_running_loop(None)
                    loop = event_loop_factory()
                    status = 0 if loop.run_until_complete(read()) == content(LARGE_BYTES) else 2
                finally:
                    os._exit(status)
            assert await in_time(task) == content(LARGE_BYTES)
            return os.waitpid(child, 0)[1]  # noqa: ASYNC222

        loop = event_loop_factory()
        try:
            assert loop.run_until_complete(read()) == content(LARGE_BYTES)
            assert loop.run_until_complete(main()) == 0
        finally:
            loop.close()


class TestLeaks:
    def test_no_reference_is_left(self, run: Run, engine: str, path: Path, large: Path) -> None:
        async def main() -> None:
            missing, data = str(path) + "-missing", b"data" * 100
            counts = []
            for _ in range(2):
                for p in [str(path), str(large)] * 5:
                    await proactor.read_bytes(p, engine=engine)
                for _ in range(20):
                    with pytest.raises(FileNotFoundError):
                        await proactor.read_bytes(missing, engine=engine)
                    await proactor.write_bytes(path, data, engine=engine)
                counts.append((sys.getrefcount(missing), sys.getrefcount(data), len(descriptors())))
            assert counts[0] == counts[1]

        run(main())

    def test_ten_thousand(self, run: Run, engine: str, path: Path, large: Path) -> None:
        async def work(rounds: int) -> None:
            for at in range(rounds):
                await proactor.read_bytes(path, engine=engine)
                if at % 100 == 0:
                    await asyncio.gather(*(proactor.read_bytes(large, engine=engine) for _ in range(2)))
                    await proactor.write_bytes(path, b"x" * 100, engine=engine)
                    with pytest.raises(FileNotFoundError):
                        await proactor.read_bytes("/missing", engine=engine)

        async def main() -> None:
            await work(1000)
            gc.collect()
            memory, blocks, open_files = resident_bytes(), sys.getallocatedblocks(), descriptors()
            await work(10_000)
            gc.collect()
            assert resident_bytes() - memory < 4 * LARGE_BYTES
            assert sys.getallocatedblocks() - blocks < 500
            assert descriptors() == open_files

        run(in_time(main()))
