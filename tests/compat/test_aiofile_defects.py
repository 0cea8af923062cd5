# ruff: noqa: ASYNC230, ASYNC240 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofile`: what the original does wrong, or could not do."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiofile_suite import DATA, TEXT, WithFile
from conftest import Run
from proactor.compat import aiofile as ours
from proactor.compat import caio
from rivals import rival


async def _cancelled(awaitable: Awaitable[object], turns: int) -> None:
    task = asyncio.ensure_future(awaitable)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class TestDefectsNotCopied(WithFile):
    def test_readline_of_a_part(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.async_open(path) as file:
                assert (await file.readline(3), file.tell()) == ("hel", 3)
                assert await file.readline(newline="w") == "lo w"
                assert (await file.readline(7), file.tell()) == ("örld\n", 13)
                assert await file.readline(newline="ne") == "line"
                with pytest.raises(ValueError, match="empty"):
                    await file.readline(newline="")

        run(main())

    def test_iterating_starts_where_seek_went(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.async_open(path) as file:
                file.seek(13)
                assert [line async for line in file] == ["line2\n", "\n", "line4"]
                file.seek(0)
                assert [line async for line in file] == TEXT.splitlines(keepends=True)

        run(main())

    def test_bad_seeks(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.async_open(path) as file:
                with pytest.raises(ValueError, match="negative seek position -1"):
                    file.seek(-1)
                with pytest.raises(TypeError):
                    file.seek("5")  # type: ignore[arg-type]
                assert file.tell() == 0

        run(main())

    def test_lines_take_few_reads(self, run: Run, path: Path) -> None:
        path.write_text("line\n" * 1000)

        class Counting:
            def __init__(self, context: Any) -> None:
                self.context, self.reads = context, 0

            def read(self, *args: Any) -> Any:
                self.reads += 1
                return self.context.read(*args)

        async def main() -> None:
            with_all = ours.aio.create_context()
            context = Counting(with_all)
            async with ours.async_open(path, "r", context=context) as file:
                while await file.readline():
                    pass
                assert len([line async for line in file]) == 1000
                file.seek(0)
                for _ in range(1000):
                    await file.read(5)
            assert context.reads < 10
            with_all.close()

        run(main())

    def test_any_separator_anywhere(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.AIOFile(path, "rb") as file:
                for size in range(1, 30):
                    reader = ours.LineReader(file, 0, size, "ine")
                    assert [part async for part in reader] == [DATA[:17], DATA[17:24], DATA[24:]]
                assert await ours.LineReader(file, line_sep=b"ine").readline() == DATA[:17]

        run(main())

    @pytest.mark.parametrize(
        "encoding", ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "shift_jis", "latin-1"]
    )
    def test_encodings(self, run: Run, path: Path, encoding: str) -> None:
        lines = [f"line {at} of £ text\n" for at in range(3000)]
        path.write_bytes("".join(lines).encode(encoding))

        async def main() -> None:
            async with ours.async_open(path, "r", encoding) as file:
                assert [line async for line in file] == lines
                places = []
                for line in lines:
                    places.append(file.tell())
                    assert await file.readline() == line
                assert file.tell() == path.stat().st_size
                for at in (1, 2000, 100):
                    if encoding not in ("utf-16", "utf-32"):
                        file.seek(places[at])
                        assert await file.readline() == lines[at]
                chunks = [chunk async for chunk in ours.Reader(file.file, 0, 1001)]
                assert "".join(chunks) == "".join(lines)

        run(main())

    def test_a_file_that_grows(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.async_open(path) as file:
                assert len(await file.read()) == len(TEXT)
                with path.open("a") as writer:
                    writer.write("äx\n")
                assert await file.readline() == "äx\n"
                lines = ours.LineReader(file.file, file.tell())
                assert await lines.readline() == ""
                with path.open("a") as writer:
                    writer.write("more\n")
                assert await lines.readline() == "more\n"

        run(main())

    def test_what_was_read_ahead_is_forgotten_by_a_write(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.async_open(path, "r+") as file:
                assert await file.readline() == "hello wörld\n"
                await file.write("LINE")
                assert await file.readline() == "2\n"
                path.write_text("something else")
                file.seek(0)
                assert await file.read() == "something else"

        run(main())

    @pytest.mark.parametrize("engine", ["uring", "linux", "thread", "python"])
    def test_special_files(self, run: Run, engine: str) -> None:
        name = {"uring": "linux_uring", "linux": "linux_aio"}.get(engine, f"{engine}_aio")
        module = importlib.import_module(f"proactor.compat.caio.{name}_asyncio")
        if module not in caio.variants_asyncio:
            pytest.skip(f"needs {'io_uring' if engine == 'uring' else name}: {caio.variants_asyncio}")

        async def main() -> None:
            async with module.AsyncioContext() as context:
                async with ours.async_open("/proc/self/status", context=context) as file:
                    assert (await file.read()).endswith("\n")
                reader, writer = os.pipe()
                with open(reader, "rb", 0) as source, open(writer, "wb", 0) as target:
                    async with ours.async_open(target, context=context) as file:
                        await file.write(b"through a pipe")
                    target.close()
                    async with ours.AIOFile.from_fp(source, context=context) as file:
                        assert await file.read() == b"through a pipe"

        run(main())

    @pytest.mark.leaks("the original's own descriptors and threads")
    def test_contexts_of_the_original(self, run: Run, path: Path) -> None:
        theirs = rival("caio", "caio")

        async def main() -> None:
            context = theirs.python_aio_asyncio.AsyncioContext()
            async with ours.async_open(path, "r+", context=context) as file:
                await file.write("HELLO")
                file.seek(0)
                assert await file.readline() == "HELLO wörld\n"
            context.close()

        run(main())

    def test_any_buffer(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.AIOFile(path, "wb") as file:
                for data in (bytearray(b"abcd"), memoryview(b"abcd").cast("H")):
                    assert await file.write(data) == 4
                    assert path.read_bytes() == b"abcd"

        run(main())

    def test_names(self, run: Run, path: Path) -> None:
        async def main() -> None:
            async with ours.async_open(os.fsencode(path)) as file:
                assert await file.read(5) == "hello"
            with pytest.raises(TypeError):
                ours.AIOFile(5)  # type: ignore[arg-type]

        run(main())

    def test_close_waits_for_operations(self, run: Run, path: Path) -> None:
        block = bytes(1 << 20)

        async def main() -> None:
            file = await ours.AIOFile(path, "wb")
            writes = [asyncio.ensure_future(file.write(block, at << 20)) for at in range(8)]
            await asyncio.sleep(0)
            await file.close()
            assert await asyncio.gather(*writes) == [1 << 20] * 8
            assert path.stat().st_size == 8 << 20

            context = ours.aio.create_context(2)
            file = await ours.AIOFile(path, "rb", context=context)
            reads = [asyncio.ensure_future(file.read(1 << 20, at << 20)) for at in range(8)]
            await asyncio.sleep(0)
            await file.close()
            assert [len(data) for data in await asyncio.gather(*reads)] == [1 << 20] * 8
            context.close()

        run(main())

    def test_nothing_begins_after_close_began(self, run: Run, path: Path) -> None:
        async def main() -> None:
            file = await ours.AIOFile(path, "r+")
            closing = asyncio.ensure_future(file.close())
            await asyncio.sleep(0)
            with pytest.raises(ValueError, match="closed file"):
                await file.read()
            await closing

        run(main())

    def test_a_cancelled_close_goes_on(self, run: Run, path: Path) -> None:
        async def main() -> None:
            file = await ours.AIOFile(path, "r+")
            await file.write("H")
            await _cancelled(file.close(), 1)
            await file.close()
            assert file.closed

        run(main())

    def test_a_cancelled_operation_keeps_the_descriptor(self, run: Run) -> None:
        async def main() -> None:
            reader, writer = os.pipe()
            with open(reader, "rb", 0) as source, open(writer, "wb", 0) as target:
                file = ours.AIOFile.from_fp(source)
                await _cancelled(file.read_bytes(5), 2)
                # The read was asked to stop: nothing is lost.
                await file.close()
                target.write(b"whole")
                assert await file.read_bytes(5) == b"whole"

        run(main())

    def test_a_cancelled_read_consumes_nothing(self, run: Run) -> None:
        async def main() -> None:
            reader, writer = os.pipe()
            with open(reader) as source, open(writer, "wb", 0) as target:
                file = ours.async_open(source)
                target.write(b"be")
                read = asyncio.ensure_future(file.readline())
                while not read.done() and not file._ahead.left():  # noqa: ASYNC110
                    await asyncio.sleep(0)
                read.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await read
                target.write("gün\n".encode())
                assert await file.readline() == "begün\n"

        run(main())

    def test_a_wrapper_closes_once(self, run: Run, path: Path) -> None:
        async def main() -> None:
            file = await ours.async_open(path)
            clone = await ours.clone(file)
            await file.close()
            await file.close()
            assert await clone.read(5) == "hello"
            await clone.close()

        run(main())

    def test_more_operations_than_fit(self, run: Run, path: Path) -> None:
        async def main() -> None:
            context = ours.aio.create_context(4)
            async with ours.AIOFile(path, "rb", context=context) as file:
                found = await asyncio.gather(*(file.read(1, at % len(DATA)) for at in range(500)))
            assert b"".join(found[: len(DATA)]) == DATA
            context.close()

        run(main())

    def test_a_context_for_each_loop(self, event_loop_factory: Callable[[], Any], path: Path) -> None:
        async def main() -> Any:
            async with ours.async_open(path) as file:
                await file.read()
            return id(ours.aio.get_default_context())

        for _ in range(3):
            loop = event_loop_factory()
            try:
                first = loop.run_until_complete(main())
                assert loop.run_until_complete(main()) == first
            finally:
                loop.close()
