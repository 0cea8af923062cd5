"""More arguments that had no effect, without a word: beside others, in the compat packages and on reads.

Users saw `rw_flags=RWF_APPEND` of a read, `bwlimit` beside `reflink="always"`, another loop in
`compat.aiofiles` and an `executor` in `compat.aiofile` pass. Where the standard library or the package that
is replaced has a meaning for such an argument, ours has the same.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import proactor
import proactor.net
import proactor.tempfile
import pytest
from conftest import Run
from proactor import aio
from proactor.compat import aiofile, aiofiles, linux_aio

OF_WRITES = [("RWF_DSYNC", aio.RWF_DSYNC), ("RWF_SYNC", aio.RWF_SYNC), ("RWF_APPEND", aio.RWF_APPEND)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    return path


@pytest.mark.parametrize(("name", "flag"), OF_WRITES)
@pytest.mark.parametrize(("kind", "memory"), [(aio.Read, 1), (aio.ReadV, [1])])
def test_flags_of_writes_on_a_read(kind: Any, memory: Any, name: str, flag: int) -> None:
    words = f"rw_flags: {name} has no effect on a read: leave it out"
    with pytest.raises(ValueError, match=words):
        kind(0, memory, 0, rw_flags=flag)
    op = kind(0, memory, 0, rw_flags=aio.RWF_HIPRI)
    with pytest.raises(ValueError, match=words):
        op.rw_flags = flag | aio.RWF_HIPRI
    assert op.rw_flags == aio.RWF_HIPRI


@pytest.mark.parametrize(("_name", "flag"), OF_WRITES)
def test_flags_of_writes_on_a_block_that_reads(path: Path, _name: str, flag: int) -> None:
    """The kernel takes them from a program that uses the original."""
    with path.open("rb") as file, linux_aio.AIOContext(2) as context:
        for block in (
            linux_aio.ReadBlock(file, bytearray(7), rw_flags=flag),
            linux_aio.ReadVBlock(file, [bytearray(7)], rw_flags=flag),
        ):
            assert context.submit(block) == 1
            (event,) = context.get_events(1, 1)
            assert (event.response, block.rw_flag) == (7, flag)


INTEGERS: dict[str, Callable[[int], Any]] = {
    "max_jobs": aio.Context,
    "backlog": lambda value: aio.Context(backlog=value),
    "max_threads": lambda value: aio.Context(max_threads=value),
    "sqpoll_cpu": lambda value: aio.Context(sqpoll=True, sqpoll_cpu=value),
    "min": lambda value: aio.Context(1, engine="threads").wait(value, timeout=0),
    "max": lambda value: aio.Context(1, engine="threads").wait(0, value, timeout=0),
    "rw_flags": lambda value: aio.Read(0, 1, 0, rw_flags=value),
    "events": lambda value: aio.Poll(0, value),
    "concurrency": lambda value: proactor.read_many([], concurrency=value),
    "workers": lambda value: proactor.read_many([], workers=value),
}


@pytest.mark.parametrize("value", [-1, -(1 << 63) - 1, 1 << 63, 1 << 64, 1 << 100])
@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_that_has_no_meaning(name: str, value: int) -> None:
    """Nothing of the standard library has them, whose OverflowError would be the same."""
    with pytest.raises(ValueError, match=f"^{name}"):
        INTEGERS[name](value)


def test_a_backlog_that_has_no_meaning(run: Run) -> None:
    async def main(value: int) -> None:
        with pytest.raises(ValueError, match="backlog"):
            await proactor.net.serve(lambda stream: asyncio.sleep(0), "127.0.0.1", backlog=value)

    for value in (-1, 1 << 32, 1 << 64):
        run(main(value))


COPIES: list[tuple[dict[str, Any], str]] = [
    ({"reflink": "always", "bwlimit": 1 << 20}, "bwlimit has no effect with reflink='always'"),
    ({"attributes_only": True, "link": "hard"}, "attributes_only has no effect with link"),
    ({"attributes_only": True, "link": "symbolic"}, "attributes_only has no effect with link"),
    ({"force": True, "update": "none"}, "force has no effect with update='none'"),
    ({"force": True, "update": "none-fail"}, "force has no effect with update='none'"),
    ({"in_place": True, "backup": "simple"}, "in_place has no effect with backup"),
]


@pytest.mark.parametrize(("options", "words"), COPIES, ids=str)
def test_options_of_a_copy(run: Run, path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        run(proactor.copy(path, path.with_name("copy"), **options))
    assert not path.with_name("copy").exists()


@pytest.mark.parametrize("max_size", [-1, 0, 2, 3])
def test_the_bound_of_a_spooled_file(run: Run, max_size: int) -> None:
    with tempfile.SpooledTemporaryFile(max_size) as theirs:
        theirs.write(b"abc")
        on_disk = bool(theirs._rolled)  # type: ignore[attr-defined]

    async def main() -> None:
        async with proactor.tempfile.SpooledTemporaryFile(max_size) as ours:
            await ours.write(b"abc")
            assert (ours.name is not None) == on_disk

    run(main())


WITH_A_LOOP: list[Callable[[Path, Any], Awaitable[Any]]] = [
    lambda path, loop: aiofiles.open(path, loop=loop),
    lambda path, loop: aiofiles.os.stat(path, loop=loop),
    lambda path, loop: aiofiles.os.path.exists(path, loop=loop),
    lambda path, loop: aiofiles.os.scandir(path.parent, loop=loop),
    lambda path, loop: aiofiles.tempfile.TemporaryFile(dir=path.parent, loop=loop),
    lambda path, loop: aiofiles.tempfile.NamedTemporaryFile(dir=path.parent, loop=loop),
    lambda path, loop: aiofiles.tempfile.SpooledTemporaryFile(loop=loop),
    lambda path, loop: aiofiles.tempfile.TemporaryDirectory(dir=path.parent, loop=loop),
]


@pytest.mark.parametrize("use", WITH_A_LOOP)
def test_another_loop(run: Run, path: Path, use: Callable[[Path, Any], Awaitable[Any]]) -> None:
    other = asyncio.new_event_loop()

    async def main() -> None:
        with pytest.raises(RuntimeError, match="is not the running loop"):
            await use(path, other)
        made = await use(path, asyncio.get_running_loop())
        if hasattr(made, "close"):
            with suppress(TypeError):
                await made.close()

    try:
        run(main())
    finally:
        other.close()
    assert os.listdir(path.parent) == [path.name]


def test_a_wrapped_file_of_another_loop(run: Run, path: Path) -> None:
    other = asyncio.new_event_loop()

    async def main() -> None:
        with path.open("rb") as file, pytest.raises(RuntimeError, match="is not the running loop"):
            aiofiles.threadpool.wrap(file, loop=other)

    try:
        run(main())
    finally:
        other.close()


@pytest.mark.parametrize("make", [aiofile.AIOFile, aiofile.async_open])
def test_an_executor_that_is_not_used(run: Run, path: Path, make: Any) -> None:
    async def main(executor: Any) -> str:
        async with make(path, "r", executor=executor) as file:
            text: str = await file.read()
            return text

    warned = pytest.warns(RuntimeWarning, match="executor has no effect")
    with ThreadPoolExecutor(1) as executor, warned as said:
        assert run(main(executor)) == "content"
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(main(None)) == "content"
