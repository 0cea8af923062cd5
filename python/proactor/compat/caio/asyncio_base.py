"""`AsyncioContext`: the same operations, awaited. The event loop's own thread does it all."""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar

from proactor.compat.caio.abstract import AbstractContext
from proactor.compat.caio.context import QueueContext
from proactor.compat.caio.operation import Operation
from proactor.compat.caio.turn import Turn

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

__all__ = ["AsyncioContextBase"]


# The most operations that go to the engine untried after a read that was not cached.
_MAX_PAUSE = 64


class AsyncioContextBase:
    """At most `max_requests` operations in flight; more of them wait their turn.

    `deferred` collects what one turn of the loop submits and submits it at once.
    """

    MAX_REQUESTS_DEFAULT: ClassVar[int] = 512
    OPERATION_CLASS: ClassVar[type[Operation]] = Operation
    CONTEXT_CLASS: ClassVar[type[AbstractContext]]

    # What does the work. `CONTEXT_CLASS` may call back from a thread, which is no use to a loop.
    _LOOP_CONTEXT: ClassVar[type[QueueContext]]

    def __init__(
        self,
        max_requests: int | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        deferred: bool = False,
        **kwargs: Any,
    ) -> None:
        # First, so that `__del__` may ask.
        self._closed = True
        self.loop: asyncio.AbstractEventLoop = loop or asyncio.get_event_loop()
        self.deferred = deferred
        self.context: QueueContext = self._create_context(max_requests or self.MAX_REQUESTS_DEFAULT, **kwargs)
        self.semaphore: asyncio.BoundedSemaphore = asyncio.BoundedSemaphore(self.context.max_requests)
        self._waiting: dict[Operation, asyncio.Future[None]] = {}
        self._deferred: list[Operation] = []
        # Of those who wait for the end of operations.
        self._watchers: list[asyncio.Future[None]] = []
        self._turn = Turn(self.loop)
        # Reads that are not tried at once, of the `_pause` after the last one that was in vain.
        self._untried, self._pause = 0, 1
        self._fileno = self.context.fileno
        self.loop.add_reader(self._fileno, self._on_events)
        self._closed = False

    def _create_context(self, max_requests: int, **kwargs: Any) -> QueueContext:
        # What is cached is read before an operation is submitted.
        return self._LOOP_CONTEXT(max_requests, inline=False, **kwargs)

    async def submit(self, op: Operation) -> Any:
        """Await an operation's value.

        A cancelled await returns at once; the operation keeps slot and buffer until the kernel is done.
        """
        if not isinstance(op, Operation):
            raise ValueError("Operation object expected")
        self._check_open()
        if self._untried:
            # What goes to the engine takes no time of the turn that would have to be shared.
            self._untried -= 1
        else:
            if self._turn.is_over():
                await self._turn.next()
                self._check_open()
            if not self.semaphore.locked() and self._at_once(op):
                return op.get_value()
        await self.semaphore.acquire()
        try:
            self._check_open()
            if not op._is_new or op in self._waiting:
                raise OSError("Operation was not submitted")
            future: asyncio.Future[None] = self.loop.create_future()
            op.set_callback(lambda _: self._on_done(op))
            self._waiting[op] = future
            self._start(op)
        except BaseException:
            self._waiting.pop(op, None)
            self.semaphore.release()
            raise
        try:
            await future
        except asyncio.CancelledError:
            self._cancel(op)
            raise
        return op.get_value()

    def read(self, nbytes: int, fd: int, offset: int = 0, priority: int = 0) -> Any:
        """Await up to `nbytes` bytes."""
        return self.submit(self.OPERATION_CLASS.read(nbytes, fd, offset, priority))

    def write(self, payload: Buffer, fd: int, offset: int = 0, priority: int = 0) -> Any:
        """Await the number of bytes written."""
        return self.submit(self.OPERATION_CLASS.write(payload, fd, offset, priority))

    def fsync(self, fd: int) -> Any:
        """Await the file's data and metadata on its device."""
        return self.submit(self.OPERATION_CLASS.fsync(fd))

    def fdsync(self, fd: int) -> Any:
        """Await the file's data on its device."""
        return self.submit(self.OPERATION_CLASS.fdsync(fd))

    def close(self) -> None:
        """Cancel reads, let writes end, wake every awaiter. Twice is the same as once."""
        if self._closed:
            return
        self._closed = True
        if not self.loop.is_closed():
            self.loop.remove_reader(self._fileno)
        self.context.close()
        for op in self._deferred:
            self._on_done(op, RuntimeError("the context is closed"))
        self._deferred.clear()
        self._turn.end()

    async def _settled(self, fd: int) -> None:
        """Wait until no operation on a descriptor is in flight, those with a cancelled await among them."""
        while any(op.fileno == fd for op in self._waiting):
            watcher: asyncio.Future[None] = self.loop.create_future()
            self._watchers.append(watcher)
            await watcher

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the context is closed")

    def _at_once(self, op: Operation) -> bool:
        """Whether all that a read wants was cached: then it is done, and takes neither a slot nor a turn.

        Not tried for a while after it was in vain. An attempt starts a read-ahead of its own, and a batch
        that the engine hands to the kernel costs the device one notification for all.
        """
        if self.deferred or not op._is_new or op in self._waiting:
            return False
        done = op._read_cached(self.context)
        if done is False:
            self._pause = min(2 * self._pause, _MAX_PAUSE)
            self._untried = self._pause
        elif done:
            self._pause = 1
        return bool(done)

    def _start(self, op: Operation) -> None:
        if not self._deferred:
            self.loop.call_soon(self._flush)
        self._deferred.append(op)

    def _flush(self) -> None:
        if self._closed:
            return
        ops, self._deferred = self._deferred, []
        # One by one where the batch was refused, so that each awaiter has its own error.
        with contextlib.suppress(Exception):
            self.context.submit(*ops)
        for op in ops:
            if op._is_new:
                try:
                    accepted = self.context.submit(op)
                except Exception as error:
                    self._on_done(op, error)
                else:
                    if not accepted:
                        self._on_done(op, OSError("Operation was not submitted"))

    def _cancel(self, op: Operation) -> None:
        if op in self._deferred:
            self._deferred.remove(op)
            self._on_done(op)
        elif op in self._waiting:
            self.context.cancel(op)
            self.context.process_events()

    def _on_events(self) -> None:
        self.context.process_events()

    def _on_done(self, op: Operation, error: Exception | None = None) -> None:
        future = self._waiting.pop(op)
        self.semaphore.release()
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            if not watcher.done() and not self.loop.is_closed():
                watcher.set_result(None)
        if future.done() or self.loop.is_closed():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
