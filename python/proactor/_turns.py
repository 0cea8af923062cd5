"""A bound on how many calls of one kind a loop has under way.

Knows no loop by a strong reference: one that is dropped with calls that wait can be collected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from weakref import WeakKeyDictionary, ref


class _Waiting:
    """The calls of one loop."""

    def __init__(self, most: int) -> None:
        self.free = most
        # Each is held by its call.
        self.line: deque[ref[asyncio.Future[None]]] = deque()

    def give(self) -> None:
        while self.line:
            future = self.line.popleft()()
            if future is not None and not future.done():
                # Of a loop that was closed with calls under way.
                with suppress(RuntimeError):
                    future.set_result(None)
                return
        self.free += 1


class Turns:
    """At most `most` calls of each loop are between the beginning and the end of `taken`, in order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = WeakKeyDictionary()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        calls = self._loops.get(loop)
        if calls is None:
            calls = self._loops[loop] = _Waiting(self._most)
        if calls.free:
            calls.free -= 1
        else:
            turn = loop.create_future()
            calls.line.append(ref(turn))
            try:
                await turn
            except BaseException:
                # Cancelled in the moment in which it got its turn.
                if turn.done() and not turn.cancelled():
                    calls.give()
                raise
        try:
            yield
        finally:
            calls.give()
