"""Blocks: what to do to which file. One `proactor.aio` op is made of a block each time it is submitted.

A block may be changed or submitted again at any time; what is in flight already keeps the values it had.
"""

from __future__ import annotations

import errno
import operator
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from proactor import aio
from proactor.compat import _files
from proactor.compat.linux_aio.iocb import IOCBCMD, IOCBFlag, IOCBPriorityClass

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = [
    "AIOBlock",
    "FDsyncBlock",
    "FsyncBlock",
    "NonRWBlock",
    "NonVectorBlock",
    "PollBlock",
    "RWBlock",
    "ReadBlock",
    "ReadVBlock",
    "VectorBlock",
    "WriteBlock",
    "WriteVBlock",
]

# Called with the number of bytes done, before the user sees the event.
Finish: TypeAlias = Callable[[int], None]

# POLLIN | POLLPRI | POLLOUT
_DEFAULT_EVENT_MASKS = 7


def os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class AIOBlock:
    """What every block has: a file, a priority, and an eventfd to signal. Not made directly."""

    __slots__ = ("__weakref__", "_file", "_fileno", "_flag", "_priority_class", "_priority_value", "_res_fd")

    _CMD: ClassVar[IOCBCMD]

    def __init__(self, file: Any, priority_class: int, priority_value: int, res_fd: int | None) -> None:
        self._flag = 0
        self._priority_class = int(IOCBPriorityClass.NONE)
        self._priority_value = 0
        self._res_fd = 0
        self.file = file
        if priority_class != IOCBPriorityClass.NONE or priority_value:
            self.set_priority(priority_class, priority_value)
        if res_fd:
            self.res_fd = res_fd

    @property
    def cmd(self) -> IOCBCMD:
        """The kernel's name for what this block does."""
        return self._CMD

    @property
    def file(self) -> Any:
        """The object or descriptor given."""
        return self._file

    @file.setter
    def file(self, file: Any) -> None:
        if not isinstance(file, int) and not hasattr(file, "fileno"):
            raise AttributeError(f"`file` must be an int or an object with a fileno() method, not {file!r}")
        self._fileno = file if isinstance(file, int) else int(file.fileno())
        self._file = file

    @property
    def fileno(self) -> int:
        """The file's descriptor when it was given."""
        return self._fileno

    @property
    def flag(self) -> int:
        """`IOCBFlag` bits: whether `res_fd` and the priority count."""
        return self._flag

    @flag.setter
    def flag(self, flag: int) -> None:
        self._flag = operator.index(flag)
        if not self._flag & IOCBFlag.RESFD:
            self._res_fd = 0

    @property
    def priority_class(self) -> int:
        """An `IOCBPriorityClass`."""
        return self._priority_class

    @priority_class.setter
    def priority_class(self, priority_class: int) -> None:
        self.set_priority(priority_class, self._priority_value)

    @property
    def priority_value(self) -> int:
        """0 (highest) to 7 within the class."""
        return self._priority_value

    @priority_value.setter
    def priority_value(self, priority_value: int) -> None:
        self.set_priority(self._priority_class, priority_value)

    def set_priority(self, io_class: int, priority: int) -> None:
        """Set class and value at once."""
        self._priority_class = operator.index(io_class)
        self._priority_value = operator.index(priority)
        self._flag |= IOCBFlag.IOPRIO

    @property
    def res_fd(self) -> int | None:
        """An eventfd that is signalled when this block is done."""
        return self._res_fd or None

    @res_fd.setter
    def res_fd(self, res_fd: int | None) -> None:
        self._res_fd = 0 if res_fd is None else operator.index(res_fd)
        if self._res_fd:
            self._flag |= IOCBFlag.RESFD
        else:
            self._flag &= ~IOCBFlag.RESFD

    def change_cmd(self, new_cmd: IOCBCMD) -> AIOBlock:
        """A block that does `new_cmd` with what both have in common; this one when it does so already."""
        new_cmd = IOCBCMD(new_cmd)
        if new_cmd == self.cmd:
            return self
        kind = _KINDS[new_cmd]
        block: AIOBlock
        if issubclass(kind, RWBlock):
            block = kind(self._file, self._buffers_for(kind), self._offset_or_zero())
        else:
            block = kind(self._file)
        block._priority_class, block._priority_value = self._priority_class, self._priority_value
        block._res_fd, block._flag = self._res_fd, self._flag
        return block

    def _buffers_for(self, kind: type[RWBlock]) -> Any:
        return [] if issubclass(kind, VectorBlock) else bytearray()

    def _offset_or_zero(self) -> int:
        return 0

    # For AIOContext

    def _start(self) -> tuple[aio.Op, Finish | None]:
        """A fresh op for this block. OSError where io_submit(2) would say so at once."""
        raise NotImplementedError

    def _target(self) -> tuple[Any, int, int]:
        """The file, its descriptor and its status flags, all as they are now."""
        try:
            fd = self._file if isinstance(self._file, int) else int(self._file.fileno())
        except ValueError:  # a closed file object
            raise os_error(errno.EBADF) from None
        if fd < 0:
            raise os_error(errno.EBADF)
        return self._file, fd, _files.status_flags(fd)

    def _resfd(self) -> int | None:
        return self._res_fd if self._flag & IOCBFlag.RESFD else None

    def _priority(self) -> aio.Priority | None:
        if not self._flag & IOCBFlag.IOPRIO:
            return None
        cls = aio.PriorityClass(self._priority_class)
        # The kernel gives IDLE no levels and takes any value with it.
        return aio.Priority(cls, 0 if cls == aio.PriorityClass.IDLE else self._priority_value)


class RWBlock(AIOBlock):
    """A block that moves data."""

    __slots__ = ("_offset", "_rw_flag")

    _WRITES: ClassVar[bool]

    def __init__(
        self,
        file: Any,
        offset: int,
        rw_flags: int,
        priority_class: int,
        priority_value: int,
        res_fd: int | None,
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

    @property
    def buffer(self) -> Any:
        """The memory, as the user gave it."""
        raise NotImplementedError

    def _offset_or_zero(self) -> int:
        return self._offset

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
    return view.cast("B")


class _Memory:
    """A buffer as the user gave it, and the memory to work on.

    `bytes` and `str` cannot be read into: a read has memory of its own then, and shows it as `bytes`.
    """

    __slots__ = ("given", "own", "view")

    def __init__(self, given: Buffer | str, writes: bool) -> None:
        self.given: Any = given.encode() if isinstance(given, str) else given
        self.own = not writes and isinstance(self.given, bytes)
        self.view = _bytes_view(bytearray(self.given) if self.own else self.given)
        if not writes and self.view.readonly:
            raise TypeError(f"cannot read into a read-only {type(given).__name__}")

    def shown(self) -> Any:
        return bytes(self.view) if self.own else self.given

    def valid(self, count: int) -> Any:
        part = self.view[:count]
        return bytearray(part) if isinstance(self.given, bytearray) else bytes(part)


class NonVectorBlock(RWBlock):
    """A block with one buffer: any object with contiguous memory, or a `str`, taken as UTF-8."""

    __slots__ = ("_length", "_memory")

    def __init__(
        self,
        file: Any,
        buffer: Buffer | str,
        offset: int,
        length: int | None,
        rw_flags: int,
        priority_class: int,
        priority_value: int,
        res_fd: int | None,
    ) -> None:
        super().__init__(file, offset, rw_flags, priority_class, priority_value, res_fd)
        self.buffer = buffer
        if length is not None:
            self.length = length

    @property
    def buffer(self) -> Any:
        """The object given; `bytes` for a `str`."""
        return self._memory.shown()

    @buffer.setter
    def buffer(self, buffer: Buffer | str) -> None:
        self._memory = _Memory(buffer, self._WRITES)
        self._length = len(self._memory.view)

    @property
    def length(self) -> int:
        """How many of the buffer's bytes to move: all of them unless set."""
        return self._length

    @length.setter
    def length(self, length: int) -> None:
        length = operator.index(length)
        if not 0 <= length <= len(self._memory.view):
            raise ValueError(f"length {length} is outside the buffer of {len(self._memory.view)} bytes")
        self._length = length

    def _buffers_for(self, kind: type[RWBlock]) -> Any:
        return [self.buffer] if issubclass(kind, VectorBlock) else self.buffer

    def _views(self) -> list[memoryview]:
        return [self._memory.view[: self._length]]

    def _valid(self, count: int) -> Any:
        return self._memory.valid(count)


class VectorBlock(RWBlock):
    """A block with several buffers, filled or written in order."""

    __slots__ = ("_memories",)

    def __init__(
        self,
        file: Any,
        buffer: Iterable[Buffer],
        offset: int,
        rw_flags: int,
        priority_class: int,
        priority_value: int,
        res_fd: int | None,
    ) -> None:
        super().__init__(file, offset, rw_flags, priority_class, priority_value, res_fd)
        self.buffer = buffer

    @property
    def buffer(self) -> Any:
        """The objects given, as a tuple."""
        return tuple(memory.shown() for memory in self._memories)

    @buffer.setter
    def buffer(self, buffers: Iterable[Buffer]) -> None:
        self._memories = [_Memory(buffer, self._WRITES) for buffer in buffers]

    def _buffers_for(self, kind: type[RWBlock]) -> Any:
        if issubclass(kind, VectorBlock):
            return self.buffer
        if len(self._memories) > 1:
            raise ValueError(f"{len(self._memories)} buffers do not fit into a block with one")
        return self.buffer[0] if self._memories else bytearray()

    def _views(self) -> list[memoryview]:
        return [memory.view for memory in self._memories]

    def _valid(self, count: int) -> Any:
        return b"".join(self._views())[:count]


class ReadBlock(NonVectorBlock):
    """Read into `buffer`."""

    __slots__ = ()
    _CMD = IOCBCMD.PREAD
    _WRITES = False

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
        super().__init__(file, buffer, offset, length, rw_flags, priority_class, priority_value, res_fd)

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, offset, (view,), finish = self._ready()
        resfd, priority = self._resfd(), self._priority()
        return aio.Read(file, view, offset, rw_flags=self._rw_flag, priority=priority, resfd=resfd), finish


class WriteBlock(NonVectorBlock):
    """Write `content`."""

    __slots__ = ()
    _CMD = IOCBCMD.PWRITE
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

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, offset, (view,), finish = self._ready()
        resfd, priority = self._resfd(), self._priority()
        return aio.Write(file, view, offset, rw_flags=self._rw_flag, priority=priority, resfd=resfd), finish


class ReadVBlock(VectorBlock):
    """Read into several buffers, one after the other."""

    __slots__ = ()
    _CMD = IOCBCMD.PREADV
    _WRITES = False

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
        super().__init__(file, buffer_list, offset, rw_flags, priority_class, priority_value, res_fd)

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, offset, views, finish = self._ready()
        resfd, priority = self._resfd(), self._priority()
        return aio.ReadV(file, views, offset, rw_flags=self._rw_flag, priority=priority, resfd=resfd), finish


class WriteVBlock(VectorBlock):
    """Write several buffers, one after the other."""

    __slots__ = ()
    _CMD = IOCBCMD.PWRITEV
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

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, offset, views, finish = self._ready()
        resfd, priority = self._resfd(), self._priority()
        return aio.WriteV(file, views, offset, rw_flags=self._rw_flag, priority=priority, resfd=resfd), finish


class NonRWBlock(AIOBlock):
    """A block that moves no data. It takes a priority, which the kernel has no use for."""

    __slots__ = ()


class FsyncBlock(NonRWBlock):
    """Bring the file's data and metadata to its device."""

    __slots__ = ()
    _CMD = IOCBCMD.FSYNC

    def __init__(
        self,
        file: Any,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        super().__init__(file, priority_class, priority_value, res_fd)

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, _, _ = self._target()
        return aio.Fsync(file, resfd=self._resfd()), None


class FDsyncBlock(NonRWBlock):
    """Bring the file's data to its device, and of its metadata what a read needs."""

    __slots__ = ()
    _CMD = IOCBCMD.FDSYNC

    def __init__(
        self,
        file: Any,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        super().__init__(file, priority_class, priority_value, res_fd)

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, _, _ = self._target()
        return aio.Fdatasync(file, resfd=self._resfd()), None


class PollBlock(NonRWBlock):
    """Wait once until the file is ready for one of `event_masks` (POLLIN and so on)."""

    __slots__ = ("_event_masks",)
    _CMD = IOCBCMD.POLL

    def __init__(
        self,
        file: Any,
        event_masks: int | None = None,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        super().__init__(file, priority_class, priority_value, res_fd)
        self.event_masks = _DEFAULT_EVENT_MASKS if event_masks is None else event_masks

    @property
    def event_masks(self) -> int:
        """The POLL bits to wait for."""
        return self._event_masks

    @event_masks.setter
    def event_masks(self, event_masks: int) -> None:
        self._event_masks = operator.index(event_masks)

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, _, _ = self._target()
        return aio.Poll(file, self._event_masks, resfd=self._resfd()), None


_KINDS: dict[IOCBCMD, Any] = {
    kind._CMD: kind
    for kind in (ReadBlock, WriteBlock, ReadVBlock, WriteVBlock, FsyncBlock, FDsyncBlock, PollBlock)
}
