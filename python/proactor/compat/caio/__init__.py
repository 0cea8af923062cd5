"""The public names of caio 0.12 over `proactor.aio`: the raw variants and `AsyncioContext`.

    from proactor.compat.caio import AsyncioContext  # was: from caio import AsyncioContext

Followed: the modules of variants and their `*_asyncio` partners, `CAIO_IMPL`, signatures and defaults,
one-shot operations with a callback and `get_value`, `fileno` as a property, `thread_aio`'s callbacks from
another thread.

Different on purpose:
- Every variant of `AsyncioContext` works in the event loop's thread, by proactor's engine of that name.
- A raw context with a `fileno` is used by the thread that made it: a RuntimeError in any other.
- Any contiguous buffer can be written, not only `bytes`.
- A failure is an OSError with its errno that is a SystemError too, and comes from `get_value` or the await.
  There it is a SystemError, ValueError or OSError by variant, and may come from `submit`. What cannot be
  submitted at all, such as a negative offset, is a ValueError.
- The callback's argument is -errno for a failure in every variant; there also -1 and None.
- What a callback raises goes to `sys.excepthook`; there to `sys.unraisablehook` or `threading.excepthook`. In
  a context with a `fileno` the first KeyboardInterrupt, SystemExit or the like comes out of `process_events`
  or `close` instead, after the other callbacks, so that Ctrl-C ends the program.
- Pipes and sockets work and do not block; their offset is ignored.
- O_DIRECT works: reads have aligned memory, writes pass through it.
- `cancel` takes any number of operations and counts those that will end with ECANCELED.
- A cancelled await does not free its slot before the operation is done.
- An awaited read that is cached is done in place. Those of one loop share a millisecond of each of its turns.
- `linux_uring_asyncio` has a kernel thread poll the queue (`sqpoll`) only if asked to; there also by default,
  where it may. Such a thread burns a core beside a program that mostly waits.
- `close` ends what is in flight and wakes every awaiter; there they wait for ever. Every context has it.
- `submit` takes what there is room for. There some variants start a part and raise all the same.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from proactor.compat.caio import (
    linux_aio,
    linux_aio_asyncio,
    linux_uring,
    linux_uring_asyncio,
    python_aio,
    python_aio_asyncio,
    thread_aio,
    thread_aio_asyncio,
)
from proactor.compat.caio.abstract import AbstractContext, AbstractOperation
from proactor.compat.caio.asyncio_base import AsyncioContextBase
from proactor.compat.caio.context import QueueContext
from proactor.compat.caio.operation import Operation

__all__ = [
    "AbstractContext",
    "AbstractOperation",
    "AsyncioContext",
    "Context",
    "Operation",
    "__author__",
    "__version__",
    "linux_aio",
    "linux_aio_asyncio",
    "linux_uring",
    "linux_uring_asyncio",
    "python_aio",
    "python_aio_asyncio",
    "thread_aio",
    "thread_aio_asyncio",
    "variants",
    "variants_asyncio",
]

__author__ = "The proactor developers"
# The version of caio that this follows.
__version__ = "0.12.10"

_MODULES: dict[str, tuple[ModuleType, ModuleType]] = {
    "uring": (linux_uring, linux_uring_asyncio),
    "linux": (linux_aio, linux_aio_asyncio),
    "thread": (thread_aio, thread_aio_asyncio),
    "python": (python_aio, python_aio_asyncio),
}


class _AutomaticContext(QueueContext):
    """On proactor's own choice of engine."""


class _AutomaticAsyncioContext(AsyncioContextBase):
    """On proactor's own choice of engine."""

    CONTEXT_CLASS: ClassVar[type[AbstractContext]] = _AutomaticContext
    _LOOP_CONTEXT = _AutomaticContext


if TYPE_CHECKING:
    Context = _AutomaticContext
    AsyncioContext = _AutomaticAsyncioContext
    variants: tuple[ModuleType, ...]
    variants_asyncio: tuple[ModuleType, ...]
else:
    _chosen = _MODULES.get(os.environ.get("CAIO_IMPL", ""))
    Context = _chosen[0].Context if _chosen else _AutomaticContext
    AsyncioContext = _chosen[1].AsyncioContext if _chosen else _AutomaticAsyncioContext


def __getattr__(name: str) -> Any:
    # Asking which engines work here costs a ring and a kernel context: only on demand.
    if name not in ("variants", "variants_asyncio"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import proactor

    usable = proactor.engines()
    at = 1 if name == "variants_asyncio" else 0
    found = tuple(pair[at] for pair in _MODULES.values() if pair[0].Context.ENGINE in usable)
    globals()[name] = found
    return found
