"""The public names of linux_aio 0.4 over `proactor.aio`, on whatever engine this machine has.

Followed: contexts, blocks and events, their signatures, defaults, properties and the errno of what they
refuse; a prefix is accepted and counted; a block may be submitted again, also while it is in flight; one
that `change_cmd` has made another of is dead; a context takes as many blocks as the kernel's own,
belongs to all threads, and waits as there: without a timeout as long as it takes, and until a signal's
handler has run. From `linux_aio_bind`: the flags, priorities and commands, in `iocb`. Not its ctypes
layer.

Different on purpose, in what there blocks, is refused or corrupts memory:
- It is on the kernel's AIO where that can be had, else on threads; `engine` names another. A context on
  "io_uring" is
  for the thread that made it, and never waits for more events than are in flight.
- A read of an empty pipe or socket, or of a file that is not cached, does not block `submit`.
- Blocks in flight are done in any order, also those that overlap. There `submit` does those of files
  without O_DIRECT one after the other: here wait for a write's event before what depends on it.
- Buffers may be any object with contiguous memory, mmap and memoryview too. O_DIRECT needs no alignment.
- `bytes` and `str` given to a read are never written to, as nothing may change them: the block has
  memory of its own, seen through its `buffer`, that of the event, and `stripped_buffer`. There the
  object itself is changed.
- A read of a pipe or socket can be cancelled, too.
- `stripped_buffer()` of several buffers is the part that was moved, and not a NotImplementedError.
- A `length` beyond the buffer is a ValueError; there the kernel writes past its end.
- What only the file can refuse, such as reading a directory, is an event and not an error of `submit`.
- A block that `change_cmd` gives has all of its attributes; there some are missing until they are set.
"""

from __future__ import annotations

from proactor.compat.linux_aio.aio_context import AIOContext
from proactor.compat.linux_aio.aio_event import AIOEvent
from proactor.compat.linux_aio.block import (
    AIOBlock,
    FDsyncBlock,
    FsyncBlock,
    PollBlock,
    ReadBlock,
    ReadVBlock,
    WriteBlock,
    WriteVBlock,
)
from proactor.compat.linux_aio.iocb import (
    IOCBCMD,
    IOPRIO_CLASS_SHIFT,
    IOCBFlag,
    IOCBPriorityClass,
    IOCBRWFlag,
    gen_io_priority,
)

__all__ = [
    "IOCBCMD",
    "IOPRIO_CLASS_SHIFT",
    "AIOBlock",
    "AIOContext",
    "AIOEvent",
    "FDsyncBlock",
    "FsyncBlock",
    "IOCBFlag",
    "IOCBPriorityClass",
    "IOCBRWFlag",
    "PollBlock",
    "ReadBlock",
    "ReadVBlock",
    "WriteBlock",
    "WriteVBlock",
    "gen_io_priority",
]
