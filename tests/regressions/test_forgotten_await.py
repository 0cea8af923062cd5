"""A forgotten `await` or `async` did nothing, in silence: our coroutines could be iterated over, and were
empty. And `await read_many(...)` gave one pair of the batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import proactor
import proactor.os
import pytest

Run = Callable[[Coroutine[Any, Any, Any]], Any]

MAKE: dict[str, Callable[[Path, Any, Any], Any]] = {
    "read_bytes": lambda path, text, binary: proactor.read_bytes(path),
    "write_bytes": lambda path, text, binary: proactor.write_bytes(path, b""),
    "open": lambda path, text, binary: proactor.open(path, "rb"),
    "TextFile.readline": lambda path, text, binary: text.readline(),
    "BinaryFile.readlines": lambda path, text, binary: binary.readlines(),
    "BinaryFile.pread": lambda path, text, binary: binary.pread(1, 0),
    "stat": lambda path, text, binary: proactor.os.stat(path),
    "FileBatch.__anext__": lambda path, text, binary: anext(proactor.read_many([path])),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("a\nb\n")
    return path


@pytest.mark.parametrize("name", MAKE)
def test_a_coroutine_is_no_iterable_and_warns(run: Run, path: Path, name: str) -> None:
    async def main() -> None:
        async with proactor.open(path) as text, proactor.open(path, "rb") as binary:
            for use in (list, dict, bytes, b"".join, iter):
                with pytest.warns(RuntimeWarning, match=f"coroutine '{name}' was never awaited"):  # noqa: SIM117
                    with pytest.raises(TypeError):
                        use(MAKE[name](path, text, binary))

    run(main())


def test_await_inside_await(run: Run, path: Path) -> None:
    """Who writes an awaitable in Python drives `__await__` by `yield from`."""

    class Reading:
        def __await__(self) -> Generator[Any, Any, bytes]:
            return (yield from proactor.read_bytes("/proc/self/comm").__await__())

    async def main() -> bytes:
        return await asyncio.wait_for(Reading(), 10)

    assert run(main()) == Path("/proc/self/comm").read_bytes()


def test_a_batch_is_not_awaited(run: Run, path: Path) -> None:
    async def main() -> None:
        batch: Any = proactor.read_many([path])
        with pytest.raises(TypeError, match="async for"):
            await batch
        with pytest.raises(TypeError):
            dict(batch)
        assert await anext(batch) == (path, b"a\nb\n")
        assert await anext(batch, None) is None

    run(main())


def test_a_files_error_is_raised_unless_asked_for(run: Run, path: Path) -> None:
    async def main() -> None:
        batch = proactor.read_many([Path("/missing"), path])
        with pytest.raises(FileNotFoundError):
            await anext(batch)
        assert await anext(batch) == (path, b"a\nb\n")
        both = [
            data async for _, data in proactor.read_many([Path("/missing"), path], return_exceptions=True)
        ]
        assert isinstance(both[0], FileNotFoundError)
        assert both[1] == b"a\nb\n"

    run(main())
