"""Long work in threads by short steps: generators which are advanced until a slice of time is over.

So a cancelled call ends soon, and between its steps the loop's threads serve others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress
from time import monotonic
from typing import Any, ParamSpec, TypeVar

from proactor._pool import run, submit

P = ParamSpec("P")
T = TypeVar("T")

# A hop to a thread takes about 0.03 ms, so slices of 10 ms cost next to nothing.
SLICE_S = 0.010
# Bounds the memory of what a slice yields.
SLICE_ITEMS = 512


def once(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Generator[None, None, T]:
    """One call as one step."""
    yield from ()
    return function(*args, **kwargs)


async def in_steps(work: Generator[object, None, T]) -> T:
    """Runs a generator to its end, in threads, and gives what it returns.

    Cancelled, it has the step in hand finished before CancelledError is raised: nothing goes on afterwards
    but closing the generator, where that has to wait for a thread. A step that no thread has taken yet is
    not waited for.
    """
    stopped = False

    def advance() -> tuple[T] | None:
        deadline = monotonic() + SLICE_S
        while True:
            try:
                next(work)
            except StopIteration as stop:
                return (stop.value,)
            if stopped:
                work.close()
                return None
            if monotonic() > deadline:
                return None

    while True:
        job = submit(advance)
        try:
            result = await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            stopped = True
            job.cancel()
            await ended(asyncio.wrap_future(job))
            # It does nothing if the generator has ended, and may wait for a disk if it has files to close.
            submit(work.close)
            raise
        if result is not None:
            return result[0]


async def to_the_end(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """One call in a thread. Cancelled, it raises CancelledError when the call is over."""
    call = asyncio.wrap_future(submit(function, *args, **kwargs))
    if await ended(call):
        raise asyncio.CancelledError
    return call.result()


async def ended(future: asyncio.Future[Any]) -> bool:
    """Waits through all cancellations, and says whether there were any."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:
            cancelled = True
    if not future.cancelled():
        # Or asyncio complains that nobody asked for it.
        future.exception()
    return cancelled


async def in_slices(items: Generator[T, None, Any]) -> AsyncGenerator[T, None]:
    """What a generator yields, fetched by threads, up to 512 items or 10 ms at a time.

    Cancelled, it leaves at once; a thread that is at work closes the generator when that has come to its
    next item.
    """
    left = False

    def take() -> tuple[list[T], bool, Exception | None]:
        """What came, whether that was all, and the error that ended it."""
        taken: list[T] = []
        deadline = monotonic() + SLICE_S
        try:
            for item in items:
                taken.append(item)
                if left:
                    _close(items)
                if len(taken) == SLICE_ITEMS or monotonic() > deadline:
                    return taken, False, None
        except Exception as error:
            return taken, True, error
        return taken, True, None

    try:
        ended = False
        while not ended:
            batch, ended, error = await run(take)
            for item in batch:
                yield item
            if error is not None:
                try:
                    raise error
                finally:
                    # Its traceback holds this frame.
                    del error
    finally:
        left = True
        _close(items)


def _close(items: Generator[Any, None, Any]) -> None:
    # ValueError: another thread is in it, and will see that it is not wanted any more.
    with suppress(ValueError):
        items.close()
