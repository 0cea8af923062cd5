# ruff: noqa: ASYNC240 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofiles`, its `tempfile`: parity with the original where it is followed."""

from __future__ import annotations

import os
import sys
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest
from aiofiles_suite import Parity
from conftest import Run
from proactor.compat import aiofiles as ours

# By the original, which shows what the standard library's wrapper has: until Python 3.12. Ours always does.
DELETE_IS_SHOWN = sys.version_info < (3, 12)


class TestTempfileParity(Parity):
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
                if package is ours or DELETE_IS_SHOWN:
                    assert file.delete is True
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
                if package is ours or DELETE_IS_SHOWN:
                    assert file.delete is False
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
