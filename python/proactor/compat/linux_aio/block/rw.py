"""Blocks that move data: what they have in common, and the memory that they work on."""

from __future__ import annotations

import errno
import operator
from typing import TYPE_CHECKING, Any, ClassVar

from proactor.compat import _files
from proactor.compat.linux_aio.block.base import AIOBlock, Finish, os_error
from proactor.compat.linux_aio.iocb import IOCBPriorityClass, IOCBRWFlag

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["RWBlock"]

_OF_WRITES = IOCBRWFlag.DSYNC | IOCBRWFlag.SYNC | IOCBRWFlag.APPEND


class RWBlock(AIOBlock):
    """A block that moves data."""

    __slots__ = ("_offset", "_rw_flag")

    # For annotations: the types that the original takes. Any other contiguous buffer is welcome here, too.
    BUF_TYPE: ClassVar[Any]

    _OP: ClassVar[Any]
    _WRITES: ClassVar[bool]

    def __init__(
        self,
        file: Any,
        offset: int = 0,
        rw_flags: int = 0,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        super().__init__(file, priority_class, priority_value, res_fd)
        self.offset = offset
        self.rw_flag = rw_flags

    @property
    def offset(self) -> int:
        """Where in the file. Pipes and sockets have no offset and take any."""
        return self._offset

    @offset.setter
    def offset(self, offset: int) -> None:
        self._offset = operator.index(offset)

    @property
    def rw_flag(self) -> int:
        """`IOCBRWFlag` bits."""
        return self._rw_flag

    @rw_flag.setter
    def rw_flag(self, rw_flag: int) -> None:
        self._rw_flag = operator.index(rw_flag)

    def _flags(self) -> int:
        """What the kernel makes of them: those of writes do nothing to a read."""
        return self._rw_flag if self._WRITES else self._rw_flag & ~_OF_WRITES

    # What one buffer and several answer in their own ways (`non_vector.py`, `vector.py`).

    @property
    def buffer(self) -> Any:
        """The memory, as the user gave it."""
        raise NotImplementedError

    @classmethod
    def _like(cls, block: AIOBlock) -> AIOBlock:
        # Several buffers of none, or one that is empty. (A write's may be `bytes`, a read's may not.)
        make: Any = cls
        like: RWBlock = make(block.file, bytearray())
        like._rw_flag = block._rw_flag if isinstance(block, RWBlock) else 0
        like._flag = block._flag
        return like

    def _views(self) -> list[memoryview]:
        """The memory to work on."""
        raise NotImplementedError

    def _valid(self, count: int) -> Any:
        """The first `count` bytes of the buffer."""
        raise NotImplementedError

    def _ready(self) -> tuple[Any, int | None, list[memoryview], Finish | None]:
        """File, offset, memory, and what to do at the end."""
        file, _, flags = self._target()
        if not (_files.can_write if self._WRITES else _files.can_read)(flags):
            raise os_error(errno.EBADF)
        if self._offset < 0:
            raise os_error(errno.EINVAL)
        views = self._views()
        finish = None
        if _files.is_direct(flags):
            if self._WRITES:
                views = [view if _files.is_aligned(view) else _files.aligned_copy(view) for view in views]
            elif not all(map(_files.is_aligned, views)):
                users, views = views, [_files.aligned_copy(view) for view in views]
                lent = views

                def finish(count: int) -> None:
                    for user, copy in zip(users, lent, strict=True):
                        part = min(count, len(copy))
                        user[:part] = copy[:part]
                        count -= part

        return file, self._offset, views, finish


def _bytes_view(buffer: Buffer) -> memoryview:
    view = memoryview(buffer)
    if not view.c_contiguous:
        raise ValueError("the buffer must be contiguous")
    return _files.bytes_view(view)


class Memory:
    """A buffer as the user gave it, and the memory to work on.

    `bytes` and `str` cannot be read into: a read has memory of its own then, and shows it as `bytes`.
    """

    __slots__ = ("given", "own", "view")

    def __init__(self, given: Buffer | str, writes: bool) -> None:
        self.given: Any = given.encode() if isinstance(given, str) else given
        self.own: bool = not writes and isinstance(self.given, bytes)
        self.view: memoryview[int] = _bytes_view(bytearray(self.given) if self.own else self.given)
        if not writes and self.view.readonly:
            raise TypeError(f"cannot read into a read-only {type(given).__name__}")

    def shown(self) -> Any:
        return bytes(self.view) if self.own else self.given

    def valid(self, count: int) -> Any:
        part = self.view[:count]
        return bytearray(part) if isinstance(self.given, bytearray) else bytes(part)
