"""Calls that no op does: the standard library's functions, in threads of our own.

Never in the loop's default executor, which belongs to the program. Each loop has a pool of its own, whose
threads end when the loop has been collected.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from proactor._threads import Threads, start_alone

P = ParamSpec("P")
T = TypeVar("T")

# They wait for disks and not for processors. More would only queue up in the kernel.
MOST_THREADS = 16

_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Threads] = WeakKeyDictionary()


def _forget() -> None:
    """A child of fork has none of its parent's threads, and its pools would wait for them."""
    for pool in _pools.values():
        pool.forget()
    _pools.clear()


os.register_at_fork(after_in_child=_forget)


def _pool() -> tuple[asyncio.AbstractEventLoop, Threads]:
    """The running loop, and its threads."""
    loop = asyncio.get_running_loop()
    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = Threads(MOST_THREADS, "proactor")
    return loop, pool


def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Starts a call in a thread, with the caller's context variables.

    Cancelled before a thread has taken it, it is never made. Later it runs to its end, unheard.
    """
    loop, pool = _pool()
    future: asyncio.Future[T] = loop.create_future()
    call = partial(copy_context().run, function, *args, **kwargs)
    pool.put(partial(_perform, [loop, future, call]))
    return future


async def call(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """`run` as a coroutine: nothing begins before it is awaited."""
    return await run(function, *args, **kwargs)


def _perform(job: list[Any]) -> None:
    """What a thread does. (`run_in_executor` makes a future more, and logs if the loop is closed by now.)"""
    loop: asyncio.AbstractEventLoop
    loop, future, call = job
    # An error's traceback leads to this frame and those below it, which must not lead to the error.
    job.clear()
    if future.cancelled():
        return
    try:
        settle = partial(_settle, future, future.set_result, call())
    except StopIteration as error:
        settle = partial(_settle, future, future.set_exception, _not_a_stop(error))
    except BaseException as error:
        settle = partial(_settle, future, future.set_exception, error)
    # Before the caller goes on: an object whose method it was is the caller's alone by then.
    del call
    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        # The loop is closed: nobody waits any more.
        if not loop.is_closed():
            raise
    finally:
        del future, settle, loop


def _not_a_stop(error: StopIteration) -> RuntimeError:
    """A future refuses it, and its waiter would wait for ever. What a generator that raises it gets."""
    instead = RuntimeError("a call in a thread raised StopIteration")
    instead.__cause__ = error
    return instead


def _settle(future: asyncio.Future[T], how: Callable[[Any], None], value: object) -> None:
    if not future.cancelled():
        how(value)


def alone(function: Callable[[], T]) -> asyncio.Future[T]:
    """As `run`, in a thread for this call only: one that takes minutes would keep others from the pool."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    start_alone(partial(_perform, [loop, future, function]), "proactor-alone")
    return future


def submit(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
    """As `run`, with a future of threads: it tells whether a thread has taken the call."""
    future: Future[T] = Future()
    _pool()[1].put(partial(_called, [future, partial(copy_context().run, function, *args, **kwargs)]))
    return future


def _called(job: list[Any]) -> None:
    future, call = job
    # As in `_perform`.
    job.clear()
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except StopIteration as error:
        future.set_exception(_not_a_stop(error))
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        del future, call


def finish(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """As `run`, and the call is made and runs to its end whatever becomes of the caller."""
    return shielded(run(function, *args, **kwargs))


def shielded(future: asyncio.Future[T]) -> asyncio.Future[T]:
    """As `asyncio.shield`, which has an error logged as never retrieved when the caller is gone by then."""
    future.add_done_callback(_retrieve)
    return asyncio.shield(future)


def _retrieve(done: asyncio.Future[Any]) -> None:
    if not done.cancelled():
        done.exception()


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


def threaded(function: Callable[P, T], module: str | None = None) -> Callable[P, Coroutine[Any, Any, T]]:
    """A coroutine function that does what `function` does, in a thread; `module`'s, or its caller's."""

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return await run(function, *args, **kwargs)

    return _like(
        function,
        call,
        "A coroutine: the call is made in a thread. Cancelled before a thread has begun, nothing is done;\n"
        "later it runs to its end, unheard.",
        module or sys._getframe(1).f_globals["__name__"],
    )


def in_place(function: Callable[P, T], module: str | None = None) -> Callable[P, Coroutine[Any, Any, T]]:
    """A coroutine function that does what `function` does, which never waits; of a module as `threaded`."""

    async def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)

    owner = module or sys._getframe(1).f_globals["__name__"]
    return _like(function, call, "A coroutine, which never suspends.", owner)


def _like(
    function: Callable[P, T], call: Callable[P, Coroutine[Any, Any, T]], note: str, module: str
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Gives it the function's name, signature and documentation; it stays the module's that has it."""
    wraps(function)(call)
    call.__module__ = module
    call.__doc__ = f"{function.__doc__ or ''}\n\n{note}".lstrip()
    return call
