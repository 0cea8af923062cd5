"""Reads and writes of several buffers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from proactor import aio
from proactor.compat.linux_aio.block.base import AIOBlock, Finish
from proactor.compat.linux_aio.block.rw import Memory, RWBlock
from proactor.compat.linux_aio.iocb import IOCBCMD, IOCBPriorityClass

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ReadVBlock", "VectorBlock", "WriteVBlock"]


class VectorBlock(RWBlock):
    """A block with several buffers, filled or written in order."""

    __slots__ = ("_memories",)

    BUF_TYPE = tuple[bytearray | bytes, ...]

    def __init__(
        self,
        file: Any,
        buffer_list: Iterable[Buffer],
        offset: int = 0,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        super().__init__(file, offset, rw_flags, priority_class, priority_value, res_fd)
        self.buffer = buffer_list

    @property
    def buffer(self) -> Any:
        """The objects given, as a tuple."""
        return tuple(memory.shown() for memory in self._memories)

    @buffer.setter
    def buffer(self, buffers: Iterable[Buffer]) -> None:
        self._memories = [Memory(buffer, self._WRITES) for buffer in buffers]

    @classmethod
    def _like(cls, block: AIOBlock) -> AIOBlock:
        like: Any = super()._like(block)
        if isinstance(block, VectorBlock):
            like.buffer, like.offset = block.buffer, block.offset
        return like  # type: ignore[no-any-return]

    def _views(self) -> list[memoryview]:
        return [memory.view for memory in self._memories]

    def _valid(self, count: int) -> Any:
        return b"".join(self._views())[:count]

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, offset, views, finish = self._ready()
        resfd, priority = self._resfd(), self._priority()
        return self._OP(file, views, offset, rw_flags=self._flags(), priority=priority, resfd=resfd), finish


class ReadVBlock(VectorBlock):
    """Read into several buffers, one after the other."""

    __slots__ = ()
    _CMD = IOCBCMD.PREADV
    _OP = aio.ReadV
    _WRITES = False


class WriteVBlock(VectorBlock):
    """Write several buffers, one after the other."""

    __slots__ = ()
    _CMD = IOCBCMD.PWRITEV
    _OP = aio.WriteV
    _WRITES = True

    def __init__(
        self,
        file: Any,
        content_list: Iterable[Buffer],
        offset: int = 0,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        super().__init__(file, content_list, offset, rw_flags, priority_class, priority_value, res_fd)
