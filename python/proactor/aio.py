"""Low-level contexts: submit ops, wait for their events. No event loop is needed.

    from proactor import aio

    with aio.Context() as context, open("data", "rb") as file:
        context.submit(aio.Read(file, 4096, offset=0))
        for event in context.wait():
            event.check()
            print(bytes(event.data))

A context belongs to the thread that made it; several threads have one each. An op pins its buffers from
`submit` until its event: nothing is copied, and nothing else may resize or free them meanwhile.
"""

from __future__ import annotations

from proactor._native import (
    RWF_APPEND,
    RWF_DSYNC,
    RWF_HIPRI,
    RWF_NOWAIT,
    RWF_SYNC,
    CancelOutcome,
    Context,
    Event,
    Fdatasync,
    Fsync,
    Op,
    Poll,
    Priority,
    PriorityClass,
    Read,
    ReadV,
    Write,
    WriteV,
    aligned,
)

__all__ = [
    "RWF_APPEND",
    "RWF_DSYNC",
    "RWF_HIPRI",
    "RWF_NOWAIT",
    "RWF_SYNC",
    "CancelOutcome",
    "Context",
    "Event",
    "Fdatasync",
    "Fsync",
    "Op",
    "Poll",
    "Priority",
    "PriorityClass",
    "Read",
    "ReadV",
    "Write",
    "WriteV",
    "aligned",
]
