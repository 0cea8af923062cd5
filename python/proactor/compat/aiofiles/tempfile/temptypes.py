"""What `tempfile` has besides ordinary files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from proactor.compat.aiofiles.base import AsyncBase, run

if TYPE_CHECKING:
    import tempfile
    from concurrent.futures import Executor

__all__ = ["AsyncSpooledTemporaryFile", "AsyncTemporaryDirectory"]

T = TypeVar("T")

# No encoding makes more of a character (a byte order mark comes on top, once).
_MOST_BYTES_PER_CHARACTER = 8


class AsyncSpooledTemporaryFile(AsyncBase[Any]):
    """A file in memory until it is longer than `max_size`, or its descriptor is asked for.

    Calls that stay in memory are made in place, the others in a thread.
    """

    def __init__(
        self, file: Any, loop: Any = None, executor: Executor | None = None, *, max_size: int | None = None
    ) -> None:
        super().__init__(file, loop, executor)
        # None: not known. 0: any length stays in memory.
        self._max_size = max_size

    async def _call(self, name: str, /, *args: Any, **kwargs: Any) -> T:
        if self._file.name is None:
            value: T = getattr(self._file, name)(*args, **kwargs)
            return value
        return await super()._call(name, *args, **kwargs)

    async def write(self, data: Any) -> int:
        """Writes, and returns how many bytes or characters."""
        if self._stays_in_memory(data):
            return await self._call("write", data)
        return await run(self._executor, self._file.write, data)

    def _stays_in_memory(self, data: Any) -> bool:
        if self._max_size == 0:
            return True
        if self._max_size is None or self._file.name is not None:
            return False
        length = len(data) * _MOST_BYTES_PER_CHARACTER if isinstance(data, str) else memoryview(data).nbytes
        return bool(self._file.tell() + length <= self._max_size)

    async def writelines(self, lines: Iterable[Any]) -> None:
        """Writes from an iterable, one after the other. No line ends are added."""
        for line in lines:
            await self.write(line)

    async def fileno(self) -> int:  # type: ignore[override]
        """The descriptor, which only a file on disk has: it goes there. (A coroutine, as there.)"""
        return await run(self._executor, self._file.fileno)

    async def rollover(self) -> None:
        """Goes to the disk."""
        await run(self._executor, self._file.rollover)

    @property
    def encoding(self) -> str:
        """A text file's encoding."""
        encoding: str = self._file.encoding
        return encoding

    @property
    def newlines(self) -> Any:
        """The kinds of line ends seen so far: None, a string or a tuple."""
        return self._file.newlines


class AsyncTemporaryDirectory:
    """A directory that is removed with all that is in it by `cleanup`, or at the end of `async with`."""

    def __init__(
        self, file: tempfile.TemporaryDirectory[str], loop: Any = None, executor: Executor | None = None
    ) -> None:
        self._file = file
        self._executor = executor

    @property
    def name(self) -> str:
        """Its path."""
        return self._file.name

    async def cleanup(self) -> None:
        """Removes it."""
        await run(self._executor, self._file.cleanup)

    async def close(self) -> None:
        """Removes it."""
        await self.cleanup()

    async def _leave(self, *exc_info: object) -> None:
        """The end of `async with`."""
        await self.cleanup()
