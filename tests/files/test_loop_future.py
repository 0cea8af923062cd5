"""What a native call suspends on, as tasks see it: the loop's future, ended by native code."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from file_helpers import in_time


@pytest.fixture
def pipe_end(tmp_path: Path) -> Path:
    """A file whose reading takes a turn of the loop: no plain file, so never read at once."""
    return Path("/proc/self/status")


def suspended(call: Coroutine[Any, Any, Any]) -> Any:
    """What a call that cannot end at once gives its task to wait for."""
    return call.send(None)


class TestAsAFuture:
    def test_a_task_would_take_it(self, run: Run, pipe_end: Path) -> None:
        async def main() -> None:
            call = proactor.read_bytes(pipe_end)
            future = suspended(call)
            assert asyncio.isfuture(future)
            assert future._asyncio_future_blocking is True
            assert future.get_loop() is asyncio.get_running_loop()
            assert not future.done()
            with pytest.raises(RuntimeError, match="not set"):
                future.result()
            call.close()

        run(in_time(main()))

    def test_callbacks_run_in_their_context_and_once(self, run: Run, pipe_end: Path) -> None:
        name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")

        async def main() -> list[str]:
            seen: list[str] = []
            call = proactor.read_bytes(pipe_end)
            future = suspended(call)
            own = contextvars.copy_context()
            own.run(name.set, "own")
            done = asyncio.Event()

            def told(of: object) -> None:
                assert of is future
                seen.append(name.get())

            def last(_of: object) -> None:
                seen.append("last")
                done.set()

            future.add_done_callback(told, context=own)
            future.add_done_callback(told)
            future.add_done_callback(print)
            assert future.remove_done_callback(print) == 1
            future.add_done_callback(last)
            await done.wait()
            assert future.done()
            with pytest.raises(StopIteration) as end:
                call.send(None)
            assert end.value.value.startswith(b"Name:")
            # Of one that is done: soon, and not at once.
            future.add_done_callback(told, context=own)
            assert len(seen) == 3
            await asyncio.sleep(0)
            return seen

        assert run(in_time(main())) == ["own", "nobody", "last", "own"]

    def test_cancel(self, run: Run, pipe_end: Path) -> None:
        async def main() -> None:
            call = proactor.read_bytes(pipe_end)
            future = suspended(call)
            told = asyncio.Event()
            future.add_done_callback(lambda _: told.set())
            assert future.cancel("enough") is True
            assert future.cancel() is False
            assert future.cancelled()
            assert not told.is_set()
            await told.wait()
            with pytest.raises(asyncio.CancelledError, match="enough"):
                future.result()
            call.close()

        run(in_time(main()))

    def test_awaited_by_itself(self, run: Run, pipe_end: Path) -> None:
        """As `await` of any future, from Python code."""

        async def main() -> None:
            call = proactor.read_bytes(pipe_end)
            value = await suspended(call)
            assert value.startswith(b"Name:")
            call.close()

        run(in_time(main()))


class TestWakingTasks:
    def test_the_driver_wakes_tasks_itself(self, pipe_end: Path) -> None:
        """No handle of the loop for each task whose op has come."""
        scheduled: list[str] = []

        class Loop(asyncio.SelectorEventLoop):
            def call_soon(  # type: ignore[override]
                self, callback: Any, *args: Any, **options: Any
            ) -> asyncio.Handle:
                scheduled.append(repr(callback).lower())
                return super().call_soon(callback, *args, **options)

        async def main() -> int:
            lengths: list[bytes] = await asyncio.gather(*(proactor.read_bytes(pipe_end) for _ in range(64)))
            return len([length for length in lengths if length])

        loop = Loop()
        try:
            assert loop.run_until_complete(main()) == 64
        finally:
            loop.close()
        # That of main() itself, which waits for a future of asyncio's.
        assert len([callback for callback in scheduled if "wakeup" in callback]) <= 1

    def test_a_task_that_ends_the_loop_leaves_the_others_to_it(self, pipe_end: Path) -> None:
        """SystemExit goes through the driver's handle. Those woken with it are told by the loop later."""
        loop = asyncio.new_event_loop()
        ended: list[int] = []

        async def one(number: int) -> None:
            await proactor.read_bytes(pipe_end)
            if number == 3:
                raise SystemExit(7)
            ended.append(number)

        try:
            tasks = [loop.create_task(one(number)) for number in range(16)]
            with pytest.raises(SystemExit):
                loop.run_until_complete(in_time(asyncio.wait(tasks)))
            others = [task for number, task in enumerate(tasks) if number != 3]
            loop.run_until_complete(in_time(asyncio.wait(others)))
            assert sorted(ended) == [number for number in range(16) if number != 3]
            assert isinstance(tasks[3].exception(), SystemExit)
        finally:
            loop.close()

    def test_a_woken_task_that_wakes_another(self, run: Run, tmp_path: Path) -> None:
        """The second is stepped when the first has ended its step: tasks never run within each other."""
        path = tmp_path / "f"
        path.write_bytes(bytes(1 << 20))

        async def main() -> list[int]:
            order: list[int] = []
            async with proactor.open(path, "rb", buffering=0, engine="threads") as file:

                async def one(number: int) -> None:
                    assert asyncio.current_task() is not None
                    await file.read(4096)
                    before = asyncio.current_task()
                    order.append(number)
                    assert asyncio.current_task() is before

                await asyncio.gather(*map(one, range(32)))
            return order

        assert run(in_time(main())) == list(range(32))

    def test_the_error_of_a_call_reaches_its_task(self, run: Run, tmp_path: Path) -> None:
        async def main() -> None:
            with pytest.raises(IsADirectoryError) as error:
                await proactor.read_bytes(tmp_path)
            assert error.value.filename == tmp_path

        run(in_time(main()))


def test_one_that_is_never_ended_is_collected_with_its_task(pipe_end: Path) -> None:
    """The future, the task's callback and the call know each other."""
    loop = asyncio.new_event_loop()

    async def main() -> weakref.ref[Any]:
        call = proactor.read_bytes(pipe_end)
        future = suspended(call)
        future.add_done_callback(lambda _, call=call, future=future: None)
        call.close()
        return weakref.ref(future)

    try:
        future = loop.run_until_complete(main())
        loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()
    gc.collect()
    assert future() is None
