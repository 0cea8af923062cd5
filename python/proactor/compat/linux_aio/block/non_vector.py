"""Reads and writes of one buffer."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from proactor import aio
from proactor.compat.linux_aio.block.base import AIOBlock, Finish
from proactor.compat.linux_aio.block.rw import Memory, RWBlock
from proactor.compat.linux_aio.iocb import IOCBCMD, IOCBPriorityClass

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["NonVectorBlock", "ReadBlock", "WriteBlock"]


class NonVectorBlock(RWBlock):
    """A block with one buffer: any object with contiguous memory, or a `str`, taken as UTF-8."""

    __slots__ = ("_length", "_memory")

    BUF_TYPE = bytearray | bytes

    def __init__(
        self,
        file: Any,
        buffer: Buffer | str,
        offset: int = 0,
        length: int | None = None,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        super().__init__(file, offset, rw_flags, priority_class, priority_value, res_fd)
        self.buffer = buffer
        if length is not None:
            self.length = length
            self._views()

    @property
    def buffer(self) -> Any:
        """The object given; `bytes` for a `str`."""
        return self._memory.shown()

    @buffer.setter
    def buffer(self, buffer: Buffer | str) -> None:
        self._memory = Memory(buffer, self._WRITES)
        self._length = len(self._memory.view)

    @property
    def length(self) -> int:
        """How many of the buffer's bytes to move: all of them unless set."""
        return self._length

    @length.setter
    def length(self, length: int) -> None:
        # Looked at when the block is submitted: the buffer may be set after it.
        self._length = operator.index(length)

    @classmethod
    def _like(cls, block: AIOBlock) -> AIOBlock:
        like: Any = super()._like(block)
        if isinstance(block, NonVectorBlock):
            like.buffer, like.length, like.offset = block.buffer, block.length, block.offset
        return like  # type: ignore[no-any-return]

    def _views(self) -> list[memoryview]:
        if not 0 <= self._length <= len(self._memory.view):
            raise ValueError(f"length {self._length} is outside the buffer of {len(self._memory.view)} bytes")
        return [self._memory.view[: self._length]]

    def _valid(self, count: int) -> Any:
        return self._memory.valid(count)

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, offset, (view,), finish = self._ready()
        resfd, priority = self._resfd(), self._priority()
        return self._OP(file, view, offset, rw_flags=self._flags(), priority=priority, resfd=resfd), finish


class ReadBlock(NonVectorBlock):
    """Read into `buffer`."""

    __slots__ = ()
    _CMD = IOCBCMD.PREAD
    _OP = aio.Read
    _WRITES = False


class WriteBlock(NonVectorBlock):
    """Write `content`."""

    __slots__ = ()
    _CMD = IOCBCMD.PWRITE
    _OP = aio.Write
    _WRITES = True

    def __init__(
        self,
        file: Any,
        content: Buffer | str,
        offset: int = 0,
        length: int | None = None,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        super().__init__(file, content, offset, length, rw_flags, priority_class, priority_value, res_fd)
