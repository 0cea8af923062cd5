"""Positional calls that are cancelled, outlive their file or loop, or keep others waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import require
from conftest import Run
from file_helpers import (
    LARGE_BYTES,
    MIB,
    content,
    descriptors,
    in_time,
    resizable,
    until,
)

pytest_plugins = ["file_fixtures"]

SIZE_BYTES = 10_000


class TestLifetime:
    def test_cancelled_reads(self, run: Run, engine: str, large: Path) -> None:
        """The buffer stays exported until its op has ended, and the file goes on."""

        async def main() -> None:
            async with proactor.open(large, "rb", engine=engine) as file:
                target = bytearray(2 * MIB)
                task = asyncio.ensure_future(file.preadinto(target, 0))
                await asyncio.sleep(0)
                assert not task.done()
                assert not resizable(target)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                del task
                await until(lambda: resizable(target))
                assert await file.pread(5, 0) == content(5)
                other = asyncio.ensure_future(file.pread(2 * MIB, 0))
                await asyncio.sleep(0)
                other.cancel()
                assert await file.pread(2 * MIB, 5) == content(LARGE_BYTES)[5 : 5 + 2 * MIB]

        run(main())

    def test_cancelled_writes(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "file"

        async def main() -> None:
            async with proactor.open(path, "wb", engine=engine) as file:
                # Not begun: data written before come first.
                await file.write(b"first")
                task = asyncio.ensure_future(file.pwrite(b"never", 100))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await file.flush()
                assert path.read_bytes() == b"first"
                # Begun: all of it.
                target = bytearray(content(MIB))
                task = asyncio.ensure_future(file.pwrite(target, 0))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                del task
                await until(lambda: resizable(target))
            assert path.read_bytes() == content(MIB)

        run(main())

    def test_an_error_after_a_cancellation_is_reported(self, run: Run) -> None:
        async def main() -> None:
            reports: list[dict[str, Any]] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
            async with proactor.open("/dev/full", "wb") as file:
                task = asyncio.ensure_future(file.pwrite(b"x", 0))
                await asyncio.sleep(0)
                task.cancel()
                await until(lambda: reports)
            assert isinstance(reports[0]["exception"], OSError)
            assert reports[0]["file"] is file

        run(main())

    def test_closed_meanwhile(self, run: Run, engine: str, large: Path) -> None:
        async def main() -> None:
            file = await proactor.open(large, "r+b", engine=engine)
            reading = asyncio.ensure_future(file.pread(2 * MIB, 0))
            writing = asyncio.ensure_future(file.pwrite(b"x", LARGE_BYTES))
            await asyncio.sleep(0)
            late = file.pread(3, 0)
            await file.close()
            assert await reading == content(LARGE_BYTES)[: 2 * MIB]
            assert await writing == 1
            with pytest.raises(ValueError, match="closed file"):
                await late
            with pytest.raises(ValueError, match="closed file"):
                file.pwrite(b"", 0)  # type: ignore[unused-coroutine]

        run(main())

    def test_what_is_over_keeps_nothing(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            file = await proactor.open(path, "r+b", engine=engine)
            before = descriptors()
            target, data = bytearray(10), bytearray(b"data")
            calls: list[Any] = [file.preadinto(target, 0), file.pwrite(data, 0), file.pread(2 * MIB, 0)]
            calls += [file.preadinto(target, 5), file.pwrite(data, 5)]
            for call in calls[:3]:
                await call
            for call in calls[3:]:
                task = asyncio.ensure_future(call)
                await asyncio.sleep(0)
                task.cancel()
            await until(lambda: resizable(target))
            await until(lambda: resizable(data))
            await file.close()
            assert len(descriptors()) == len(before) - 1
            del calls

        run(main())

    def test_another_loop(self, run: Run, path: Path) -> None:
        async def open_it() -> Any:
            return await proactor.open(path, "r+b")

        async def use(file: Any) -> None:
            for call in (file.pread(1, 0), file.pwrite(b"x", 0)):
                with pytest.raises(RuntimeError, match="another event loop"):
                    await call
            await file.close()

        run(use(run(open_it())))
        assert path.read_bytes() == content(SIZE_BYTES)

    def test_a_loop_that_ends(self, run: Run, path: Path) -> None:
        """What has begun is done, and nobody waits for ever."""

        async def main() -> Any:
            file = await proactor.open(path, "r+b")
            asyncio.ensure_future(file.pwrite(b"begun", 0))  # noqa: RUF006
            asyncio.ensure_future(file.pread(2 * MIB, 0))  # noqa: RUF006
            await asyncio.sleep(0)
            return file

        file = run(main())
        assert path.read_bytes()[:5] == b"begun"
        run(file.close())

    def test_once(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with proactor.open(path, "rb") as file:
                call = file.pread(1, 0)
                assert "pread" in repr(call)
                assert (call.__name__, call.__qualname__) == ("pread", "BinaryFile.pread")  # type: ignore[attr-defined]
                await call
                with pytest.raises(RuntimeError, match="already awaited"):
                    await call
                with pytest.warns(RuntimeWarning, match=r"'BinaryFile.pread' was never awaited"):
                    file.pread(1, 0)  # type: ignore[unused-coroutine]

        run(main())

    @pytest.mark.parametrize(
        ("name", "arguments"), [("pread", (4096, 0)), ("pread", (0, 0)), ("pwrite", (b"", 0))]
    )
    @pytest.mark.parametrize("direct", [False, True])
    def test_flat_out(self, run: Run, path: Path, name: str, arguments: Any, direct: bool) -> None:
        """Calls that do not suspend let others have their turn."""
        if direct:
            require("O_DIRECT")

        async def main() -> None:
            async with proactor.open(path, "r+b", direct=direct) as file:
                ticks = 0

                async def tick() -> None:
                    nonlocal ticks
                    while True:
                        ticks += 1
                        await asyncio.sleep(0)

                ticker = asyncio.create_task(tick())
                calls = 0
                while ticks < 3:
                    await getattr(file, name)(*arguments)
                    calls += 1
                ticker.cancel()
                assert calls > 3 or direct

        run(in_time(main()))
