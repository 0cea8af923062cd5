"""`proactor.os.scandir`: `os.scandir`'s entries, read by the loop's engine a batch at a time."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from conftest import Run
from file_helpers import descriptors, in_time, turns
from os_helpers import now, unprivileged
from proactor.os import DirEntry, ScandirIterator, scandir

# Of entries with short names: one is read at once.
ONE = 40


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
def two(tmp_path: Path) -> Path:
    """A directory that takes several batches of `ONE`, so that it stays open in between."""
    for name in "ab":
        (tmp_path / name).touch()
    return tmp_path


def one_by_one(path: Path) -> ScandirIterator[str]:
    return ScandirIterator(path, batch_bytes=ONE)


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
        scandir(1.5)  # type: ignore[call-overload]
    assert str(caught.value) == str(expected.value)


def test_no_descriptor(run: Run) -> None:
    async def main() -> None:
        # (To `os.scandir` it is the working directory.)
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            await scandir(-1)
        assert caught.value.filename == -1

    run(main())
    with pytest.raises(OverflowError) as expected:
        os.scandir(1 << 40)
    with pytest.raises(OverflowError) as caught:
        scandir(1 << 40)
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


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with 10,000 entries."""
    many = tmp_path_factory.mktemp("many")
    for number in range(10_000):
        os.mknod(many / str(number))
    return many


def test_ten_thousand_entries(run: Run, many: Path) -> None:
    async def main() -> list[str]:
        return [entry.name async for entry in scandir(many) if await entry.is_file()]

    assert run(main()) == os.listdir(many)


def test_what_was_read_comes_without_waiting(run: Run, many: Path) -> None:
    async def main() -> None:
        async with scandir(many) as entries:
            names: list[str] = []
            while len(names) < 100:
                step = entries.__anext__()
                try:
                    # None: the loop has its turn.
                    assert step.send(None) is None
                    step.send(None)
                except StopIteration as end:
                    names.append(end.value.name)
        assert names == os.listdir(many)[:100]

    run(main())


def test_the_loop_has_its_turn(run: Run, many: Path) -> None:
    """Where each entry is worked on for a while, the turn is used up within a batch."""

    async def main() -> int:
        entries = await scandir(many)
        with turns() as count:
            # Of the first batch: nothing is waited for.
            for _ in range(900):
                await entries.__anext__()
                until = time.perf_counter() + 20e-6
                while time.perf_counter() < until:
                    pass
            given = count()
        entries.close()
        return given

    assert run(main()) > 0


def test_leaving_early_closes(run: Run, two: Path) -> None:
    async def main() -> None:
        assert [entry async for entry in scandir(two)]  # the engine has its descriptors by now
        before = descriptors()
        async with one_by_one(two) as entries:
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
        entries = await one_by_one(two)
        assert await entries is entries
        names = [(await entries.__anext__()).name]
        async with entries as same:
            assert same is entries
            names += [entry.name async for entry in entries]
        return names

    assert run(main()) == os.listdir(two)


def test_never_opened(run: Run, two: Path) -> None:
    async def main() -> None:
        entries = one_by_one(two)
        entries.close()
        assert [entry async for entry in entries] == []
        one_by_one(two)

    run(main())


def test_a_forgotten_one_warns(run: Run, two: Path) -> None:
    async def main() -> None:
        entries = await one_by_one(two)
        with pytest.warns(ResourceWarning, match="unclosed scandir iterator"):
            del entries

    run(main())


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await in_time(task)


def test_a_cancelled_open_is_closed_quietly(run: Run, two: Path) -> None:
    async def main() -> None:
        async def enter() -> None:
            async with one_by_one(two):
                raise AssertionError("it opened")

        task = asyncio.create_task(enter())
        await asyncio.sleep(0)
        await cancel(task)

    run(main())


def test_a_cancelled_step_loses_nothing(run: Run, two: Path) -> None:
    async def main() -> list[str]:
        entries = one_by_one(two)
        names: list[str] = []
        for _ in range(100):
            # In flight, or there already.
            task = asyncio.ensure_future(entries.__anext__())
            await asyncio.sleep(0)
            if task.done():
                names.append(task.result().name)
                break
            await cancel(task)
        return names + [entry.name async for entry in entries]

    assert run(main()) == os.listdir(two)


def test_the_error_of_a_cancelled_step_is_the_next_ones(run: Run, two: Path) -> None:
    async def main() -> None:
        entries = scandir(two / "nothing")
        task = asyncio.ensure_future(entries.__anext__())
        await asyncio.sleep(0)
        await cancel(task)
        with pytest.raises(FileNotFoundError):
            await entries.__anext__()
        assert [entry async for entry in entries] == []

    run(main())


def test_closing_while_it_is_read(run: Run, two: Path) -> None:
    async def main() -> None:
        entries = scandir(two)
        task = asyncio.ensure_future(entries.__anext__())
        await asyncio.sleep(0)
        entries.close()
        with pytest.raises(StopAsyncIteration):
            await in_time(task)

    run(main())


def test_another_loop_goes_on(run: Run, two: Path) -> None:
    """Also where the first one was closed while it read."""
    for wait in (True, False):
        entries = one_by_one(two)
        names: list[str] = []

        async def begin(entries: ScandirIterator[str] = entries, names: list[str] = names) -> None:
            names.append((await entries.__anext__()).name)

        async def leave(entries: ScandirIterator[str] = entries) -> None:
            entries.__anext__().send(None)

        async def go_on(entries: ScandirIterator[str] = entries) -> list[str]:
            return [entry.name async for entry in entries]

        run(begin() if wait else leave())
        assert names + run(go_on()) == os.listdir(two)


def test_a_directory_that_is_removed_meanwhile(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        (tmp_path / "folder").mkdir()
        entries = await one_by_one(tmp_path / "folder")
        (tmp_path / "folder").rmdir()
        assert [entry async for entry in entries] == []

    run(main())


def test_several_tasks_share_one_iterator(run: Run, tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / str(number)).touch()

    async def main() -> list[str]:
        entries = ScandirIterator(tmp_path, batch_bytes=100)

        async def take() -> list[str]:
            return [entry.name async for entry in entries]

        return [name for names in await asyncio.gather(*(take() for _ in range(8))) for name in names]

    assert sorted(run(main())) == sorted(os.listdir(tmp_path))
