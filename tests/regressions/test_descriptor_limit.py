"""More calls at once than there may be open files.

Users saw most of 5,000 `read_bytes` under one gather fail with "Too many open files", where 1,024
descriptors were allowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import proactor
import proactor.os
import proactor.shutil
import proactor.tempfile
import pytest
from conftest import LoopFactory, Run
from proactor import _native, _steps

LIMIT = 128
RESERVE = 64
# What a driver opens beside that when an op first needs its helper.
OF_A_HELPER = 3
DEADLINE_S = 30
# No size, and no page cache: it is never read at once, and stays open while it waits for its turn.
SLOW = "/proc/sys/kernel/ostype"


# How long what the engine has found open is good for: 50 ms, by a clock that steps every few.
LOOK_S = 0.1


@pytest.fixture(autouse=True, scope="module")
def limit() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, hard))
    # Another module's test may just have had it look, under the larger limit.
    time.sleep(LOOK_S)
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def short_wait() -> Iterator[None]:
    _native.set_descriptor_wait(0.02)
    yield
    _native.set_descriptor_wait(30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


class Taken:
    """All descriptors that there are, taken by the program itself."""

    def __init__(self) -> None:
        self.fds: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                self.fds.append(os.dup(0))

    def give_back(self, count: int = LIMIT) -> None:
        for _ in range(min(count, len(self.fds))):
            os.close(self.fds.pop())

    def __enter__(self) -> Taken:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


def open_count() -> int:
    return len(os.listdir("/proc/self/fd")) - 1


def in_time(coroutine: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    return asyncio.wait_for(coroutine, DEADLINE_S)


async def turns(count: int = 30) -> None:
    for _ in range(count):
        await asyncio.sleep(0.001)


async def whole(path: Path, engine: str, number: int) -> int:
    return len(await proactor.read_bytes(SLOW, engine=engine))


async def large(path: Path, engine: str, number: int) -> int:
    return len(await proactor.read_bytes(path.parent / "large", engine=engine))


async def written(path: Path, engine: str, number: int) -> int:
    return await proactor.write_bytes(path.parent / f"new{number}", b"x", engine=engine)


async def opened(path: Path, engine: str, number: int) -> int:
    async with proactor.open(path, "rb", engine=engine) as file:
        await asyncio.sleep(0.001)
        return len(await file.read())


async def as_text(path: Path, engine: str, number: int) -> int:
    async with proactor.open(path.parent / f"new{number}", "w", engine=engine) as file:
        await file.write("x")
        return 1


async def scanned(path: Path, engine: str, number: int) -> int:
    async with proactor.os.scandir(path.parent) as entries:
        return len([entry async for entry in entries])


WAYS = [whole, large, written, opened, as_text, scanned]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_more_at_once_than_descriptors(
    run: Run, path: Path, engine: str, way: Callable[[Path, str, int], Coroutine[Any, Any, int]]
) -> None:
    with open(path.parent / "large", "wb") as file:
        file.truncate((1 << 20) + 1)
    count = 2000 if way is whole else 200

    async def main() -> None:
        most = 0
        calls = asyncio.gather(*(way(path, engine, number) for number in range(count)))
        while not calls.done():
            most = max(most, open_count())
            await asyncio.sleep(0)
        assert all(found > 0 for found in await calls)
        assert most <= LIMIT - RESERVE + OF_A_HELPER

    run(in_time(main()))


def test_read_many(run: Run, path: Path, engine: str) -> None:
    async def main() -> None:
        batch = proactor.read_many([SLOW] * 500, concurrency=400, engine=engine)
        assert len([data async for _, data in batch]) == 500

    run(in_time(main()))


def test_the_rest_is_the_programs(run: Run, path: Path, engine: str) -> None:
    async def main() -> None:
        tasks = [asyncio.ensure_future(proactor.open(path, "rb", engine=engine)) for _ in range(200)]
        await turns()
        opened = [task for task in tasks if task.done()]
        assert len(opened) > 8
        with Taken() as taken:
            assert len(taken.fds) >= RESERVE - OF_A_HELPER
        for task in tasks:
            await (await task).close()

    run(in_time(main()))


@pytest.mark.usefixtures("short_wait")
def test_all_taken_by_the_program(run: Run, path: Path, engine: str) -> None:
    new = path.parent / "new"

    async def failure(call: Coroutine[Any, Any, Any]) -> OSError:
        with pytest.raises(OSError, match="Too many open files") as caught:
            await call
        return caught.value

    async def open_it() -> None:
        await proactor.open(path, "rb", engine=engine)

    async def main() -> None:
        # What the driver needs for itself.
        await proactor.write_bytes(path, b"content", engine=engine)
        with Taken():
            errors = await asyncio.gather(
                failure(proactor.read_bytes(path, engine=engine)),
                failure(proactor.write_bytes(new, b"x", engine=engine)),
                failure(open_it()),
            )
        expected = [(path, "read_file"), (new, "write_file"), (path, "open")]
        for error, (name, op) in zip(errors, expected, strict=True):
            assert error.errno == errno.EMFILE
            assert os.fspath(error.filename) == os.fspath(name)
            assert error.op == op  # type: ignore[attr-defined]
        assert not new.exists()
        assert await proactor.read_bytes(path, engine=engine) == b"content"

    run(in_time(main()))


def test_what_needs_none_goes_on(run: Run, path: Path, engine: str) -> None:
    async def main() -> None:
        async with proactor.open(path, "r+b", buffering=0, engine=engine) as file:
            await file.pwrite(b"C", 0)
            # It has a driver of its own, which needs descriptors.
            await proactor.os.stat(path)
            with Taken() as taken:
                waiting = asyncio.ensure_future(proactor.read_bytes(path, engine=engine))
                for _ in range(3):
                    assert await file.pread(3, 0) == b"Con"
                    await file.fsync()
                    assert (await proactor.os.stat(path)).st_size == 7
                assert not waiting.done()
                taken.give_back(8)
                assert await waiting == b"Content"

    run(in_time(main()))


def test_cancelled_while_it_waits(run: Run, path: Path, engine: str) -> None:
    async def main() -> None:
        await proactor.write_bytes(path, b"content", engine=engine)
        with Taken():
            tasks: list[asyncio.Future[Any]] = []
            for number in range(20):
                tasks.append(asyncio.ensure_future(proactor.read_bytes(path, engine=engine)))
                tasks.append(asyncio.ensure_future(proactor.open(path, "rb", engine=engine)))
                tasks.append(asyncio.ensure_future(written(path, engine, number)))
            await turns()
            for task in tasks[3:]:
                task.cancel()
            ends = await asyncio.gather(*tasks[3:], return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        assert await tasks[0] == b"content"
        await (await tasks[1]).close()
        assert await tasks[2] == 1
        assert not (path.parent / "new1").exists()

    run(in_time(main()))


def test_the_loop_closes_while_they_wait(run: Run, path: Path, engine: str) -> None:
    taken = None

    async def main() -> None:
        nonlocal taken
        await proactor.write_bytes(path, b"content", engine=engine)
        taken = Taken()
        for number in range(5):
            background.append(asyncio.ensure_future(proactor.read_bytes(path, engine=engine)))
            background.append(asyncio.ensure_future(written(path, engine, number)))
        await turns()
        # The end of the run needs some for itself.
        taken.give_back(8)

    background: list[asyncio.Future[Any]] = []
    run(in_time(main()))
    assert taken is not None
    taken.give_back()
    assert run(in_time(whole(path, engine, 0))) > 0


def test_loops_in_two_threads(event_loop_factory: LoopFactory, path: Path, engine: str) -> None:
    found: list[list[int]] = []

    def work() -> None:
        async def main() -> None:
            found.append(await asyncio.gather(*(whole(path, engine, number) for number in range(500))))

        loop = event_loop_factory()
        try:
            loop.run_until_complete(in_time(main()))
        finally:
            loop.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(each) for each in found] == [500, 500]
    assert min(map(min, found)) > 0


def test_a_forked_child_begins_anew(path: Path, engine: str) -> None:
    async def read(count: int) -> int:
        return min(await asyncio.gather(*(whole(path, engine, number) for number in range(count))))

    async def main() -> None:
        await proactor.write_bytes(path, b"content", engine=engine)
        with Taken() as taken:
            waiting = asyncio.ensure_future(read(200))
            await turns()
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    taken.give_back()
                    asyncio._set_running_loop(None)
                    status = 0 if asyncio.new_event_loop().run_until_complete(read(100)) > 0 else 2
                finally:
                    os._exit(status)
            taken.give_back()
            assert os.waitpid(pid, 0)[1] == 0  # noqa: ASYNC222
        assert await waiting > 0

    asyncio.run(in_time(main()))


async def temporary(path: Path, engine: str, number: int) -> int:
    kinds: list[Any] = [
        proactor.tempfile.TemporaryFile,
        proactor.tempfile.NamedTemporaryFile,
        partial(proactor.tempfile.SpooledTemporaryFile, 1),
    ]
    async with kinds[number % 3](dir=path.parent, engine=engine) as file:
        await file.write(b"abc")
        await file.flush()
        await asyncio.sleep(0.001)
        await file.seek(0)
        return len(await file.read())


async def only_made(path: Path, engine: str, number: int) -> int:
    fd, name = await proactor.tempfile.mkstemp(dir=path.parent)
    await asyncio.sleep(0.001)
    os.close(fd)
    os.unlink(name)
    return 1


# What `mkstemp` has given is the program's, and is counted again only now and then: only EMFILE is a failure.
@pytest.mark.parametrize(("way", "allowed"), [(temporary, LIMIT - RESERVE + OF_A_HELPER), (only_made, LIMIT)])
def test_more_temporary_files_than_descriptors(
    run: Run, path: Path, engine: str, way: Callable[[Path, str, int], Coroutine[Any, Any, int]], allowed: int
) -> None:
    async def main() -> None:
        most = 0
        calls = asyncio.gather(*(way(path, engine, number) for number in range(500)))
        while not calls.done():
            most = max(most, open_count())
            await asyncio.sleep(0)
        assert all(found > 0 for found in await calls)
        assert most <= allowed
        assert os.listdir(path.parent) == ["file"]

    run(in_time(main()))


def test_cancelled_temporary_files_leave_nothing(run: Run, path: Path, engine: str) -> None:
    """Their errors, which are kept here, do not keep them; and others get the descriptors."""

    async def main() -> None:
        await temporary(path, engine, 0)
        before = open_count()
        kept = []
        for turn in range(6):
            tasks = [asyncio.ensure_future(temporary(path, engine, number)) for number in range(200)]
            await turns(turn)
            for task in tasks[1:]:
                task.cancel()
            kept.append(await asyncio.gather(*tasks, return_exceptions=True))
            assert kept[-1][0] == 3
        with Taken() as taken:
            # What waits for a descriptor.
            tasks = [asyncio.ensure_future(temporary(path, engine, number)) for number in range(30)]
            await turns()
            for task in tasks:
                task.cancel()
            kept.append(await asyncio.gather(*tasks, return_exceptions=True))
            taken.give_back()
        while open_count() > before or os.listdir(path.parent) != ["file"]:
            await turns(1)
        assert await asyncio.gather(*(temporary(path, engine, number) for number in range(100))) == [3] * 100

    run(in_time(main()))


@pytest.mark.usefixtures("short_wait")
def test_no_descriptor_for_a_temporary_file(run: Run, path: Path, engine: str) -> None:
    async def main() -> None:
        await temporary(path, engine, 0)
        with Taken():
            for number in range(3):
                with pytest.raises(OSError, match="Too many open files") as caught:
                    await temporary(path, engine, number)
                assert caught.value.errno == errno.EMFILE
        assert os.listdir(path.parent) == ["file"]

    run(in_time(main()))


async def copied(path: Path, engine: str, number: int) -> int:
    copies: list[Any] = [proactor.shutil.copyfile, proactor.shutil.copy, proactor.shutil.copy2]
    copy = copies[number % 3]
    await copy(path, path.parent / f"new{number}")
    return 1


async def removed(path: Path, engine: str, number: int) -> int:
    folder = path.parent / f"folder{number}"
    folder.mkdir()
    (folder / "file").touch()
    await proactor.shutil.rmtree(folder)
    return int(not folder.exists())


async def removed_deep(path: Path, engine: str, number: int) -> int:
    folder = path.parent / f"deep{number}"
    for _ in range(8):
        folder = folder / "down"
        (folder.parent / "beside" / "below").mkdir(parents=True)
    folder.mkdir(parents=True)
    top = path.parent / f"deep{number}"
    await proactor.shutil.rmtree(top)
    return int(not top.exists())


@pytest.mark.parametrize("way", [copied, removed, removed_deep], ids=lambda way: way.__name__)
def test_what_threads_do_in_steps(
    run: Run,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: Callable[[Path, str, int], Coroutine[Any, Any, int]],
) -> None:
    # Each step is a thread's call of its own, so that all are under way at once.
    monkeypatch.setattr(_steps, "SLICE_S", 0)

    async def main() -> None:
        most = 0
        calls = asyncio.gather(*(way(path, "", number) for number in range(80)))
        while not calls.done():
            most = max(most, open_count())
            await turns(1)
        assert await calls == [1] * 80
        # Threads open them, a moment after they were counted.
        assert most <= LIMIT - RESERVE // 2

    run(in_time(main()))


def test_a_copy_waits_for_what_the_program_has(run: Run, path: Path) -> None:
    async def main() -> None:
        await copied(path, "", 0)
        await proactor.os.listdir(path.parent)  # It makes the engine's helper.
        with Taken() as taken:
            # It needs two.
            taken.give_back(1)
            waiting = asyncio.ensure_future(copied(path, "", 1))
            cancelled = asyncio.ensure_future(copied(path, "", 2))
            await turns()
            assert not waiting.done()
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            taken.give_back(8)
            assert await waiting == 1
        assert sorted(os.listdir(path.parent)) == ["file", "new0", "new1"]
        _native.set_descriptor_wait(0.02)
        try:
            with Taken(), pytest.raises(OSError, match="Too many open files") as caught:
                await copied(path, "", 3)
        finally:
            _native.set_descriptor_wait(30)
        assert (caught.value.errno, caught.value.filename) == (errno.EMFILE, path)

    run(in_time(main()))


def test_more_copies_at_once_than_descriptors(run: Run, path: Path) -> None:
    async def main() -> None:
        copies = (proactor.copy(path, path.parent / f"new{number}") for number in range(2 * LIMIT))
        assert {report.files for report in await asyncio.gather(*copies)} == {1}

    run(in_time(main()))


def test_more_copies_in_shards_than_descriptors(run: Run, path: Path) -> None:
    async def one(number: int) -> int:
        plan = await proactor.copy_plan(path.parent / "folder", path.parent / f"new{number}")
        return (await proactor.copy_shard(plan, 0)).failures

    async def main() -> None:
        (path.parent / "folder").mkdir()
        assert await asyncio.gather(*map(one, range(2 * LIMIT))) == [0] * 2 * LIMIT

    run(in_time(main()))


def test_the_only_copy_waits_for_nobody(run: Run, path: Path) -> None:
    async def main() -> None:
        with Taken() as taken:
            taken.give_back(16)
            assert (await proactor.copy(path, path.parent / "new")).files == 1

    run(in_time(main()))
