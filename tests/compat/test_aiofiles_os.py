# ruff: noqa: ASYNC230 (what the file system has is looked at synchronously)
"""`proactor.compat.aiofiles`, its `os` and `ospath`: parity with the original where it is followed."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pytest
from aiofiles_suite import Parity
from conftest import Run


class TestOsParity(Parity):
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
