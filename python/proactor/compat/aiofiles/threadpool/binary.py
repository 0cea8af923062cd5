"""Binary files."""

from __future__ import annotations

from typing import Any, ClassVar

from proactor.compat.aiofiles.base import AsyncBase, AsyncIndirectBase, is_native, nothing_underneath

__all__ = [
    "AsyncBufferedIOBase",
    "AsyncBufferedReader",
    "AsyncFileIO",
    "AsyncIndirectBufferedIOBase",
    "AsyncIndirectBufferedReader",
    "AsyncIndirectFileIO",
]


class _Binary(AsyncBase[bytes]):
    _HOT: ClassVar[tuple[str, ...]] = (*AsyncBase._HOT, "readinto")

    async def readinto(self, *args: Any, **kwargs: Any) -> int:
        """Reads into a writable buffer, and returns how many bytes. 0 is the end of the file."""
        return await self._call("readinto", *args, **kwargs)

    def readable(self) -> bool:
        """Whether it can be read. (Not a coroutine, as there.)"""
        readable: bool = self._file.readable()
        return readable


class AsyncBufferedIOBase(_Binary):
    """A buffered binary file: what `open` gives for modes "wb", "ab" and "xb"."""

    _HOT: ClassVar[tuple[str, ...]] = (*_Binary._HOT, "read1")

    async def read1(self, *args: Any, **kwargs: Any) -> bytes:
        """Reads with at most one read of the file underneath."""
        return await self._call("read1", *args, **kwargs)

    @property
    def raw(self) -> Any:
        """The unbuffered file underneath. Files of proactor have none."""
        if is_native(self._file):
            raise nothing_underneath("raw")
        return self._file.raw


class AsyncBufferedReader(AsyncBufferedIOBase):
    """A buffered binary file that can be read: what `open` gives for mode "rb" and for those with a plus."""

    _HOT: ClassVar[tuple[str, ...]] = (*AsyncBufferedIOBase._HOT, "peek")

    async def peek(self, *args: Any, **kwargs: Any) -> bytes:
        """Bytes that come next, without going on. b"" is the end of the file."""
        return await self._call("peek", *args, **kwargs)


class AsyncFileIO(_Binary):
    """An unbuffered binary file: what `open` gives for binary modes and `buffering=0`."""

    _HOT: ClassVar[tuple[str, ...]] = (*_Binary._HOT, "readall")

    async def readall(self) -> bytes:
        """Reads to the end of the file."""
        return await self._call("readall")


class AsyncIndirectBufferedIOBase(AsyncIndirectBase[bytes], AsyncBufferedIOBase):
    """A buffered binary file that is looked up each time."""


class AsyncIndirectBufferedReader(AsyncIndirectBase[bytes], AsyncBufferedReader):
    """A buffered binary file that can be read, looked up each time."""


class AsyncIndirectFileIO(AsyncIndirectBase[bytes], AsyncFileIO):
    """An unbuffered binary file that is looked up each time."""
