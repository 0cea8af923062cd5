"""`proactor.os.scandir`: `os.scandir`'s entries, read in threads a batch at a time."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Run
from file_helpers import descriptors, in_time, until
from os_helpers import now, unprivileged
from proactor import _pool, _scandir
from proactor.os import DirEntry, scandir


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One of each kind."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_bytes(b"content")
    (folder / "below").mkdir()
    (folder / "to file").symlink_to("file")
    (folder / "to folder").symlink_to("below")
    (folder / "broken").symlink_to("nothing")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")
    (folder / "☃").write_bytes(b"")
    return folder


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that takes two batches, so that it stays open in between."""
    monkeypatch.setattr(_scandir, "MOST_ENTRIES", 1)
    for name in "ab":
        (tmp_path / name).touch()
    return tmp_path


async def answer(question: Coroutine[Any, Any, Any]) -> Any:
    try:
        found = await question
        # Following a link sets its time of access.
        return (*found[:7], found.st_mtime_ns) if isinstance(found, os.stat_result) else found
    except OSError as error:
        return type(error), error.errno, error.filename


async def describe(entry: DirEntry[Any]) -> tuple[Any, ...]:
    return (
        entry.name,
        entry.path,
        os.fspath(entry),
        entry.inode(),
        repr(entry),
        await answer(entry.is_dir()),
        await answer(entry.is_dir(follow_symlinks=False)),
        await answer(entry.is_file()),
        await answer(entry.is_file(follow_symlinks=False)),
        await answer(entry.is_symlink()),
        await answer(entry.stat()),
        await answer(entry.stat(follow_symlinks=False)),
    )


class PlainEntry:
    """An entry of `os.scandir` with its questions as coroutines."""

    def __init__(self, entry: os.DirEntry[Any]) -> None:
        self.entry = entry

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.entry, name)
        if name not in ("is_dir", "is_file", "is_symlink", "stat"):
            return value

        async def ask(**options: Any) -> Any:
            return value(**options)

        return ask

    def __fspath__(self) -> Any:
        return self.entry.path

    def __repr__(self) -> str:
        return repr(self.entry)


@pytest.mark.parametrize("kind", ["str", "bytes", "Path", "descriptor"])
def test_entries_are_those_of_os(run: Run, folder: Path, kind: str) -> None:
    fd = os.open(folder, os.O_RDONLY)
    path: Any = {"str": str(folder), "bytes": os.fsencode(folder), "Path": folder, "descriptor": fd}[kind]

    async def main() -> None:
        with os.scandir(path) as entries:
            expected = [await describe(PlainEntry(entry)) for entry in entries]  # type: ignore[arg-type]
        assert len(expected) == 8
        assert [await describe(entry) async for entry in scandir(path)] == expected

    try:
        run(main())
    finally:
        os.close(fd)


def test_the_working_directory(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)

    async def main() -> list[str]:
        return [entry.path async for entry in scandir()]

    assert sorted(run(main())) == sorted(entry.path for entry in os.scandir())


async def entry_of(folder: Path, name: str) -> DirEntry[str]:
    async with scandir(str(folder)) as entries:
        return {entry.name: entry async for entry in entries}[name]


def test_known_answers_do_not_suspend(run: Run, folder: Path) -> None:
    async def main() -> list[DirEntry[str]]:
        file, link = await entry_of(folder, "file"), await entry_of(folder, "to folder")
        assert await file.stat() == os.stat(folder / "file")
        assert await link.is_dir()
        return [file, link]

    file, link = run(main())
    assert [now(file.is_dir()), now(file.is_file()), now(file.is_symlink())] == [False, True, False]
    assert now(file.is_junction()) is False
    # Asked for before; that they are gone does not matter any more.
    (folder / "file").unlink()
    assert now(file.stat()) is now(file.stat(follow_symlinks=False))
    assert [now(link.is_dir(follow_symlinks=False)), now(link.is_symlink())] == [False, True]
    assert [now(link.is_dir()), now(link.is_file())] == [True, False]
    assert now(link.stat()) == os.stat(folder / "to folder")


def test_an_entry_that_is_gone(run: Run, folder: Path) -> None:
    async def main() -> None:
        file, link = await entry_of(folder, "file"), await entry_of(folder, "to file")
        (folder / "file").unlink()
        for entry in (file, link):
            with pytest.raises(FileNotFoundError) as caught:
                await entry.stat()
            assert caught.value.filename == entry.path
        assert await file.is_file()
        assert not await link.is_file()
        (folder / "file").mkdir()
        assert not await link.is_file()
        assert await link.is_dir()

    run(main())


@pytest.mark.parametrize("way", ["await", "async with", "async for"])
@pytest.mark.parametrize("name", ["nothing", "file", "file/below", "nul\0", "loop"])
def test_errors_of_opening(run: Run, folder: Path, name: str, way: str) -> None:
    path = f"{folder}/{name}"

    async def main() -> None:
        if way == "await":
            await scandir(path)
        elif way == "async with":
            async with scandir(path):
                raise AssertionError("it opened")
        else:
            async for _ in scandir(path):
                raise AssertionError("it opened")

    with pytest.raises((OSError, ValueError)) as expected:
        os.scandir(path)
    with pytest.raises((OSError, ValueError)) as caught:
        run(main())
    assert type(caught.value) is type(expected.value)
    assert caught.value.args == expected.value.args
    assert getattr(caught.value, "filename", None) == getattr(expected.value, "filename", None)


def test_no_path_at_all(run: Run) -> None:
    with pytest.raises(TypeError) as expected:
        os.scandir(1.5)  # type: ignore[call-overload]
    with pytest.raises(TypeError) as caught:
        run(scandir(1.5)._open())  # type: ignore[call-overload]
    assert str(caught.value) == str(expected.value)


def test_permission_denied(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(PermissionError) as caught:
            await scandir("folder")
        assert caught.value.filename == "folder"

    before = os.open(".", os.O_RDONLY)
    (tmp_path / "folder").mkdir(mode=0)
    try:
        os.chdir(tmp_path)
        with unprivileged(tmp_path, tmp_path / "folder"):
            run(main())
    finally:
        os.fchdir(before)
        os.close(before)


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What threads were asked to do."""
    made: list[Any] = []
    run = _pool.run

    def counted(function: Callable[..., Any], *arguments: Any, **options: Any) -> asyncio.Future[Any]:
        made.append(function)
        return run(function, *arguments, **options)

    monkeypatch.setattr(_scandir, "run", counted)
    return made


def test_a_kind_that_could_not_be_found_out_is_asked_for_again(run: Run, folder: Path) -> None:
    class Unknown:
        def __init__(self, name: str) -> None:
            self.name, self.path = name, str(folder / name)

        def is_symlink(self) -> bool:
            raise PermissionError(13, "no", self.name)

    async def kinds(name: str) -> list[bool]:
        entry: DirEntry[str] = DirEntry(Unknown(name), None)  # type: ignore[arg-type]
        return [
            await entry.is_symlink(),
            await entry.is_dir(),
            await entry.is_dir(follow_symlinks=False),
            await entry.is_file(),
            await entry.is_file(follow_symlinks=False),
        ]

    assert run(kinds("file")) == [False, False, False, True, True]
    assert run(kinds("to folder")) == [True, True, False, False, False]
    assert run(kinds("nothing")) == [False] * 5


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with 10,000 entries."""
    many = tmp_path_factory.mktemp("many")
    for number in range(10_000):
        os.mknod(many / str(number))
    return many


def test_ten_thousand_entries_take_eleven_calls(
    run: Run, many: Path, hops: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_scandir, "MOST_SECONDS", 1e9)

    async def main() -> list[str]:
        return [entry.name async for entry in scandir(many) if await entry.is_file()]

    assert run(main()) == os.listdir(many)
    assert len(hops) == 11  # the last finds nothing


def test_a_slow_directory_gives_what_it_has(
    run: Run, folder: Path, hops: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_scandir, "MOST_SECONDS", -1)

    async def main() -> list[str]:
        return [entry.name async for entry in scandir(folder)]

    assert run(main()) == os.listdir(folder)
    assert len(hops) == 9


def test_leaving_early_closes(run: Run, two: Path) -> None:
    async def main() -> None:
        before = descriptors()
        async with scandir(two) as entries:
            async for _ in entries:
                break
            assert len(descriptors()) == len(before) + 1
        assert descriptors() == before
        assert [entry async for entry in entries] == []
        entries.close()
        assert await entries is entries

    run(main())


def test_awaiting_and_closing(run: Run, two: Path) -> None:
    async def main() -> list[str]:
        entries = await scandir(two)
        assert await entries is entries
        names = [(await entries.__anext__()).name]
        async with entries as same:
            assert same is entries
            names += [entry.name async for entry in entries]
        return names

    assert run(main()) == os.listdir(two)


def test_never_opened(run: Run, two: Path) -> None:
    async def main() -> None:
        entries = scandir(two)
        entries.close()
        assert [entry async for entry in entries] == []
        scandir(two)

    run(main())


def test_a_forgotten_one_warns(run: Run, two: Path) -> None:
    async def main() -> None:
        entries = await scandir(two)
        with pytest.warns(ResourceWarning, match="unclosed scandir iterator"):
            del entries

    run(main())


class Slow:
    """`os.scandir` for the module, which waits until it is told to go on."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.go_on = threading.Event()

    def scandir(self, path: Any) -> Iterator[os.DirEntry[Any]]:
        self.started.set()
        assert self.go_on.wait(30)
        return os.scandir(path)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setattr(_scandir, "os", SimpleNamespace(scandir=slow.scandir))
    return slow


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await in_time(task)


def test_a_cancelled_open_is_closed_quietly(run: Run, two: Path, slow: Slow) -> None:
    async def main() -> None:
        async def enter() -> None:
            async with scandir(two):
                raise AssertionError("it opened")

        task = asyncio.create_task(enter())
        await until(slow.started.is_set)
        await cancel(task)
        slow.go_on.set()

    run(main())


def test_a_cancelled_step_loses_nothing(run: Run, two: Path, slow: Slow) -> None:
    async def main() -> list[str]:
        entries = scandir(two)
        task = asyncio.ensure_future(entries.__anext__())
        await until(slow.started.is_set)
        await cancel(task)
        slow.go_on.set()
        return [entry.name async for entry in entries]

    assert run(main()) == os.listdir(two)


def test_the_error_of_a_cancelled_step_is_the_next_ones(run: Run, two: Path, slow: Slow) -> None:
    async def main() -> None:
        entries = scandir(two / "nothing")
        task = asyncio.ensure_future(entries.__anext__())
        await until(slow.started.is_set)
        await cancel(task)
        slow.go_on.set()
        with pytest.raises(FileNotFoundError):
            await entries.__anext__()
        assert [entry async for entry in entries] == []

    run(main())


def test_closing_while_a_thread_reads(run: Run, two: Path, slow: Slow) -> None:
    async def main() -> None:
        entries = scandir(two)
        task = asyncio.ensure_future(entries.__anext__())
        await until(slow.started.is_set)
        entries.close()
        slow.go_on.set()
        with pytest.raises(StopAsyncIteration):
            await in_time(task)

    run(main())


def test_an_error_half_way_comes_after_what_was_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(path: Any) -> Iterator[Any]:
        yield SimpleNamespace(name="first", is_symlink=lambda: False)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(_scandir, "os", SimpleNamespace(scandir=scan))

    async def main() -> None:
        entries = await scandir("x")
        assert (await entries.__anext__()).name == "first"
        with pytest.raises(OSError, match="Input/output"):
            await entries.__anext__()
        with pytest.raises(StopAsyncIteration):
            await entries.__anext__()

    run(main())


def test_several_tasks_share_one_iterator(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scandir, "MOST_ENTRIES", 3)
    for number in range(100):
        (tmp_path / str(number)).touch()

    async def main() -> list[str]:
        entries = scandir(tmp_path)

        async def take() -> list[str]:
            return [entry.name async for entry in entries]

        return [name for names in await asyncio.gather(*(take() for _ in range(8))) for name in names]

    assert sorted(run(main())) == sorted(os.listdir(tmp_path))
