"""`proactor.compat.aiofiles`: what the original does wrong, or could not do."""

from __future__ import annotations

import asyncio
import io
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import proactor
import pytest
from aiofiles_suite import TEXT, WithFile
from conftest import Run
from proactor.compat import aiofiles as ours


class NoExecutor(ThreadPoolExecutor):
    """A loop's default executor that nobody may use."""

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        pytest.fail("the default executor was used")


class TestDefectsNotCopied(WithFile):
    def test_no_threads(self, run: Run, path: Path) -> None:
        async def main() -> None:
            before = threading.active_count()
            async with ours.open(path, "r+") as file:
                assert [line async for line in file] == TEXT.splitlines(keepends=True)
                await file.write("four\n")
            async with ours.open(path, "rb") as file:
                assert len([line async for line in file]) == 4
            assert threading.active_count() == before

        run(main())

    def test_not_the_loops_executor(self, run: Run, path: Path) -> None:
        async def main() -> None:
            asyncio.get_running_loop().set_default_executor(NoExecutor(1))
            assert await ours.os.path.exists(path)
            with path.open() as file:
                assert await ours.threadpool.wrap(file).read() == TEXT
            async with ours.tempfile.TemporaryFile() as file:
                await file.write(b"x")

        run(main())

    def test_hot_methods_are_the_native_ones(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.open(path, "r+b") as file:
                native: Any = file._file
                assert isinstance(native, proactor.BinaryFile)
                for name in ("read", "readline", "write", "readinto", "peek"):
                    assert getattr(file, name) == getattr(native, name)
                assert aiter(file) is native

        run(main())

    def test_a_cancelled_read_consumes_nothing(self, run: Run) -> None:
        async def main() -> None:
            reader, writer = os.pipe()
            async with ours.open(reader, "rb") as file:
                read = asyncio.ensure_future(file.readline())
                await asyncio.sleep(0)
                read.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await read
                os.write(writer, b"whole\n")
                os.close(writer)
                assert await file.readline() == b"whole\n"

        run(main())

    def test_a_cancelled_open_leaves_nothing(self, run: Run, tmp_path: Path) -> None:
        # (Descriptors are looked for after each test.)
        async def main() -> None:
            for at in range(50):

                async def open_it(at: int = at) -> None:
                    async with ours.open(tmp_path / f"{at}", "w"):
                        await asyncio.sleep(60)

                task = asyncio.ensure_future(open_it())
                for _ in range(at % 5):
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        run(main())

    def test_writelines_of_an_asynchronous_iterable(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.open(path) as source, ours.open(path.with_name("copy"), "w") as copy:
                await copy.writelines(source)
            assert path.with_name("copy").read_text() == TEXT

        run(main())

    def test_nothing_underneath(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.open(path, "rb") as file:
                with pytest.raises(io.UnsupportedOperation, match="executor"):
                    _ = file.raw
            async with ours.open(path) as text:
                assert isinstance(text.buffer, proactor.BinaryFile)

        run(main())

    def test_wrap_a_native_file(self, run: Run, path: Path) -> None:
        async def main() -> None:
            file = ours.threadpool.wrap(await proactor.open(path))
            assert type(file) is ours.threadpool.AsyncTextIOWrapper
            assert await file.read() == TEXT
            await file.close()

        run(main())

    def test_a_spooled_file_in_memory_uses_no_thread(self, run: Run) -> None:
        async def main() -> None:
            before = threading.active_count()
            async with ours.tempfile.SpooledTemporaryFile(max_size=100) as file:
                await file.write(b"x" * 100)
                assert file.name is None
                assert threading.active_count() == before

        run(main())
