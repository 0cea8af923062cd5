"""Driving a coroutine by hand, to end it at each of its await points."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from file_helpers import DEADLINE_S


async def drive(coroutine: Coroutine[Any, Any, Any], steps: int, *, wait: bool) -> Any:
    """Takes it to its await point number `steps`, and returns it there; or its result, if it ends before.

    `wait`: until what it waits for there has happened, so that it would go on.
    """
    for step in range(steps + 1):
        try:
            waits_for = coroutine.send(None)
        except StopIteration as end:
            # A native coroutine may keep it, and with it this frame.
            end.__traceback__ = None
            return end.value
        if waits_for is None:
            await asyncio.sleep(0)
        elif step < steps or wait:
            waits_for._asyncio_future_blocking = False
            await asyncio.wait([waits_for], timeout=DEADLINE_S)
    return coroutine


# How a coroutine is ended where it is.
ENDS = [asyncio.CancelledError, GeneratorExit]


def end(coroutine: Coroutine[Any, Any, Any], kind: type[BaseException]) -> None:
    if kind is GeneratorExit:
        coroutine.close()
        return
    try:
        coroutine.throw(kind())
    except kind:
        return
    raise AssertionError(f"{kind} was swallowed")
