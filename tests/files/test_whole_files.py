"""`read_bytes` and `write_bytes`: contents, paths, options and failures, on each engine."""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import resource
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import (
    LARGE_BYTES,
    MIB,
    content,
    evict,
    failure,
    in_time,
    resizable,
    turns,
    until,
)
from proactor import _native

pytest_plugins = ["file_fixtures"]

SIZES = [0, 1, 4095, 4096, 4097, 100_000, MIB, MIB + 1, LARGE_BYTES]


class TestRead:
    @pytest.mark.parametrize("size", SIZES)
    def test_content(self, run: Run, engine: str, tmp_path: Path, size: int) -> None:
        path = tmp_path / "file"
        path.write_bytes(content(size))

        async def main() -> bytes:
            return await in_time(proactor.read_bytes(path, engine=engine))

        data = run(main())
        assert type(data) is bytes
        assert data == content(size)

    @pytest.mark.parametrize("convert", [str, os.fsencode, Path, lambda path: Path(path)], ids=range(4))
    def test_paths(self, run: Run, engine: str, path: Path, convert: Callable[[Path], Any]) -> None:
        async def main() -> bytes:
            return await proactor.read_bytes(convert(path), engine=engine)

        assert run(main()) == content(10_000)

    def test_an_fspath_in_bytes(self, run: Run, engine: str, path: Path) -> None:
        class InBytes:
            def __fspath__(self) -> bytes:
                return os.fsencode(path)

        async def main() -> bytes:
            return await proactor.read_bytes(InBytes(), engine=engine)

        assert run(main()) == content(10_000)

    def test_a_relative_path(
        self, run: Run, engine: str, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def main() -> bytes:
            return await proactor.read_bytes(path.name, engine=engine)

        monkeypatch.chdir(path.parent)
        assert run(main()) == content(10_000)

    @pytest.mark.parametrize("name", ["naïve ☃", "sur\udcffrogate", "new\nline"])
    def test_names(self, run: Run, engine: str, tmp_path: Path, name: str) -> None:
        path = tmp_path / name
        path.write_bytes(b"x")

        async def main() -> list[bytes]:
            return [await proactor.read_bytes(how, engine=engine) for how in (path, str(path))]

        assert run(main()) == [b"x", b"x"]

    def test_a_file_that_states_no_size(self, run: Run, engine: str) -> None:
        async def main() -> bytes:
            return await in_time(proactor.read_bytes("/proc/self/status", engine=engine))

        assert f"Pid:\t{os.getpid()}\n".encode() in run(main())

    def test_a_file_in_sysfs_is_shorter_than_it_states(self, run: Run, engine: str) -> None:
        path = "/sys/kernel/mm/transparent_hugepage/enabled"
        if not os.path.exists(path):
            path = "/sys/devices/system/cpu/online"

        async def main() -> bytes:
            return await in_time(proactor.read_bytes(path, engine=engine))

        assert run(main()) == Path(path).read_bytes()

    def test_a_device(self, run: Run, engine: str) -> None:
        async def main() -> bytes:
            return await in_time(proactor.read_bytes("/dev/null", engine=engine))

        assert run(main()) == b""

    def test_a_symlink_and_a_hole(self, run: Run, engine: str, tmp_path: Path) -> None:
        holes, link = tmp_path / "holes", tmp_path / "link"
        holes.touch()
        os.truncate(holes, LARGE_BYTES)
        link.symlink_to(holes)

        async def main() -> bytes:
            return await in_time(proactor.read_bytes(link, engine=engine))

        assert run(main()) == bytes(LARGE_BYTES)

    @needs("root", "drop caches")
    @pytest.mark.parametrize("size", [1, 10_000, LARGE_BYTES])
    def test_cold(self, run: Run, engine: str, tmp_path: Path, size: int) -> None:
        path = tmp_path / "file"
        path.write_bytes(content(size))
        evict(path)

        async def main() -> bytes:
            return await in_time(proactor.read_bytes(path, engine=engine))

        assert run(main()) == content(size)

    def test_a_cached_file_does_not_suspend(self, run: Run, path: Path) -> None:
        path.read_bytes()

        async def main() -> int:
            with turns() as count:
                # So few do not look at the clock (turn.rs), which a busy machine could have made run out.
                for _ in range(2):
                    await proactor.read_bytes(path)
                return count()

        assert run(main()) == 0

    def test_as_tasks_know_it(self, run: Run, path: Path) -> None:
        """The type checker knows it too: it would ask for annotations here."""

        async def main() -> None:
            task = asyncio.create_task(proactor.read_bytes(path))
            gathered = asyncio.gather(proactor.read_bytes(path), proactor.os.stat(path))
            futures = [asyncio.ensure_future(proactor.read_bytes(path)) for _ in range(2)]
            done, _ = await asyncio.wait(futures)
            data, status = await gathered
            lengths = [len(await task), len(data), status.st_size, *(len(one.result()) for one in done)]
            assert lengths == [10_000] * 5

        run(in_time(main()))

    def test_a_file_changes_between_reads(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> list[bytes]:
            found = []
            for data in (b"", b"a", content(50_000), b"bb"):
                path.write_bytes(data)  # noqa: ASYNC240
                found.append(await proactor.read_bytes(path, engine=engine))
            return found

        assert run(main()) == [b"", b"a", content(50_000), b"bb"]


class TestFailures:
    @pytest.mark.parametrize("how", [str, Path, os.fsencode], ids=["str", "Path", "bytes"])
    @pytest.mark.parametrize(
        ("name", "kind", "code"),
        [
            ("missing", FileNotFoundError, errno.ENOENT),
            ("file/below", NotADirectoryError, errno.ENOTDIR),
            ("", IsADirectoryError, errno.EISDIR),
            ("loop", OSError, errno.ELOOP),
            ("x" * 300, OSError, errno.ENAMETOOLONG),
        ],
    )
    def test_read(
        self, run: Run, engine: str, path: Path, how: Any, name: str, kind: type[OSError], code: int
    ) -> None:
        (path.parent / "loop").symlink_to("loop")
        bad = how(path.parent / name)
        error = failure(run, lambda: proactor.read_bytes(bad, engine=engine))
        assert type(error) is kind
        assert error.errno == code
        assert error.filename is bad
        assert (error.strerror or "").startswith(os.strerror(code))
        assert isinstance(error.op, str)  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("name", "kind", "code"),
        [
            ("missing/below", FileNotFoundError, errno.ENOENT),
            ("", IsADirectoryError, errno.EISDIR),
            ("x" * 300, OSError, errno.ENAMETOOLONG),
        ],
    )
    def test_write(
        self, run: Run, engine: str, path: Path, name: str, kind: type[OSError], code: int
    ) -> None:
        bad = path.parent / name
        error = failure(run, lambda: proactor.write_bytes(bad, b"x", engine=engine))
        assert (type(error), error.errno, error.filename) == (kind, code, bad)

    def test_no_space(self, run: Run, engine: str) -> None:
        error = failure(run, lambda: proactor.write_bytes("/dev/full", b"x", engine=engine))
        assert (error.errno, error.filename) == (errno.ENOSPC, "/dev/full")

    def test_too_many_open_files(self, run: Run, engine: str, path: Path) -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)

        async def main() -> OSError:
            await proactor.read_bytes(path, engine=engine)
            _native.set_descriptor_wait(0.02)
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
            try:
                with pytest.raises(OSError, match="open files") as caught:
                    await in_time(proactor.read_bytes(path, engine=engine))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
                _native.set_descriptor_wait(30)
            assert await proactor.read_bytes(path, engine=engine)
            return caught.value

        assert run(main()).errno == errno.EMFILE

    @pytest.mark.parametrize("path", ["nul\0byte", b"nul\0byte", Path("nul\0byte")], ids=repr)
    def test_a_nul_byte(self, run: Run, path: Any) -> None:
        async def main() -> None:
            with pytest.raises(ValueError, match="null byte"):
                await proactor.read_bytes(path)
            with pytest.raises(ValueError, match="null byte"):
                await proactor.write_bytes(path, b"")
            with pytest.raises(ValueError, match="null byte"):
                await proactor.read_text(path)

        run(main())

    @pytest.mark.parametrize("path", [None, 5, 1.5, object()], ids=repr)
    def test_no_path(self, run: Run, path: Any) -> None:
        async def main() -> None:
            with pytest.raises(TypeError):
                await proactor.read_bytes(path)
            with pytest.raises(TypeError):
                await proactor.write_bytes(path, b"")

        run(main())

    def test_an_unknown_engine(self, run: Run, path: Path) -> None:
        async def main() -> None:
            with pytest.raises(ValueError, match="no_such_engine"):
                await proactor.read_bytes(path, engine="no_such_engine")

        run(main())

    def test_without_a_loop(self, path: Path) -> None:
        call = proactor.read_bytes(path)
        with pytest.raises(RuntimeError, match="no running event loop"):
            call.send(None)


class TestWrite:
    @pytest.mark.parametrize("size", SIZES)
    def test_content(self, run: Run, engine: str, tmp_path: Path, size: int) -> None:
        path = tmp_path / "file"

        async def main() -> int:
            return await in_time(proactor.write_bytes(path, content(size), engine=engine))

        assert run(main()) == size
        assert path.read_bytes() == content(size)

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, "array", "mmap"], ids=str)
    def test_buffers(self, run: Run, engine: str, tmp_path: Path, kind: Any) -> None:
        path = tmp_path / "file"
        data: Any
        if kind == "array":
            data = array("i", range(100))
        elif kind == "mmap":
            data = mmap.mmap(-1, 4096)
        else:
            data = kind(b"some bytes")

        async def main() -> None:
            await proactor.write_bytes(path, data, engine=engine)

        run(main())
        assert path.read_bytes() == bytes(memoryview(data).cast("B"))

    @pytest.mark.parametrize("data", ["text", None, 5, [1]], ids=repr)
    def test_no_buffer(self, run: Run, tmp_path: Path, data: Any) -> None:
        async def main() -> None:
            with pytest.raises(TypeError):
                await proactor.write_bytes(tmp_path / "file", data)

        run(main())
        assert not (tmp_path / "file").exists()

    def test_truncates(self, run: Run, engine: str, path: Path) -> None:
        async def main() -> None:
            await proactor.write_bytes(path, b"short", engine=engine)

        run(main())
        assert path.read_bytes() == b"short"

    def test_append_exclusive_mode_sync(self, run: Run, engine: str, tmp_path: Path) -> None:
        path = tmp_path / "file"
        umask = os.umask(0o027)
        os.umask(umask)

        async def main() -> None:
            await proactor.write_bytes(path, b"a", exclusive=True, mode=0o640, sync=True, engine=engine)
            await proactor.write_bytes(path, b"b", append=True, engine=engine)
            with pytest.raises(FileExistsError):
                await proactor.write_bytes(path, b"c", exclusive=True, engine=engine)

        run(main())
        assert path.read_bytes() == b"ab"
        assert path.stat().st_mode & 0o777 == 0o640 & ~umask

    def test_the_buffer_is_pinned_until_it_is_written(self, run: Run, engine: str, tmp_path: Path) -> None:
        data = bytearray(content(LARGE_BYTES))

        async def main() -> None:
            task = asyncio.ensure_future(proactor.write_bytes(tmp_path / "file", data, engine=engine))
            await asyncio.sleep(0)
            if not task.done():
                with pytest.raises(BufferError):
                    data.clear()
            await in_time(task)
            del task
            await until(lambda: resizable(data))

        run(main())
        assert (tmp_path / "file").read_bytes() == data[:-1]
