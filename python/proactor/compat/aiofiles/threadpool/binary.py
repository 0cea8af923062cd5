"""Binary files."""

from __future__ import annotations

from collections.abc import Callable
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
    async def readinto(self, *args: Any, **kwargs: Any) -> int:
        """Reads into a writable buffer, and returns how many bytes. 0 is the end of the file."""
        return await self._call("readinto", *args, **kwargs)

    _HOT: ClassVar[dict[str, Callable[..., Any]]] = {**AsyncBase._HOT, "readinto": readinto}

    def readable(self) -> bool:
        """Whether it can be read. (Not a coroutine, as there.)"""
        readable: bool = self._file.readable()
        return readable


class AsyncBufferedIOBase(_Binary):
    """A buffered binary file: what `open` gives for modes "wb", "ab" and "xb"."""

    async def read1(self, *args: Any, **kwargs: Any) -> bytes:
        """Reads with at most one read of the file underneath."""
        return await self._call("read1", *args, **kwargs)

    _HOT: ClassVar[dict[str, Callable[..., Any]]] = {**_Binary._HOT, "read1": read1}

    @property
    def raw(self) -> Any:
        """The unbuffered file underneath. Files of proactor have none."""
        if is_native(self._file):
            raise nothing_underneath("raw")
        return self._file.raw


class AsyncBufferedReader(AsyncBufferedIOBase):
    """A buffered binary file that can be read: what `open` gives for mode "rb" and for those with a plus."""

    async def peek(self, *args: Any, **kwargs: Any) -> bytes:
        """Bytes that come next, without going on. b"" is the end of the file."""
        return await self._call("peek", *args, **kwargs)

    _HOT: ClassVar[dict[str, Callable[..., Any]]] = {**AsyncBufferedIOBase._HOT, "peek": peek}


class AsyncFileIO(_Binary):
    """An unbuffered binary file: what `open` gives for binary modes and `buffering=0`."""

    async def readall(self) -> bytes:
        """Reads to the end of the file."""
        return await self._call("readall")

    _HOT: ClassVar[dict[str, Callable[..., Any]]] = {**_Binary._HOT, "readall": readall}


class AsyncIndirectBufferedIOBase(AsyncIndirectBase[bytes], AsyncBufferedIOBase):
    """A buffered binary file that is looked up each time."""


class AsyncIndirectBufferedReader(AsyncIndirectBase[bytes], AsyncBufferedReader):
    """A buffered binary file that can be read, looked up each time."""


class AsyncIndirectFileIO(AsyncIndirectBase[bytes], AsyncFileIO):
    """An unbuffered binary file that is looked up each time."""
