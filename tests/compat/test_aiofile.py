# ruff: noqa: ASYNC230, ASYNC240 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofile`, files without a position: parity with the original where it is followed."""

from __future__ import annotations

import asyncio
import importlib
import os
from pathlib import Path
from typing import Any

import pytest
from aiofile_suite import DATA, FAILURES, TEXT, Parity
from conftest import Run
from proactor.compat import aiofile as ours

MODES = ["r", "w", "a", "x", "rb", "r+", "w+", "a+", "x+", "rb+", "r+b", "ab", "a+b", "xb", "rt", "wt", "+r"]


class TestAIOFileParity(Parity):
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

    def test_package_names(self, package: Any) -> None:
        assert set(ours.__all__) <= set(package.__all__)
        assert package.__version__ == ".".join(map(str, package.version_info))
        assert (package.aio.AIO_FILE_NOT_OPENED, package.aio.AIO_FILE_CLOSED) == (-1, -2)
