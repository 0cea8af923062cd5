"""Temporary files whose making, use or closing ends at bad moments: nothing stays behind."""

# ruff: noqa: ASYNC240 (what they look at is on the disk)

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from itertools import product
from pathlib import Path
from typing import Any

import proactor
import pytest
from capabilities import needs
from conftest import LoopFactory, Run
from file_helpers import descriptors, in_time, until
from proactor import _pool
from stepping import ENDS, drive, end

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("TemporaryFile", {}),
    ("TemporaryFile", {"mode": "w+", "encoding": "utf-8"}),
    ("NamedTemporaryFile", {}),
    ("NamedTemporaryFile", {"mode": "w+", "encoding": "utf-8"}),
    ("NamedTemporaryFile", {"delete": False}),
    ("TemporaryDirectory", {}),
    ("TemporaryDirectory", {"delete": False}),
    ("mkstemp", {}),
    ("mkdtemp", {}),
]


Gone = Callable[[set[str]], Coroutine[Any, Any, None]]


@pytest.fixture
def gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gone]:
    """Waits until all threads have done what they were asked to do, and nothing of it is left."""
    calls: list[Future[Any]] = []
    submit = _pool.submit

    def record(*arguments: Any, **options: Any) -> Future[Any]:
        calls.append(submit(*arguments, **options))
        return calls[-1]

    async def everything_gone(before: set[str]) -> None:
        await until(lambda: all(call.done() for call in calls))
        await until(lambda: not os.listdir(tmp_path) and descriptors() <= before)

    monkeypatch.setattr(_pool, "submit", record)
    yield everything_gone
    # They know their loops.
    calls.clear()


async def descriptors_of_an_idle_loop() -> set[str]:
    await (await proactor.tempfile.TemporaryFile()).close()
    return descriptors()


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=str)
def test_ended_while_it_is_made(run: Run, tmp_path: Path, gone: Gone, kind: str, options: Any) -> None:
    async def check(ending: type[BaseException], wait: bool) -> None:
        before = await descriptors_of_an_idle_loop()
        points = 0
        while True:
            making = getattr(proactor.tempfile, kind)(dir=tmp_path, **options)
            made = await drive(making, points, wait=wait)
            if made is not making:
                break
            end(making, ending)
            await gone(before)
            points += 1
        assert points == 1
        if kind == "mkstemp":
            os.close(made[0])
        elif kind != "mkdtemp":
            await made.__aexit__(None, None, None)
        assert descriptors() <= before
        for left in tmp_path.iterdir():
            left.rmdir() if left.is_dir() else left.unlink()

    async def main() -> None:
        for ending, wait in product(ENDS, (False, True)):
            await check(ending, wait)

    run(in_time(main()))


@pytest.mark.parametrize(("kind", "options"), KINDS[:4], ids=str)
def test_ended_while_it_is_closed(run: Run, tmp_path: Path, gone: Gone, kind: str, options: Any) -> None:
    """A cancelled close goes on by itself."""

    async def check(ending: type[BaseException], wait: bool, context: bool) -> None:
        before = await descriptors_of_an_idle_loop()
        points = 0
        while True:
            file = await getattr(proactor.tempfile, kind)(dir=tmp_path, **options)
            await file.write(b"x" if "b" in file.mode else "x")
            closing = file.__aexit__(None, None, None) if context else file.close()
            if await drive(closing, points, wait=wait) is not closing:
                break
            end(closing, ending)
            await gone(before)
            assert file.closed
            points += 1
        assert points >= (2 if kind == "NamedTemporaryFile" else 1)
        await gone(before)

    async def main() -> None:
        for ending, wait, context in product(ENDS, (False, True), (False, True)):
            await check(ending, wait, context)

    run(in_time(main()))


def test_ended_while_a_directory_is_removed(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        for ending, wait in product(ENDS, (False, True)):
            directory = await proactor.tempfile.TemporaryDirectory(dir=tmp_path)
            Path(directory.name, "file").touch()
            removal = directory.cleanup()
            assert await drive(removal, 0, wait=wait) is removal
            end(removal, ending)
            await until(lambda: not os.listdir(tmp_path))

    run(in_time(main()))


def test_a_thousand_cancelled_tasks(run: Run, tmp_path: Path, gone: Gone) -> None:
    async def use(kind: str) -> None:
        async with getattr(proactor.tempfile, kind)(dir=tmp_path) as made:
            if kind != "TemporaryDirectory":
                await made.write(b"x" * 100)
            await asyncio.sleep(0)

    async def main() -> None:
        before = await descriptors_of_an_idle_loop()
        for turns in range(25):
            tasks = [
                asyncio.ensure_future(use(kind))
                for kind in ("TemporaryFile", "NamedTemporaryFile", "TemporaryDirectory")
                for _ in range(10)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await gone(before)

    run(in_time(main()))


def test_without_a_free_thread(run: Run, tmp_path: Path) -> None:
    """A file that was handed over is deleted even if its cancelled close finds all threads at work."""

    async def main() -> None:
        file = await proactor.tempfile.NamedTemporaryFile(dir=tmp_path)
        go_on = threading.Event()
        busy = [asyncio.ensure_future(_pool.run(go_on.wait)) for _ in range(16)]
        try:
            closing = asyncio.ensure_future(file.close())
            await asyncio.sleep(0)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            assert os.listdir(tmp_path)
        finally:
            go_on.set()
            await asyncio.gather(*busy)
        await until(lambda: not os.listdir(tmp_path))

    run(in_time(main()))


def test_threads_do_what_the_engine_does_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, set[int]] = {}

    def watch(module: Any, name: str) -> None:
        function = getattr(module, name)

        def call(*arguments: Any, **options: Any) -> Any:
            seen.setdefault(name, set()).add(threading.get_ident())
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    for name in ("mkdtemp", "gettempdir"):
        watch(tempfile, name)
    watch(os, "unlink")
    watch(os, "scandir")

    async def main() -> None:
        for kind in ("TemporaryFile", "NamedTemporaryFile", "TemporaryDirectory"):
            async with getattr(proactor.tempfile, kind)(dir=tmp_path):
                pass
        os.close((await proactor.tempfile.mkstemp(dir=tmp_path))[0])
        os.rmdir(await proactor.tempfile.mkdtemp(dir=tmp_path))
        await proactor.tempfile.gettempdir()

    run(main())
    assert set(seen) == {"mkdtemp", "gettempdir", "unlink", "scandir"}
    assert threading.get_ident() not in set().union(*seen.values())


def test_forgotten(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        before = await descriptors_of_an_idle_loop()
        for mode in ("w+b", "w+"):
            file: Any = await proactor.tempfile.NamedTemporaryFile(mode, dir=tmp_path, encoding=None)
            await file.write("x" if mode == "w+" else b"x")
            with pytest.warns(ResourceWarning, match="NamedTemporaryFile"):
                del file
            assert os.listdir(tmp_path) == []
        kept: Any = await proactor.tempfile.NamedTemporaryFile(dir=tmp_path, delete=False)
        await kept.write(b"kept")
        name = kept.name
        with pytest.warns(ResourceWarning, match="NamedTemporaryFile"):
            del kept
        await until(lambda: Path(name).read_bytes() == b"kept")
        os.unlink(name)
        directory: Any = await proactor.tempfile.TemporaryDirectory(dir=tmp_path)
        Path(directory.name, "file").touch()
        with pytest.warns(ResourceWarning, match="TemporaryDirectory"):
            del directory
        assert os.listdir(tmp_path) == []
        stays: Any = await proactor.tempfile.TemporaryDirectory(dir=tmp_path, delete=False)
        os.rmdir(stays.name)
        del stays
        nameless: Any = await proactor.tempfile.TemporaryFile(dir=tmp_path)
        with pytest.warns(ResourceWarning, match="unclosed file"):
            del nameless
        await until(lambda: descriptors() <= before and not os.listdir(tmp_path))

    run(in_time(main()))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_never_awaited(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        for kind in ("TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory"):
            making = getattr(proactor.tempfile, kind)(dir=tmp_path)
            with pytest.warns(RuntimeWarning, match="never awaited"):
                del making
            getattr(proactor.tempfile, kind)(dir=tmp_path).close()
        assert os.listdir(tmp_path) == []

    run(main())


def test_after_the_loop(event_loop_factory: LoopFactory, tmp_path: Path) -> None:
    """What a closed loop has left is deleted when it is collected, and what was written to it is not lost."""

    async def begin() -> tuple[Any, Any, Any]:
        file = await proactor.tempfile.NamedTemporaryFile(dir=tmp_path)
        await file.write(b"x")
        kept = await proactor.tempfile.NamedTemporaryFile(dir=tmp_path, delete=False)
        await kept.write(b"kept")
        return file, kept, await proactor.tempfile.TemporaryDirectory(dir=tmp_path)

    loop = event_loop_factory()
    made = list(loop.run_until_complete(begin()))
    name = made[1].name
    loop.close()
    with pytest.warns(ResourceWarning):
        del made[:]
    assert os.listdir(tmp_path) == [os.path.basename(name)]
    assert Path(name).read_bytes() == b"kept"


def test_at_the_end_of_the_program(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import asyncio, sys
        from proactor import tempfile

        async def main():
            global file, directory
            file = await tempfile.NamedTemporaryFile(dir=sys.argv[1])
            await file.write(b"x")
            directory = await tempfile.TemporaryDirectory(dir=sys.argv[1])

        asyncio.run(main())
        """
    )
    done = subprocess.run(
        [sys.executable, "-W", "always", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.count("ResourceWarning: Implicitly cleaning up") == 2
    assert os.listdir(tmp_path) == []


@needs("root", "tmpfs mount")
def test_a_full_disk(run: Run, tmp_path: Path) -> None:
    """The error of the last flush is raised, and the file is deleted."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=True)

    async def main() -> None:
        file = await proactor.tempfile.NamedTemporaryFile(dir=tmp_path)
        Path(tmp_path, "filler").write_bytes(b"x" * 65536)
        await file.write(b"x" * 1000)
        with pytest.raises(OSError, match="No space"):
            await file.close()
        assert file.closed
        assert os.listdir(tmp_path) == ["filler"]
        os.unlink(tmp_path / "filler")
        async with proactor.tempfile.SpooledTemporaryFile(100, dir=tmp_path) as spooled:
            Path(tmp_path, "filler").write_bytes(b"x" * 65536)
            with pytest.raises(OSError, match="No space"):
                await spooled.write(b"x" * 1000)
            os.unlink(tmp_path / "filler")
            assert spooled.name is None
            await spooled.rollover()
            await spooled.seek(0)
            assert await spooled.read() == b"x" * 1000

    try:
        run(in_time(main()))
    finally:
        gc.collect()
        subprocess.run(["umount", str(tmp_path)], check=True)
