"""Calls of another event loop than the one that a file is busy on.

Users saw the owner's calls hang for ever: the foreign call was queued, got its turn and never woke up. Text
that fitted into the buffer was written by any thread. So was whatever else needs no waiting.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run


@pytest.mark.parametrize("mode", ["rb", "r"])
def test_a_busy_files_other_loop(run: Run, mode: str) -> None:
    read, write = os.pipe()

    async def main() -> None:
        file: Any = await proactor.open(read, mode)
        mine = asyncio.ensure_future(file.readline())
        await asyncio.sleep(0)
        errors: list[Exception] = []

        async def foreign(call: Callable[[], Coroutine[Any, Any, Any]]) -> None:
            await call()

        def other() -> None:
            for call in (file.read, file.readline, file.close):
                try:
                    asyncio.run(foreign(call))
                except RuntimeError as error:
                    errors.append(error)

        thread = threading.Thread(target=other)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert len(errors) == 3
        os.write(write, b"a\nb\n")
        assert len(await mine) == 2
        assert len(await asyncio.wait_for(file.readline(), 10)) == 2
        await file.close()

    run(main())
    os.close(write)


def test_a_text_write_of_another_thread(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "text"

    async def main() -> None:
        async with proactor.open(path, "w") as file:
            await file.write("mine")

            async def foreign() -> None:
                with pytest.raises(RuntimeError, match="another event loop"):
                    await file.write("theirs")

            await asyncio.to_thread(asyncio.run, foreign())

    run(main())
    assert path.read_text() == "mine"


OF_BOTH = [
    ("tell", ()),
    ("read", (1,)),
    ("readline", ()),
    ("readlines", (2,)),
    ("__anext__", ()),
    ("seek", (2,)),
    ("flush", ()),
    ("truncate", (3,)),
]
OF_BYTES = [*OF_BOTH, ("peek", (1,)), ("read1", (1,)), ("readinto", (bytearray(1),)), ("pread", (1, 0))]


async def refused(file: Any, name: str, arguments: tuple[Any, ...]) -> list[Any]:
    """Calls it from another thread between two calls of this one, which read what they would without."""
    await file.seek(0)
    first = await file.readline()

    async def foreign() -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await getattr(file, name)(*arguments)

    await asyncio.to_thread(asyncio.run, foreign())
    return [first, *[line async for line in file]]


@pytest.mark.parametrize(("name", "arguments"), OF_BYTES)
def test_a_call_of_another_thread_that_need_not_wait(
    run: Run, tmp_path: Path, name: str, arguments: tuple[Any, ...]
) -> None:
    async def main() -> None:
        async with proactor.open(tmp_path / "f", "w+b") as file:
            await file.write(b"1\n2\n3\n")
            assert await refused(file, name, arguments) == [b"1\n", b"2\n", b"3\n"]

    run(main())


@pytest.mark.parametrize(("name", "arguments"), OF_BOTH)
def test_a_text_call_of_another_thread_that_need_not_wait(
    run: Run, tmp_path: Path, name: str, arguments: tuple[Any, ...]
) -> None:
    async def main() -> None:
        async with proactor.open(tmp_path / "f", "w+") as file:
            await file.write("1\n2\n3\n")
            assert await refused(file, name, arguments) == ["1\n", "2\n", "3\n"]

    run(main())
