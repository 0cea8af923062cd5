"""Text files."""

from __future__ import annotations

from typing import Any

from proactor.compat.aiofiles.base import AsyncBase, AsyncIndirectBase

__all__ = ["AsyncTextIOWrapper", "AsyncTextIndirectIOWrapper"]


class AsyncTextIOWrapper(AsyncBase[str]):
    """A text file: what `open` gives for text modes."""

    async def readable(self) -> bool:
        """Whether it can be read. (A coroutine, as there, though a binary file's is none.)"""
        return await self._call("readable")

    @property
    def buffer(self) -> Any:
        """The binary file underneath: `proactor.BinaryFile`, or the standard library's with an executor."""
        return self._file.buffer

    @property
    def encoding(self) -> str:
        """The name of the encoding."""
        encoding: str = self._file.encoding
        return encoding

    @property
    def errors(self) -> str | None:
        """The name of the error handler."""
        errors: str | None = self._file.errors
        return errors

    @property
    def line_buffering(self) -> bool:
        """Whether a line end brings what was written to the kernel."""
        line_buffering: bool = self._file.line_buffering
        return line_buffering

    @property
    def newlines(self) -> Any:
        """The kinds of line ends seen so far: None, a string or a tuple."""
        return self._file.newlines


class AsyncTextIndirectIOWrapper(AsyncIndirectBase[str], AsyncTextIOWrapper):
    """A text file that is looked up each time."""
