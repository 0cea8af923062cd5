"""How long operations that need no waiting may keep an event loop from its other work.

Such an operation does not suspend, so a task that does many of them would hold the loop until the last
one. After `TURN_S` in one turn of the loop the next callers wait in line, and the turns that follow take as
many of them as there is time for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter

__all__ = ["Turn"]

# The same as that of proactor's own files.
TURN_S = 0.001
# Woken at once. Each then does its operation before the time is looked at again.
WOKEN = 16


class Turn:
    """The share of each turn of a loop that the operations of one context may take."""

    __slots__ = ("_end", "_line", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # When the share of this turn is used up; 0 where none of it has been asked for.
        self._end = 0.0
        self._line: deque[asyncio.Future[None]] = deque()

    def is_over(self) -> bool:
        """Whether the caller has to wait for another turn, by `next`."""
        if self._end:
            return perf_counter() > self._end
        self._begin()
        return False

    async def next(self) -> None:
        """Wait for a turn that has time."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._line.append(future)
        await future

    def end(self) -> None:
        """Let all who wait go on."""
        while self._line and not self._loop.is_closed():
            self._wake()

    def _begin(self) -> None:
        self._end = perf_counter() + TURN_S
        self._loop.call_soon(self._over)

    def _over(self) -> None:
        self._end = 0.0
        if not self._line:
            return
        self._begin()
        for _ in range(min(WOKEN, len(self._line))):
            self._wake()

    def _wake(self) -> None:
        future = self._line.popleft()
        if not future.done():
            future.set_result(None)
