# ruff: noqa: ASYNC230, ASYNC240 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofiles`, its files: parity with the original where it is followed."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import io
import os
import sys
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest
from aiofiles_suite import TEXT, Parity
from conftest import Run


class TestFilesParity(Parity):
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

    def test_detach_of_a_binary_file(self, run: Run, package: Any, path: Path) -> None:
        async def main() -> None:
            file = await package.open(path, "rb")
            assert await file.read(4) == b"one\n"
            with file.detach() as raw:
                assert isinstance(raw, io.RawIOBase)
                for use in (file.read, file.readline, file.close):
                    with pytest.raises(ValueError, match="detached"):
                        await use()
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))  # the close behind it

        run(main())

    def test_package_names(self, package: Any) -> None:
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


class TestStreamsParity(Parity):
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
