"""`stat`, `lstat` and `fstat`: at once where the kernel knows, by the loop's engine otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import Run
from file_helpers import evict, in_time, turns
from os_helpers import Plain, now
from proactor.os import fstat, lstat, stat

# Of no local file system: what `stat` says of it is the engine's answer.
ELSEWHERE = "/proc/self/status"


def everything(found: os.stat_result) -> dict[str, Any]:
    names = [name for name in dir(found) if name.startswith("st_")]
    return {"tuple": tuple(found), **{name: getattr(found, name) for name in names}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    return path


@pytest.mark.parametrize("name", ["file", "link", ".", ELSEWHERE, "/dev/null", "/sys", "/"])
def test_every_field(run: Run, path: Path, name: str) -> None:
    place = path.parent / name
    # Times before 1970, and such that rounding shows.
    os.utime(path, ns=(-1_234_567_890_123_456_789, 4_123_456_789_987_654_321))
    assert everything(run(lstat(place))) == everything(os.lstat(place))
    assert everything(run(stat(place))) == everything(os.stat(place))
    assert type(run(stat(place))) is os.stat_result


def test_descriptors(run: Run, path: Path) -> None:
    reader, writer = os.pipe()
    with path.open("rb") as file:
        for fd in (file.fileno(), reader):
            assert everything(run(fstat(fd))) == everything(os.fstat(fd))
            assert everything(run(stat(fd))) == everything(os.stat(fd))
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("name", ["stat", "lstat", "fstat"])
def test_the_same_errors(run: Run, name: str) -> None:
    paths: list[Any] = ["nothing", b"nothing", Path("nothing"), "/proc/nothing", "/proc/self/fd/12345"]
    odd: list[Any] = ["", "nul\0", "\ud800", "x" * 5000, 12345, -1, -100, 1 << 40, True, None, 1.5, []]

    async def outcome(module: Any, argument: Any) -> Any:
        try:
            return everything(await getattr(module, name)(argument))
        except Exception as error:
            return type(error), error.args, getattr(error, "filename", None)

    async def main() -> None:
        for argument in paths + odd:
            expected = await outcome(Plain(os), argument)
            assert await outcome(proactor.os, argument) == expected, argument

    run(main())


def test_arguments_that_do_not_go_together(run: Run, path: Path) -> None:
    options: list[tuple[int, dict[str, Any]]] = [
        (0, {"dir_fd": 0}),
        (0, {"dir_fd": "x"}),
        (1, {"follow_symlinks": False}),
    ]
    for fd, option in options:
        with pytest.raises((TypeError, ValueError)) as expected:
            os.stat(fd, **option)
        with pytest.raises((TypeError, ValueError)) as caught:
            run(stat(fd, **option))
        assert str(caught.value) == str(expected.value)
    assert run(stat(0, follow_symlinks=False)).st_ino == os.stat(0).st_ino
    assert run(stat(path, follow_symlinks=1)) == path.stat()  # type: ignore[arg-type]


def at_once(call: Callable[..., Any], *arguments: Any) -> Any:
    """Its result without suspending. A mount or rename elsewhere may make the kernel look twice, and us."""
    for _ in range(10):
        with contextlib.suppress(AssertionError):
            return now(call(*arguments))
    return now(call(*arguments))


def test_what_is_cached_does_not_suspend(run: Run, path: Path) -> None:
    async def main() -> None:
        assert at_once(stat, path) == expected
        assert at_once(fstat, file.fileno()) == expected
        assert at_once(lstat, path.parent / "link").st_size == 4
        assert at_once(proactor.ospath.exists, path)
        assert not at_once(proactor.ospath.isdir, path)
        assert at_once(proactor.ospath.getsize, str(path)) == 7

    expected = path.stat()
    with path.open("rb") as file:
        run(main())


def test_what_is_elsewhere_suspends(run: Run) -> None:
    async def main() -> None:
        with pytest.raises(AssertionError, match="suspended"):
            now(stat(ELSEWHERE))
        assert await in_time(stat(ELSEWHERE)) == os.stat(ELSEWHERE)

    run(main())


@needs("drop caches")
def test_a_path_that_is_not_cached(run: Run, path: Path) -> None:
    async def main() -> None:
        evict(path)
        assert everything(await in_time(stat(path))) == everything(before)

    before = path.stat()
    run(main())


def test_no_room_for_a_descriptor(run: Run, path: Path) -> None:
    """What needs one to be told at once is then asked of the engine."""

    async def main() -> None:
        await stat(ELSEWHERE)  # the engine has its own by now
        free = os.dup(0)
        os.close(free)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                os.dup(0)
            found = await in_time(stat(path))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert found == expected

    expected = path.stat()
    run(main())


def test_the_loop_has_its_turn(run: Run, path: Path) -> None:
    async def main() -> None:
        with turns() as count:
            for _ in range(1_000_000):
                await stat(path)
                if count() > 3:
                    return
        raise AssertionError("it never gave way")

    run(main())


def test_many_tasks_share_the_turns(run: Run, path: Path) -> None:
    async def main() -> None:
        async def ask() -> None:
            for _ in range(200):
                assert (await stat(path)).st_size == 7

        await asyncio.gather(*(ask() for _ in range(50)))

    run(main())


def test_cancelled(run: Run, path: Path) -> None:
    """Before it begins, while it gives way, and while the engine asks."""

    async def main() -> None:
        async def ask() -> None:
            while True:
                await stat(path)

        for _ in range(20):
            for coroutine in (ask(), stat(ELSEWHERE)):
                task = asyncio.ensure_future(coroutine)
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await in_time(task)
        assert (await stat(path)).st_size == 7

    run(main())


@pytest.mark.parametrize("end", ["close", "throw"])
def test_given_up_while_it_gives_way(run: Run, path: Path, end: str) -> None:
    async def main() -> None:
        for _ in range(100_000):
            call = stat(path)
            try:
                call.send(None)
            except StopIteration:
                continue
            if end == "close":
                call.close()
            else:
                with pytest.raises(KeyError):
                    call.throw(KeyError())
            return
        raise AssertionError("it never gave way")

    run(main())


def test_without_a_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        stat("x").send(None)


def test_on_each_engine(engine: str, path: Path) -> None:
    code = f"""
import asyncio, os, sys
from proactor.os import stat
async def main():
    assert await stat({ELSEWHERE!r}) == os.stat({ELSEWHERE!r})
    assert await stat(sys.argv[1]) == os.stat(sys.argv[1])
    try:
        await stat("/proc/nothing")
    except FileNotFoundError as error:
        print(error.filename)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "PROACTOR_ENGINE": engine},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("/proc/nothing\n", "")
