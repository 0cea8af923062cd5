"""Blocks: what to do to which file. One `proactor.aio` op is made of a block each time it is submitted.

A block may be changed or submitted again at any time; what is in flight already keeps the values it had.
"""

from __future__ import annotations

import errno
import operator
import os
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

from proactor import aio
from proactor.compat import _files
from proactor.compat.linux_aio.iocb import IOCBCMD, IOCBFlag, IOCBPriorityClass

__all__ = ["AIOBlock"]

# Called with the number of bytes done, before the user sees the event.
Finish: TypeAlias = Callable[[int], None]


def os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


class AIOBlock:
    """What every block has: a file, a priority, and an eventfd to signal. Not made directly."""

    __slots__ = (
        "__weakref__",
        "_deleted",
        "_file",
        "_fileno",
        "_flag",
        "_priority_class",
        "_priority_value",
        "_res_fd",
    )

    _CMD: ClassVar[IOCBCMD]
    _KINDS: ClassVar[dict[IOCBCMD, type[AIOBlock]]] = {}

    def __init_subclass__(cls) -> None:
        if "_CMD" in cls.__dict__:
            cls._KINDS[cls._CMD] = cls

    def __init__(
        self,
        file: Any,
        priority_class: int = IOCBPriorityClass.NONE,
        priority_value: int = 0,
        res_fd: int | None = 0,
    ) -> None:
        # Whether `change_cmd` has made another block of it.
        self._deleted = False
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
        """A block that does `new_cmd` to the same file; this one when it does so already. This one is
        dead then.

        A read and a write of as many buffers have these, offset and length in common. All others begin
        without buffers, at offset 0; those that move no data also without flags.
        """
        new_cmd = IOCBCMD(new_cmd)
        if new_cmd == self.cmd:
            return self
        block = self._KINDS[new_cmd]._like(self)
        block._priority_class, block._priority_value = self._priority_class, self._priority_value
        block._res_fd = self._res_fd
        self._deleted = True
        return block

    @classmethod
    def _like(cls, block: AIOBlock) -> AIOBlock:
        """A block of this kind, made of another."""
        return cls(block._file)

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
