"""Low-level contexts: submit, wait, cancel. No event loop needed.

::

    with proactor.aio.Context() as context:
        context.submit(proactor.aio.Read(file, 4096, offset=0))
        (event,) = context.wait()
        print(event.check(), bytes(event.data))
"""

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
    direct_alignment,
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
    "direct_alignment",
]
