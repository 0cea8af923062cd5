"""The public names of linux_aio 0.4 over `proactor.aio`, on whatever engine this machine has.

Followed: contexts, blocks and events, their signatures, defaults, properties and the errno of what they
refuse; a prefix is accepted and counted; a block may be submitted again, also while it is in flight.
From `linux_aio_bind`: the flags, priorities and commands. Not its ctypes layer.

Different on purpose:
- `get_events(..., timeout_ns)` has None as its default, which waits. 0 polls; there it waits for ever.
- It never waits for more events than are in flight, and goes on after a signal's handler has run.
- A read of an empty pipe or socket does not block `submit`.
- Buffers may be any object with contiguous memory, mmap and memoryview too. `bytes` and `str` given to a
  read are not written to: the block has memory of its own, seen through `buffer`.
- O_DIRECT needs no aligned buffers; data passes through aligned memory where the user's is not.
- `cancel` returns the event of a block it stopped. There a success is an EINPROGRESS.
- `stripped_buffer()` is the part that was moved. There it also drops NULs that are in the file, keeps what a
  short read left in the buffer, and refuses vectors.
- A `length` beyond the buffer is a ValueError; there the kernel writes past its end.
- A context is used by the thread that made it: a RuntimeError in any other. There any thread may use it.
- `max_jobs` is exact; there the kernel rounds it up to a hundred or more.
- What only the file can refuse, such as reading a directory, is an event and not an error of `submit`.
- `change_cmd` gives a complete block and leaves the old one as it is.
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
