"""What the compat packages must know of a descriptor before they submit: its mode.

O_DIRECT needs aligned memory, which their users do not have: copies stand in.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from typing import TYPE_CHECKING

from proactor import aio

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Every device and file system known accepts memory aligned to a page.
DIRECT_ALIGNMENT_BYTES = 4096


def status_flags(fd: int) -> int:
    """The open file's status flags; OSError(EBADF) when it is not open."""
    return fcntl.fcntl(fd, fcntl.F_GETFL)


def can_read(flags: int) -> bool:
    return flags & os.O_ACCMODE != os.O_WRONLY


def can_write(flags: int) -> bool:
    return flags & os.O_ACCMODE != os.O_RDONLY


def is_direct(flags: int) -> bool:
    return bool(flags & os.O_DIRECT)


def is_aligned(buffer: Buffer) -> bool:
    """Whether a writable buffer's memory suits O_DIRECT. A read-only one has no address to ask for: False."""
    view = memoryview(buffer)
    if view.readonly or not view.nbytes:
        return False
    return ctypes.addressof(ctypes.c_char.from_buffer(view)) % DIRECT_ALIGNMENT_BYTES == 0


def bytes_view(buffer: Buffer) -> memoryview:
    """A contiguous buffer's memory as bytes."""
    view = memoryview(buffer)
    # `cast` refuses a zero in the shape.
    return view.cast("B") if view.nbytes else memoryview(b"" if view.readonly else bytearray())


def aligned_copy(data: Buffer) -> memoryview:
    """Aligned memory with the same content."""
    source = bytes_view(data)
    copy = aio.aligned(source.nbytes, DIRECT_ALIGNMENT_BYTES)
    copy[:] = source
    return copy
