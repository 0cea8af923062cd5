"""Calls that no op does: the standard library's functions, in threads of our own.

Never in the loop's default executor, which belongs to the program. Each loop has a pool of its own, whose
threads end when the loop has been collected.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
T = TypeVar("T")

# They wait for disks and not for processors. More would only queue up in the kernel.
MOST_THREADS = 16

_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()
# A child of fork has none of its parent's threads, and its pools would wait for them.
os.register_at_fork(after_in_child=_pools.clear)


def submit(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """Starts a call in a thread of the running loop's pool, with the caller's context variables."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="proactor")
    return pool.submit(partial(copy_context().run, function, *args, **kwargs))


def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
    """Starts a call in a thread, with the caller's context variables.

    Cancelled before a thread has taken it, it is never made. Later it runs to its end, unheard.
    """
    return asyncio.wrap_future(submit(function, *args, **kwargs))


def finish(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
    """As `run`, and the call is made and runs to its end whatever becomes of the caller."""
    return asyncio.shield(run(function, *args, **kwargs))


async def make(function: Callable[[], T], undo: Callable[[T], object]) -> T:
    """What a call in a thread gives. If its caller is gone by then, `undo` gets it instead."""
    made = submit(function)
    try:
        return await asyncio.wrap_future(made)
    except BaseException:
        # In the thread, or here if it is done already.
        if not made.cancel():
            made.add_done_callback(partial(_undo, undo))
        raise


def _undo(undo: Callable[[T], object], made: Future[T]) -> None:
    if not made.cancelled() and made.exception() is None:
        undo(made.result())


def threaded(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """A coroutine function that does what `function` does, in a thread."""

    @wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run(function, *args, **kwargs)

    return call
