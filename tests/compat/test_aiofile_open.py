# ruff: noqa: ASYNC230, ASYNC240 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofile`, files with a position: parity with the original where it is followed."""

from __future__ import annotations

import asyncio
import importlib
import io
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiofile_suite import DATA, FAILURES, TEXT, Parity
from conftest import Run
from proactor.compat import aiofile as ours
from rivals import rival


class TestAsyncOpenParity(Parity):
    """True of both packages, for files with a position."""

    def test_kinds(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            text, binary = package.async_open(path), package.async_open(path, "rb")
            assert (type(text), type(binary)) == (package.TextFileWrapper, package.BinaryFileWrapper)
            assert isinstance(text, package.FileIOWrapperBase)
            assert isinstance(text.file, package.AIOFile)
            assert (text.closed, text.tell()) == (True, 0)
            with pytest.raises(ValueError, match="text mode"):
                package.TextFileWrapper(binary.file)
            with pytest.raises(ValueError, match="binary mode"):
                package.BinaryFileWrapper(text.file)
            with pytest.raises(TypeError, match="abstract"):
                package.FileIOWrapperBase(text.file)
            assert await text is text
            assert await text is text
            await text.close()
            await text.close()
            assert text.closed
            for call in (text.read, text.readline, text.flush):
                with pytest.raises(ValueError, match="closed file"):
                    await call()

        run(main())

    def test_text(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.async_open(path) as file:
                for count, text, place in [(3, "hel", 3), (4, "lo w", 7), (2, "ör", 10), (0, "", 10)]:
                    assert (await file.read(count), file.tell()) == (text, place)
                assert (await file.read(), file.tell()) == (TEXT[9:], len(DATA))
                assert (await file.read(), file.tell()) == ("", len(DATA))
                assert file.seek(0) is None
                for line, place in [
                    ("hello wörld\n", 13),
                    ("line2\n", 19),
                    ("\n", 20),
                    ("line4", 25),
                    ("", 25),
                ]:
                    assert (await file.readline(), file.tell()) == (line, place)
                file.seek(8)
                with pytest.raises(UnicodeDecodeError):
                    await file.read(1)
                with pytest.raises(UnicodeDecodeError):
                    await file.readline()
                file.seek(9)
                assert await file.read(1) == "r"

        run(main())

    def test_binary(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.async_open(path, "rb") as file:
                assert await file.read(5) == b"hello"
                assert await file.readline() == DATA[5:13]
                assert file.tell() == 13
                assert await file.read() == DATA[13:]
                file.seek(20)
                assert await file.readline() == b"line4"
                assert await file.readline() == b""

        run(main())

    def test_writing(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.async_open(path, "w+") as file:
                assert (await file.write("höl"), file.tell()) == (4, 4)
                assert (await file.write(""), file.tell()) == (0, 4)
                file.seek(6)
                assert (await file.write("end\n\r"), file.tell()) == (5, 11)
                # No buffer, and no translation.
                assert path.read_bytes() == "höl\0\0end\n\r".encode()
                file.seek(0)
                assert await file.read(3) == "höl"
                await file.write("HO")
                file.seek(0)
                assert await file.read() == "hölHOend\n\r"
                assert await file.flush() is None
                assert await file.flush(sync_metadata=True) is None
            async with package.async_open(path) as file:
                await file.flush()
                with pytest.raises(FAILURES):
                    await file.write("x")
            async with package.async_open(path, "w") as file:
                with pytest.raises(FAILURES):
                    await file.read()
                with pytest.raises(FAILURES):
                    await file.__aiter__().__anext__()

        run(main())

    @pytest.mark.parametrize("mode", ["a", "a+", "ab", "a+b"])
    def test_appending(self, run: Run, package: Any, path: Path, mode: str) -> None:
        async def main() -> None:
            data: Any = "A" if "b" not in mode else b"A"
            async with package.async_open(path, mode) as file:
                assert file.tell() == len(DATA)
                await file.write(data)
                assert file.tell() == len(DATA) + 1
                file.seek(0)
                await file.write(data)
                assert path.read_bytes() == DATA + b"AA"
                if "+" in mode:
                    file.seek(len(DATA))
                    assert await file.read() == 2 * data
            async with package.async_open(path.with_name("new"), mode) as file:
                assert (file.tell(), await file.write(data)) == (0, 1)
            assert path.with_name("new").read_bytes() == b"A"

        run(main())

    def test_iterating(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            lines = TEXT.splitlines(keepends=True)
            async with package.async_open(path) as file:
                assert isinstance(file.__aiter__(), package.LineReader)
                assert [line async for line in file] == lines
                # It starts anew, and has a position of its own.
                assert file.tell() == 0
                await file.readline()
                assert [line async for line in file] == lines
                assert file.tell() == 13
            async with package.async_open(path, "rb") as file:
                assert [line async for line in file] == [line.encode() for line in lines]

        run(main())

    def test_chunks(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.async_open(path) as file:
                file.seek(3)
                assert isinstance(file.iter_chunked(), package.Reader)
                chunks = [chunk async for chunk in file.iter_chunked(8)]
                assert chunks == ["lo wörl", "d\nline2\n", "\nline4"]
                assert file.tell() == 3
                assert [chunk async for chunk in file.iter_chunked()] == [TEXT[3:]]
            async with package.async_open(path, "rb") as file:
                assert [c async for c in file.iter_chunked(10)] == [DATA[:10], DATA[10:20], DATA[20:]]

        run(main())

    def test_long_lines(self, run: Run, package: Any, path: Path) -> None:
        path.write_text("x" * 100_000 + "\n" + "y" * 5)

        async def main() -> None:
            for mode in ("r", "rb"):
                async with package.async_open(path, mode) as file:
                    assert [len(line) async for line in file] == [100_001, 5]
                    assert (len(await file.readline()), file.tell()) == (100_001, 100_001)
                    assert (len(await file.read(3)), file.tell()) == (3, 100_004)

        run(main())

    def test_one_after_the_other(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.async_open(path, "r+") as file:
                assert list(await asyncio.gather(file.read(2), file.read(3))) == ["he", "llo"]
                assert list(await asyncio.gather(file.write("X"), file.write("YY"))) == [1, 2]
                assert path.read_bytes() == b"helloXYY" + DATA[8:]
                assert file.tell() == 8

        run(main())

    def test_an_open_file(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            with open(path, "r+") as opened:
                async with package.async_open(opened) as file:
                    assert type(file) is package.TextFileWrapper
                    assert await file.read(5) == "hello"
                    await file.write(" WORLD")
                assert not opened.closed
            with open(path, "rb") as opened:
                file = package.async_open(opened)
                assert type(file) is package.BinaryFileWrapper
                assert await file.read(7) == b"hello W"
            for nothing in (5, io.StringIO("text")):
                with pytest.raises(AttributeError):
                    package.async_open(nothing)

        run(main())

    def test_clone(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            file = await package.async_open(path, "rb")
            await file.read(3)
            clone = await package.clone(file)
            assert (type(clone), clone.tell(), file.tell()) == (package.BinaryFileWrapper, 0, 3)
            assert clone.file is file.file
            async with package.clone(file) as another:
                assert await another.read(2) == b"he"
            await file.close()
            assert await clone.read(5) == b"hello"
            await clone.close()
            assert clone.closed

        run(main())

    def test_context(self, run: Run, package: Any, contexts: Any, path: Path) -> None:
        async def main() -> None:
            module = importlib.import_module(f"{contexts.__name__}.thread_aio_asyncio")
            async with module.AsyncioContext() as context:
                async with package.async_open("/proc/self/status", "r", context=context) as file:
                    lines = [line async for line in file]
                assert lines[0].startswith("Name:")
                async with package.async_open(path, "wb", context=context) as file:
                    await file.write(b"data")
            assert path.read_bytes() == b"data"

        run(main())


async def play(package: Any, path: Path, mode: str, seed: int) -> list[Any]:
    """What random calls give, and what the file has in the end."""
    random = Random(seed)
    path.write_text("".join(random.choice("aé€\n") for _ in range(500)))
    seen: list[Any] = []
    places = [0]
    async with package.async_open(path, mode) as file:
        for _ in range(40):
            call = random.choice(["read", "read", "readline", "readline", "write", "seek", "lines", "chunks"])
            number = random.randrange(20)
            if call == "read":
                seen.append(await file.read(random.choice([number, number, -1])))
            elif call == "readline":
                seen.append(await file.readline())
            elif call == "write":
                # Of text at the end, so that no character is cut.
                size = path.stat().st_size
                file.seek(random.choice(places) if "b" in mode else size)
                seen.append(await file.write("aé€\n".encode() if "b" in mode else "aé€\n"))
            elif call == "seek":
                file.seek(random.choice(places))
            elif call == "lines":
                # (Where iterating starts is not the same in both.)
                reader = package.LineReader(file.file, random.choice(places), number + 1)
                seen.append([line async for line in reader])
            else:
                seen.append([chunk async for chunk in file.iter_chunked(number + 1)])
            places.append(file.tell())
            seen.append(file.tell())
    return [*seen, path.read_bytes()]


@pytest.mark.leaks("the original's own descriptors and threads")
@pytest.mark.parametrize("mode", ["r+", "r+b", "a+"])
@pytest.mark.parametrize("seed", range(2))
def test_random_calls(run: Run, tmp_path: Path, mode: str, seed: int) -> None:
    theirs = rival("aiofile", "aiofile")
    expected = run(play(theirs, tmp_path / "theirs", mode, seed))
    assert run(play(ours, tmp_path / "ours", mode, seed)) == expected
