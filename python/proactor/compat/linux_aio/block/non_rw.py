"""Blocks that move no data: syncs and polls."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from proactor import aio
from proactor.compat.linux_aio.block.base import AIOBlock, Finish
from proactor.compat.linux_aio.iocb import IOCBCMD, IOCBPriorityClass

__all__ = ["FDsyncBlock", "FsyncBlock", "NonRWBlock", "PollBlock"]

# POLLIN | POLLPRI | POLLOUT
_DEFAULT_EVENT_MASKS = 7


class NonRWBlock(AIOBlock):
    """A block that moves no data. It takes a priority, which the kernel has no use for."""

    __slots__ = ()


class _SyncBlock(NonRWBlock):
    __slots__ = ()

    _OP: ClassVar[Any]

    def _start(self) -> tuple[aio.Op, Finish | None]:
        file, _, _ = self._target()
        return self._OP(file, resfd=self._resfd()), None


class FsyncBlock(_SyncBlock):
    """Bring the file's data and metadata to its device."""

    __slots__ = ()
    _CMD = IOCBCMD.FSYNC
    _OP = aio.Fsync


class FDsyncBlock(_SyncBlock):
    """Bring the file's data to its device, and of its metadata what a read needs."""

    __slots__ = ()
    _CMD = IOCBCMD.FDSYNC
    _OP = aio.Fdatasync


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
