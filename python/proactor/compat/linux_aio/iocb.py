"""The kernel's constants for Linux AIO (linux/aio_abi.h), under the names that `linux_aio_bind` has."""

from __future__ import annotations

from enum import IntEnum, IntFlag

__all__ = [
    "IOCBCMD",
    "IOPRIO_CLASS_SHIFT",
    "IOCBFlag",
    "IOCBPriorityClass",
    "IOCBRWFlag",
    "gen_io_priority",
]

IOPRIO_CLASS_SHIFT = 13


class IOCBCMD(IntEnum):
    """What a block asks for."""

    PREAD = 0
    PWRITE = 1
    FSYNC = 2
    FDSYNC = 3
    POLL = 5
    PREADV = 7
    PWRITEV = 8


class IOCBFlag(IntFlag):
    """Which of a block's optional fields count."""

    RESFD = 1
    IOPRIO = 2


class IOCBRWFlag(IntFlag):
    """The RWF_ flags of preadv2(2) and pwritev2(2)."""

    HIPRI = 1
    DSYNC = 2
    SYNC = 4
    NOWAIT = 8
    APPEND = 16


class IOCBPriorityClass(IntEnum):
    """The scheduling classes of ioprio_set(2)."""

    NONE = 0
    RT = 1
    BE = 2
    IDLE = 3


def gen_io_priority(priority_class: IOCBPriorityClass, priority: int) -> int:
    """A class and a value as the one number that the kernel takes."""
    return (priority_class << IOPRIO_CLASS_SHIFT) | priority
