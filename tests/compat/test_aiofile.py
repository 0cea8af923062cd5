# ruff: noqa: ASYNC230, ASYNC240 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofile`: parity with the original where it is followed, and its defects that are not."""

from __future__ import annotations

import asyncio
import csv
import hashlib
import importlib
import io
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import Run
from proactor.compat import aiofile as ours
from proactor.compat import caio
from rivals import THEIRS, rival

TEXT = "hello wörld\nline2\n\nline4"
DATA = TEXT.encode()

# What an original's context may raise for a failed operation, by variant.
FAILURES = (OSError, SystemError)


@pytest.fixture(params=["ours", THEIRS])
def package(request: pytest.FixtureRequest) -> Any:
    return ours if request.param == "ours" else rival("aiofile", "aiofile")


@pytest.fixture
def contexts(package: Any) -> Any:
    """The package of contexts that belongs to it."""
    return caio if package is ours else rival("caio", "caio")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    return path


MODES = ["r", "w", "a", "x", "rb", "r+", "w+", "a+", "x+", "rb+", "r+b", "ab", "a+b", "xb", "rt", "wt", "+r"]


class TestAIOFileParity:
    """True of both packages, for files without a position."""

    @pytest.mark.parametrize("mode", MODES)
    def test_modes(self, run: Run, package: Any, mode: str, path: Path) -> None:
        parsed = package.aio.parse_mode(mode)
        readable, writable = "r" in mode or "+" in mode, mode.strip("bt") != "r"
        access = os.O_RDWR if readable and writable else os.O_WRONLY if writable else os.O_RDONLY
        created = {"w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}
        flags = access | created.get(mode[0], 0)
        assert parsed == (readable, writable, "+" in mode, "a" in mode, "x" in mode, flags, "b" in mode)
        names = ("readable", "writable", "plus", "appending", "created", "flags", "binary")
        assert parsed._fields == names

        async def main() -> None:
            assert package.AIOFile(str(path), mode).mode == parsed

        run(main())

    @pytest.mark.parametrize("mode", ["rw", "wr", "wa", "ra", "rr", "ww", "r++", "rwa"])
    def test_bad_modes(self, run: Run, package: Any, mode: str, path: Path) -> None:
        async def main() -> None:
            with pytest.raises(Exception, match="Bad mode"):
                package.AIOFile(str(path), mode)

        run(main())

    def test_opening(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            file = package.AIOFile(path)
            assert (file.name, file.encoding, file.closed) == (str(path), "utf-8", True)
            assert repr(file) == f"<AIOFile: {str(path)!r}>"
            with pytest.raises(asyncio.InvalidStateError):
                file.fileno()
            with pytest.raises(asyncio.InvalidStateError):
                await file.read()
            fd = await file.open()
            assert fd == file.fileno()
            assert file.closed is False
            assert await file.open() is None
            assert file.loop is asyncio.get_running_loop()
            await file.close()
            await file.close()
            assert file.closed is True
            for call in (file.read, file.fsync, file.fdsync, file.truncate):
                with pytest.raises(ValueError, match="I/O operation on closed file"):
                    await call()
            with pytest.raises(ValueError, match="closed file"):
                await package.AIOFile.read(file, 0)
            with pytest.raises(asyncio.InvalidStateError):
                await file.open()

        run(main())

    def test_awaited_and_in_async_with(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            file = package.AIOFile(path)
            assert await file is file
            assert await file is file
            ending = file.__aexit__(None, None, None)
            assert isinstance(ending, asyncio.Task)
            await ending
            async with package.AIOFile(path) as file:
                assert await file.read() == TEXT
            assert file.closed

        run(main())

    def test_opened_twice_at_once(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            file = package.AIOFile(path)
            assert sorted(await asyncio.gather(file.open(), file.open()), key=str) == [file.fileno(), None]
            await file.close()

        run(main())

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ((), DATA),
            ((5,), DATA[:5]),
            ((6, 3), DATA[3:9]),
            ((-1, 3), DATA[3:]),
            ((0,), b""),
            ((1000, 3), DATA[3:]),
            ((5, 1000), b""),
            ((-1, 1000), b""),
        ],
    )
    def test_read(
        self, run: Run, package: Any, path: Path, arguments: tuple[int, ...], expected: bytes
    ) -> None:
        async def main() -> None:
            async with package.AIOFile(path) as text, package.AIOFile(path, "rb") as binary:
                assert await text.read_bytes(*arguments) == expected
                assert await text.read(*arguments) == expected.decode()
                assert await binary.read(*arguments) == expected

        run(main())

    def test_read_is_refused(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path) as file:
                with pytest.raises(ValueError, match="Unsupported value -2 for size"):
                    await file.read(-2)
                with pytest.raises(TypeError):
                    await file.read("5")
                with pytest.raises(UnicodeDecodeError):
                    await file.read(8)
            async with package.AIOFile(path, "w") as file:
                with pytest.raises(FAILURES):
                    await file.read()

        run(main())

    def test_write(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path, "w+") as file:
                assert await file.write("höllo") == 6
                assert await file.write("zz", 2) == 2
                assert await file.write("end", offset=10) == 3
                assert await file.write("") == 0
                assert await file.write_bytes(b"abc", 1) == 3
                # There is no buffer.
                assert path.read_bytes() == b"habclo\0\0\0\0end"
                assert await file.read(6) == "habclo"
                for data in (b"bytes", None, 5):
                    with pytest.raises(ValueError, match="Data must be str"):
                        await file.write(data)
            async with package.AIOFile(path, "wb") as file:
                assert await file.write(b"abc") == 3
                for other in ("text", None, 5):
                    with pytest.raises(ValueError, match=r"bytes"):
                        await file.write(other)
            async with package.AIOFile(path) as file:
                with pytest.raises(FAILURES):
                    await file.write("x")

        run(main())

    def test_append(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path, "a+b") as file:
                await file.write(b"!", 0)
                assert await file.read() == DATA + b"!"
            async with package.AIOFile(path.with_name("new"), "a"):
                assert path.with_name("new").exists()

        run(main())

    def test_many_at_once(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            line = "line of text\n"
            async with package.AIOFile(path, "w+") as file:
                writes = [file.write(line, offset=at * len(line)) for at in range(100)]
                assert await asyncio.gather(*writes) == [len(line)] * 100
                await file.fsync()
                assert await file.read(len(line) * 100) == line * 100

        run(main())

    def test_truncate_and_sync(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path, "r+") as file:
                assert await file.truncate(5) is None
                assert await file.read() == "hello"
                assert await file.fsync() is None
                assert await file.fdsync() is None
                assert await file.truncate() is None
                assert path.stat().st_size == 0
            async with package.AIOFile(path) as file:
                await file.fsync()
                with pytest.raises(OSError, match="Invalid argument"):
                    await file.truncate()

        run(main())

    def test_encoding(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path, "w+", encoding="latin-1") as file:
                assert await file.write("wörld") == 5
                assert await file.read() == "wörld"
                assert file.encode_bytes("ö") == b"\xf6"
                assert file.decode_bytes(b"\xf6") == "ö"

        run(main())

    def test_errors(self, run: Run, package: Any, tmp_path: Path, path: Path) -> None:
        async def main() -> None:
            with pytest.raises(FileNotFoundError) as caught:
                await package.AIOFile(tmp_path / "none").open()
            assert caught.value.filename == str(tmp_path / "none")
            with pytest.raises(IsADirectoryError):
                await package.AIOFile(tmp_path, "w").open()
            with pytest.raises(FileExistsError):
                await package.AIOFile(path, "x").open()
            with pytest.raises(ValueError, match="invalid mode"):
                await package.AIOFile(path, "z").open()

        run(main())

    def test_from_an_open_file(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            with open(path, "r+") as opened:
                file = package.AIOFile.from_fp(opened)
                assert (file.name, file.mode) == (str(path), package.aio.parse_mode("r+"))
                assert file.fileno() == opened.fileno()
                assert await file.open() is None
                assert await file.write("H") == 1
                assert await file.read(5) == "Hello"
                await file.close()
                assert not opened.closed
            assert file.closed

        run(main())

    def test_clones(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            file = await package.AIOFile(path)
            clone = await file.clone()
            assert clone.fileno() == file.fileno()
            await file.close()
            assert await clone.read(5) == "hello"
            await clone.close()
            assert clone.closed

        run(main())

    def test_context(self, run: Run, package: Any, contexts: Any, path: Path) -> None:
        async def main() -> None:
            aio = package.aio
            assert aio.get_default_context() is aio.get_default_context()
            module = importlib.import_module(f"{contexts.__name__}.python_aio_asyncio")
            for context in (aio.create_context(), aio.create_context(8), module.AsyncioContext()):
                async with package.AIOFile(path, "rb", context=context) as file:
                    assert await file.read() == DATA
                    assert await asyncio.gather(*(file.read(2, at) for at in range(20)))
                context.close()

        run(main())


class TestAsyncOpenParity:
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


class TestHelpersParity:
    """True of both packages, for readers and writers."""

    def test_reader(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path) as text, package.AIOFile(path, "rb") as binary:
                reader = package.Reader(text, chunk_size=9, offset=1)
                assert reader.__aiter__() is reader
                assert (reader.file, reader.encoding) == (text, "utf-8")
                chunks = [chunk async for chunk in reader]
                assert chunks == ["ello wör", "ld\nline2\n", "\nline4"]
                assert await reader.read_chunk() == ""
                reader = package.Reader(binary, 0, 7)
                assert await reader.read_chunk() == DATA[:7]
                assert await reader.__anext__() == DATA[7:14]
                assert "".join([c async for c in package.Reader(text, 0, 1)]) == TEXT
                assert package.Reader.CHUNK_SIZE == 32768

        run(main())

    def test_writer(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.AIOFile(path, "w+") as file:
                writer = package.Writer(file, 2)
                assert await writer("hé") is None
                await asyncio.gather(writer("l"), writer("lo"), writer(b"!"))
                assert path.read_bytes() == "\0\0héllo!".encode()

        run(main())

    def test_line_reader(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            lines = TEXT.splitlines(keepends=True)
            async with package.AIOFile(path) as text, package.AIOFile(path, "rb") as binary:
                for size in (1, 3, 4192):
                    assert [line async for line in package.LineReader(text, chunk_size=size)] == lines
                reader = package.LineReader(text, 6)
                assert reader.__aiter__() is reader
                assert [await reader.readline(), await reader.__anext__()] == ["wörld\n", "line2\n"]
                assert await package.LineReader(binary, 13).readline() == b"line2\n"
                assert package.LineReader.CHUNK_SIZE == 4192
                path.write_bytes(b"")
                assert await package.LineReader(text).readline() == ""

        run(main())

    @pytest.mark.parametrize(
        ("size", "offset", "expected"),
        [(5, 0, (5, "hello")), (8, 0, (9, "hello wö")), (9, 1, (9, "ello wör")), (100, 20, (5, "line4"))],
    )
    def test_unicode_reader(
        self, run: Run, package: Any, path: Path, size: int, offset: int, expected: tuple[int, str]
    ) -> None:
        async def main() -> None:
            read = package.utils.unicode_reader
            async with package.AIOFile(path) as file:
                assert await read(file, size, offset) == expected
                assert await read(file, size, 1000) == (0, "")
                assert await read(file, 2, 7, encoding="latin-1") == (2, "Ã¶")
                with pytest.raises(UnicodeDecodeError):
                    await read(file, 5, 8)
                path.write_bytes(b"ab\xc3")
                with pytest.raises(UnicodeDecodeError):
                    await read(file, 10, 0)
            assert package.utils.ENCODING_MAP["utf-8"] == 4

        run(main())

    def test_a_csv_reader(self, run: Run, package: Any, path: Path) -> None:
        path.write_text("a,b\n1,2\n3,4\n")

        async def main() -> None:
            async with package.AIOFile(path) as file:
                reader = package.LineReader(file)
                text = ""
                while line := await reader.readline():
                    text += line
            assert list(csv.DictReader(io.StringIO(text))) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]

        run(main())

    def test_hashing_with_clones(self, run: Run, package: Any, path: Path) -> None:
        path.write_bytes(data := os.urandom(300_000))

        async def digest(name: str, file: Any) -> str:
            found = hashlib.new(name)
            async for chunk in file.iter_chunked(1 << 16):
                found.update(chunk)
            await file.close()
            return found.hexdigest()

        async def main() -> None:
            names = ["sha1", "sha256", "sha512"]
            async with package.async_open(path, "rb") as source:
                digests = [digest(name, await package.clone(source)) for name in names]
                found = await asyncio.gather(*digests)
            assert found == [hashlib.new(name, data).hexdigest() for name in names]

        run(main())


def test_package_names(package: Any) -> None:
    assert set(ours.__all__) <= set(package.__all__)
    assert package.__version__ == ".".join(map(str, package.version_info))
    assert (package.aio.AIO_FILE_NOT_OPENED, package.aio.AIO_FILE_CLOSED) == (-1, -2)


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


async def _cancelled(awaitable: Awaitable[object], turns: int) -> None:
    task = asyncio.ensure_future(awaitable)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class TestDefectsNotCopied:
    """What the original does wrong, or could not do."""

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
