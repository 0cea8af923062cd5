# ruff: noqa: ASYNC230, ASYNC240 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofiles`: parity with the original where it is followed, and its defects that are not."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import io
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import proactor
import pytest
from conftest import Run
from proactor.compat import aiofiles as ours
from rivals import THEIRS, rival

TEXT = "one\ntwo\nthree\n"


@pytest.fixture(params=["ours", THEIRS])
def package(request: pytest.FixtureRequest) -> Any:
    if request.param == "ours":
        return ours
    theirs = rival("aiofiles", "aiofiles")
    # As a user has to.
    importlib.import_module("aiofiles.os")
    return theirs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text(TEXT)
    return path


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ThreadPoolExecutor(1, thread_name_prefix="mine") as executor:
        yield executor


class TestFilesParity:
    """True of both packages, for files that `open` opens."""

    @pytest.mark.parametrize(
        ("mode", "buffering", "name"),
        [
            ("r", -1, "AsyncTextIOWrapper"),
            ("w", -1, "AsyncTextIOWrapper"),
            ("a+", 1, "AsyncTextIOWrapper"),
            ("rb", -1, "AsyncBufferedReader"),
            ("r+b", -1, "AsyncBufferedReader"),
            ("w+b", -1, "AsyncBufferedReader"),
            ("wb", -1, "AsyncBufferedIOBase"),
            ("ab", -1, "AsyncBufferedIOBase"),
            ("rb", 0, "AsyncFileIO"),
            ("wb", 0, "AsyncFileIO"),
            ("r+b", 0, "AsyncFileIO"),
        ],
    )
    def test_kinds(self, run: Run, package: Any, path: Path, mode: str, buffering: int, name: str) -> None:
        async def main() -> None:
            with open(path, mode, buffering) as expected:
                async with package.open(path, mode, buffering) as file:
                    assert type(file).__name__ == name
                    assert isinstance(file, package.base.AsyncBase)
                    readable = file.readable() if "b" in mode else await file.readable()
                    assert readable == expected.readable()
                    assert await file.writable() == expected.writable()
                    assert await file.seekable() is True
                    assert await file.isatty() is False
                    assert (file.name, file.mode) == (expected.name, expected.mode)
                    assert isinstance(file.fileno(), int)
                    assert file.closed is False
                    for method in ("peek", "readall", "read1", "readinto"):
                        # (Of io's files only one has it that can be read.)
                        expects = hasattr(expected, method) or (method == "read1" and name[5:9] == "Buff")
                        assert hasattr(file, method) == expects
                    assert not hasattr(file, "__aenter__")
                    assert " wrapping <" in repr(file)
            assert file.closed is True

        run(main())

    def test_text(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.open(path, encoding="utf-8", errors="replace", newline="") as file:
                assert (file.encoding.lower(), file.errors) == ("utf-8", "replace")
                assert (file.line_buffering, file.newlines) == (False, None)
                assert await file.read(2) == "on"
                assert await file.readline() == "e\n"
                at = await file.tell()
                assert await file.readline(2) == "tw"
                assert await file.readlines() == ["o\n", "three\n"]
                assert await file.read() == ""
                assert await file.seek(at) == at
                assert [line async for line in file] == ["two\n", "three\n"]
                assert await file.readline() == ""

        run(main())

    def test_writing_text(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.open(path, "w+", encoding="utf-8", newline="\r\n") as file:
                assert await file.write("äöü\n") == 4
                assert await file.writelines(["a\n", "b"]) is None
                assert await file.flush() is None
                assert path.read_bytes() == "äöü\r\na\r\nb".encode()
                await file.seek(0)
                assert await file.read(1) == "ä"
                assert await file.truncate(2) == 2
            assert path.read_bytes() == "ä".encode()

        run(main())

    @pytest.mark.parametrize("buffering", [-1, 0])
    def test_binary(self, run: Run, package: Any, path: Path, buffering: int) -> None:
        async def main() -> None:
            async with package.open(path, "r+b", buffering) as file:
                assert await file.read(3) == b"one"
                into = bytearray(5)
                assert await file.readinto(into) == 5
                assert into == b"\ntwo\n"
                assert await file.seek(-6, os.SEEK_END) == 8
                assert [line async for line in file] == [b"three\n"]
                assert await file.tell() == 14
                assert await file.write(b"four") == 4
                await file.writelines([b"\n", memoryview(b"five")])
                await file.seek(0)
                assert await file.readline() == b"one\n"
                assert await file.readlines() == [b"two\n", b"three\n", b"four\n", b"five"]
                assert await file.truncate(3) == 3
                await file.seek(0)
                assert await file.read() == b"one"

        run(main())

    def test_peek_read1_readall(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.open(path, "rb") as file:
                assert (await file.peek(1))[:3] == b"one"
                assert await file.read1(2) == b"on"
            async with package.open(path, "rb", 0) as file:
                assert await file.readall() == TEXT.encode()

        run(main())

    def test_awaited(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            opening = package.open(path)
            file = await opening
            assert await opening is file
            one, two = await asyncio.gather(package.open(path), package.open(path))
            assert await asyncio.wait_for(one.read(), 10) == await two.read()
            for opened in (one, two, await asyncio.wait_for(package.open(path), 10)):
                await opened.close()
            await file.close()
            await file.close()
            with pytest.raises(ValueError, match="closed file"):
                await file.read()
            with pytest.raises(ValueError, match="closed file"):
                await file.__anext__()

        run(main())

    def test_a_context_is_for_one_use(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            opening = package.open(path)
            async with opening as file:
                assert await file.__anext__() == "one\n"
            with pytest.raises(RuntimeError, match="already awaited"):
                await opening

        run(main())

    def test_body_error_closes(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            async with package.open(path, "w") as file:
                await file.write("kept")
                raise KeyError

        with pytest.raises(KeyError):
            run(main())
        assert path.read_text() == "kept"

    def test_arguments(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            fd = os.open(path, os.O_RDONLY)
            async with package.open(fd, closefd=False) as file:
                assert await file.read() == TEXT
            os.close(fd)

            def opener(name: str, flags: int) -> int:
                return os.open(path, flags)

            async with package.open("elsewhere", opener=opener) as file:
                assert await file.read() == TEXT
            loop = asyncio.get_running_loop()
            async with package.open(path, loop=loop) as file:
                assert await file.read() == TEXT

        run(main())

    def test_errors_come_when_awaited(self, run: Run, package: Any, tmp_path: Path) -> None:
        async def main() -> None:
            with pytest.raises(ValueError, match="invalid mode: 'z'"):
                await package.open(tmp_path, "z")
            with pytest.raises(ValueError, match="binary mode doesn't take an encoding argument"):
                await package.open(tmp_path, "rb", encoding="ascii")
            with pytest.raises(FileNotFoundError) as caught:
                await package.open(str(tmp_path / "none"))
            assert caught.value.filename == str(tmp_path / "none")
            with pytest.raises(IsADirectoryError):
                await package.open(tmp_path, "w")
            async with package.open(tmp_path / "file", "w") as file:
                with pytest.raises(io.UnsupportedOperation):
                    await file.read()

        run(main())

    def test_executor(self, run: Run, package: Any, path: Path, executor: Executor) -> None:
        async def main() -> None:
            async with package.open(path, "r+", executor=executor) as file:
                assert isinstance(file.buffer, io.BufferedRandom)
                assert await file.readline() == "one\n"
                assert [line async for line in file] == ["two\n", "three\n"]
            async with package.open(path, "rb", executor=executor) as file:
                assert isinstance(file.raw, io.FileIO)
                assert await file.peek() == TEXT.encode()

        run(main())

    def test_wrap(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            wrap = package.threadpool.wrap
            assert await wrap(io.StringIO("a\nb")).readlines() == ["a\n", "b"]
            assert await wrap(io.BytesIO(b"a\nb")).read1() == b"a\nb"
            with open(path, "rb", 0) as raw:
                assert type(wrap(raw)).__name__ == "AsyncFileIO"
            file = wrap(open(path))  # noqa: SIM115
            assert [line async for line in file] == ["one\n", "two\n", "three\n"]
            with file.detach() as buffer:
                assert isinstance(buffer, io.BufferedReader)
            with pytest.raises(TypeError, match="Unsupported io type"):
                wrap(object())

        run(main())


class TestMockRecipeParity:
    """How the original's README replaces real files in tests."""

    def test_recipe(self, run: Run, package: Any) -> None:
        threadpool = package.threadpool
        threadpool.wrap.register(mock.MagicMock)(
            lambda *args, **kwargs: threadpool.AsyncBufferedIOBase(*args, **kwargs)
        )
        chunks = iter([b"one", b"two", b""])
        stream = mock.MagicMock(read=lambda *args, **kwargs: next(chunks))

        async def main() -> None:
            async with package.open("nowhere", "w") as file:
                await file.write("data")
                assert await file.read() == b"one"
                assert await file.read() == b"two"

        with mock.patch(f"{package.__name__}.threadpool.sync_open", return_value=stream) as opened:
            run(main())
        opened.assert_called_once_with(
            "nowhere",
            mode="w",
            buffering=-1,
            encoding=None,
            errors=None,
            newline=None,
            closefd=True,
            opener=None,
        )
        stream.write.assert_called_once_with("data")
        stream.__exit__.assert_called_once_with(None, None, None)

    def test_a_type_of_ones_own(self, run: Run, package: Any) -> None:
        class Fake:
            ended = False

            def __exit__(self, *exc_info: object) -> None:
                self.ended = True

        class Wrapped:
            def __init__(self, file: Fake) -> None:
                self._file = file

        package.threadpool.wrap.register(Fake)(lambda file, *, loop=None, executor=None: Wrapped(file))
        fake = Fake()

        async def main() -> None:
            async with package.open("nowhere") as file:
                assert type(file) is Wrapped

        with mock.patch(f"{package.__name__}.threadpool.sync_open", return_value=fake):
            run(main())
        assert fake.ended

    def test_decorators(self, run: Run, package: Any) -> None:
        utils = importlib.import_module(f"{package.__name__}.threadpool.utils")

        @utils.delegate_to_executor("read")
        @utils.proxy_method_directly("getvalue")
        @utils.proxy_property_directly("closed")
        class Mine(package.base.AsyncBase):  # type: ignore[misc]
            pass

        @utils.cond_delegate_to_executor("spot")
        class Spooled(package.base.AsyncBase):  # type: ignore[misc]
            pass

        async def main() -> None:
            mine: Any = Mine(io.StringIO("text"), None, None)
            assert await mine.read(2) == "te"
            assert mine.getvalue() == "text"
            assert mine.closed is False
            for rolled in (False, True):
                file = mock.Mock(_rolled=rolled, spot=threading.get_ident)
                spooled: Any = Spooled(file, None, None)
                assert (await spooled.spot() == threading.get_ident()) is not rolled

        run(main())


class TestOsParity:
    """True of both packages, for `os` and `ospath`."""

    def test_names(self, package: Any) -> None:
        names = {
            *("stat", "statvfs", "sendfile", "rename", "renames", "replace", "remove", "unlink", "mkdir"),
            *("makedirs", "rmdir", "removedirs", "link", "symlink", "readlink", "listdir", "scandir"),
            *("access", "getcwd", "wrap", "path"),
        }
        assert set(package.os.__all__) == names
        paths = {"abspath", "getatime", "getctime", "getmtime", "getsize", "exists", "isdir", "isfile"}
        assert set(package.os.path.__all__) == {*paths, "islink", "ismount", "samefile", "sameopenfile"}
        for name in names - {"wrap", "path"}:
            function = getattr(package.os, name)
            assert inspect.iscoroutinefunction(function)
            assert function.__name__ == name

    def test_files(self, run: Run, package: Any, tmp_path: Path) -> None:
        async def main() -> None:
            os_, one, two = package.os, tmp_path / "one", tmp_path / "two"
            one.write_text("text")
            assert (await os_.stat(one)).st_size == 4
            await os_.link(one, two)
            assert await os_.path.samefile(one, two)
            await os_.unlink(two)
            await os_.symlink(one, two)
            assert await os_.readlink(two) == str(one)
            assert (await os_.stat(two, follow_symlinks=False)).st_size == len(str(one))
            await os_.remove(two)
            await os_.rename(one, two)
            await os_.replace(two, one)
            await os_.renames(one, tmp_path / "new" / "name")
            assert await os_.path.getsize(tmp_path / "new" / "name") == 4
            assert await os_.access(tmp_path, os.R_OK) is True
            assert (await os_.statvfs(tmp_path)).f_bsize > 0
            assert await os_.getcwd() == os.getcwd()

        run(main())

    def test_directories(self, run: Run, package: Any, tmp_path: Path) -> None:
        async def main() -> None:
            os_ = package.os
            await os_.makedirs(tmp_path / "a" / "b", exist_ok=True)
            await os_.mkdir(tmp_path / "c", 0o700)
            assert sorted(await os_.listdir(tmp_path)) == ["a", "c"]
            with await os_.scandir(tmp_path) as entries:
                found = {entry.name: entry.is_dir() for entry in entries}
            assert found == {"a": True, "c": True}
            entries = await os_.scandir(str(tmp_path))
            assert isinstance(next(entries), os.DirEntry)
            entries.close()
            assert list(entries) == []
            # It goes up as far as it can.
            await os_.removedirs(tmp_path / "a" / "b")
            assert await os_.listdir(tmp_path) == ["c"]
            await os_.rmdir(tmp_path / "c")

        run(main())

    def test_sendfile(self, run: Run, package: Any, path: Path, tmp_path: Path) -> None:
        async def main() -> None:
            with open(path, "rb") as source, open(tmp_path / "to", "wb") as target:
                assert await package.os.sendfile(target.fileno(), source.fileno(), 4, 3) == 3
            assert (tmp_path / "to").read_bytes() == b"two"

        run(main())

    def test_errors(self, run: Run, package: Any, tmp_path: Path) -> None:
        async def main() -> None:
            missing = str(tmp_path / "none")
            for call in (package.os.stat, package.os.scandir, package.os.remove, package.os.path.getsize):
                with pytest.raises(FileNotFoundError) as caught:
                    await call(missing)
                assert caught.value.filename == missing
            assert await package.os.path.exists(missing) is False

        run(main())

    def test_executor_and_wrap(self, run: Run, package: Any, executor: Executor) -> None:
        async def main() -> None:
            spot = package.os.wrap(lambda *args, **kwargs: (threading.current_thread().name, args, kwargs))
            loop = asyncio.get_running_loop()
            name, args, kwargs = await spot(1, loop=loop, executor=executor, two=2)
            assert (name, args, kwargs) == ("mine_0", (1,), {"two": 2})
            assert (await spot())[0] != threading.current_thread().name
            assert await package.os.path.isdir("/", executor=executor)

        run(main())


class TestTempfileParity:
    """True of both packages, for `tempfile`."""

    def test_temporary_file(self, run: Run, package: Any) -> None:
        async def main() -> None:
            async with package.tempfile.TemporaryFile() as file:
                assert type(file).__name__ == "AsyncBufferedReader"
                await file.write(b"a\nb")
                await file.seek(0)
                assert [line async for line in file] == [b"a\n", b"b"]
            async with package.tempfile.TemporaryFile("w+", encoding="utf-8") as file:
                assert type(file).__name__ == "AsyncTextIOWrapper"
                assert file.encoding == "utf-8"
            async with package.tempfile.TemporaryFile("wb", 0) as file:
                assert type(file).__name__ == "AsyncFileIO"

        run(main())

    def test_named(self, run: Run, package: Any, tmp_path: Path) -> None:
        async def main() -> None:
            named = package.tempfile.NamedTemporaryFile
            async with named("w+", suffix=".s", prefix="p-", dir=tmp_path) as file:
                name = Path(file.name)
                assert name.parent == tmp_path
                assert name.name.startswith("p-")
                assert name.suffix == ".s"
                await file.write("text")
                await file.flush()
                assert name.read_text() == "text"
            assert not name.exists()
            file = await named(dir=tmp_path)
            await file.close()
            assert not os.path.exists(file.name)
            async with named("wb", delete=False, dir=tmp_path) as file:
                assert type(file).__name__ == "AsyncBufferedIOBase"
            assert os.path.exists(file.name)

        run(main())

    def test_delete_on_close(self, run: Run, package: Any, tmp_path: Path) -> None:
        async def main() -> None:
            if package is not ours and sys.version_info < (3, 12):
                with pytest.raises(TypeError, match="delete_on_close"):
                    await package.tempfile.NamedTemporaryFile(delete_on_close=False)
                return
            async with package.tempfile.NamedTemporaryFile(delete_on_close=False, dir=tmp_path) as file:
                await file.close()
                assert os.path.exists(file.name)
            assert not os.path.exists(file.name)

        run(main())

    def test_directory(self, run: Run, package: Any, tmp_path: Path) -> None:
        async def main() -> None:
            make = package.tempfile.TemporaryDirectory
            async with make(suffix="-s", prefix="p-", dir=tmp_path) as name:
                (Path(name) / "inside").write_text("text")
                assert os.path.basename(name).startswith("p-")
            assert list(tmp_path.iterdir()) == []
            for end in ("close", "cleanup"):
                directory = await make(dir=tmp_path)
                assert type(directory).__name__ == "AsyncTemporaryDirectory"
                assert os.path.isdir(directory.name)
                await getattr(directory, end)()
                assert not os.path.exists(directory.name)

        run(main())

    def test_spooled(self, run: Run, package: Any) -> None:
        async def main() -> None:
            async with package.tempfile.SpooledTemporaryFile(max_size=5) as file:
                assert (file.name, file.closed) == (None, False)
                assert await file.write(b"abc") == 3
                assert file.name is None
                await file.write(b"defg")
                assert file.name is not None
                assert await file.tell() == 7
                await file.seek(0)
                assert await file.readlines() == [b"abcdefg"]
                await file.writelines([b"h", b"i"])
                assert await file.truncate(8) in (8, None)
                await file.seek(0)
                assert await file.read() == b"abcdefgh"
                assert os.fstat(await file.fileno()).st_size == 8

        run(main())

    def test_spooled_text(self, run: Run, package: Any) -> None:
        async def main() -> None:
            async with package.tempfile.SpooledTemporaryFile(mode="w+", encoding="utf-8") as file:
                await file.write("a\nb" * 1000)
                assert file.name is None
                await file.seek(0)
                assert await file.readline() == "a\n"
                assert len([line async for line in file]) == 1000
                assert (file.encoding.lower(), file.mode) == ("utf-8", "w+")
                await file.rollover()
                assert file.name is not None
                assert await file.isatty() is False
                await file.flush()

        run(main())

    def test_executor(self, run: Run, package: Any, tmp_path: Path, executor: Executor) -> None:
        async def main() -> None:
            tempfile = package.tempfile
            async with tempfile.NamedTemporaryFile("w+", executor=executor, dir=tmp_path) as file:
                await file.write("text")
            async with tempfile.TemporaryDirectory(executor=executor, dir=tmp_path):
                pass
            assert list(tmp_path.iterdir()) == []

        run(main())


class TestStreamsParity:
    """True of both packages, for the standard streams."""

    def test_out(self, run: Run, package: Any, capsys: pytest.CaptureFixture[str]) -> None:
        async def main() -> None:
            print("first")
            await package.stdout.write("text\n")
            await package.stdout.flush()
            await package.stdout_bytes.write(b"bytes\n")
            await package.stdout_bytes.flush()
            await package.stderr.write("error\n")
            await package.stderr.flush()
            await package.stderr_bytes.write(b"bytes\n")
            await package.stderr_bytes.flush()
            assert " wrapping <" in repr(package.stderr)

        run(main())
        assert capsys.readouterr() == ("first\ntext\nbytes\n", "error\nbytes\n")

    def test_in(self, run: Run, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        async def main() -> None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\nc")))
            assert await package.stdin.readline() == "a\n"
            assert [line async for line in package.stdin] == ["b\n", "c"]
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"d")))
            assert await package.stdin_bytes.read() == b"d"

        run(main())


def test_package_names(package: Any) -> None:
    assert {"open", "tempfile", "stdin", "stdout", "stderr"} <= set(package.__all__)
    assert {"stdin_bytes", "stdout_bytes", "stderr_bytes"} <= set(package.__all__)
    parameters = inspect.signature(package.open).parameters
    assert list(parameters) == [*inspect.signature(open).parameters, "loop", "executor"]
    for module in ("binary", "text"):
        classes = importlib.import_module(f"{package.__name__}.threadpool.{module}")
        assert issubclass(
            classes.AsyncFileIO if module == "binary" else classes.AsyncTextIOWrapper,
            package.base.AsyncBase,
        )


class NoExecutor(ThreadPoolExecutor):
    """A loop's default executor that nobody may use."""

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        pytest.fail("the default executor was used")


class TestDefectsNotCopied:
    """What the original does wrong, or could not do."""

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
                    file.detach()
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
