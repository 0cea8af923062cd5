"""Two ways to be told: `QueueContext` when the user asks for events, `ThreadContext` from its own thread.

Both hold an operation's slot and buffer until its event has come, also when it was cancelled.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import select
import sys
import threading
import weakref
from collections import deque
from typing import Any, ClassVar

from proactor import aio
from proactor.compat import _context
from proactor.compat.caio.abstract import AbstractContext
from proactor.compat.caio.operation import Operation

__all__ = ["QueueContext", "ThreadContext"]

_DEFAULT_REQUESTS = 32
_DEFAULT_THREAD_REQUESTS = 512
_DEFAULT_POOL_SIZE = 8
_MAX_POOL_SIZE = 127


def _max_requests(value: int, default: int) -> int:
    value = operator.index(value)
    if value < 0:
        raise ValueError(f"max_requests must not be negative, got {value}")
    return value or default


def _check(operations: tuple[Operation, ...]) -> None:
    for at, operation in enumerate(operations):
        if not isinstance(operation, Operation):
            raise TypeError(f"argument {at} is not an Operation: {operation!r}")


class _Core:
    """A `proactor.aio.Context` and the operations in it. For one thread."""

    def __init__(self, max_requests: int, engine: str | None, **options: Any) -> None:
        self.context = _context.context(max_requests, engine=engine, **options)
        self.flying: dict[aio.Op, Operation] = {}
        # Collected, and not yet finished.
        self.ended: deque[tuple[Operation, int, OSError | None]] = deque()

    def submit(self, operations: tuple[Operation, ...], owner: AbstractContext) -> int:
        """How many were accepted. Operations submitted once already are passed over and not counted."""
        fresh = [operation for operation in dict.fromkeys(operations) if operation._is_new]
        ops = [operation._start() for operation in fresh]
        accepted = self.context.submit(*ops)
        for operation in fresh[:accepted]:
            operation._submitted(owner)
        self.flying.update(zip(ops[:accepted], fresh, strict=False))
        return accepted

    def cancel(self, operation: Operation) -> bool:
        """Whether it will end with ECANCELED. Its event still has to be collected."""
        op = next((op for op, flying in self.flying.items() if flying is operation), None)
        return op is not None and self.context.cancel(op) == aio.CancelOutcome.CANCELLED

    def collect(self, least: int, most: int | None, timeout: float | None) -> None:
        for event in self.context.wait(least, most, timeout):
            operation = self.flying.pop(event.op)
            self.ended.append((operation, event.result, event.error))

    def finish(self, most: int | None = None) -> int:
        """Give operations their results and call their callbacks; how many.

        The first interrupt or exit is raised again, once all are called: `fileno` would not tell of the rest.
        """
        count = len(self.ended) if most is None else min(most, len(self.ended))
        problem: BaseException | None = None
        # All taken out first, because a callback may ask for events or close.
        for operation, result, error in [self.ended.popleft() for _ in range(count)]:
            try:
                try:
                    operation._finish(result, error)
                except Exception:
                    sys.excepthook(*sys.exc_info())
            except BaseException as raised:
                problem = problem or raised
        if problem is not None:
            raise problem
        return count

    def drain(self) -> None:
        """Cancel what reads, let writes end, and collect all."""
        for op in list(self.flying):
            if isinstance(op, aio.Read):
                self.context.cancel(op)
        while self.flying:
            self.collect(1, None, None)


class QueueContext(AbstractContext):
    """`fileno` is readable when `process_events` has something to do. For the thread that made it."""

    ENGINE: ClassVar[str | None] = None

    def __init__(
        self, max_requests: int = _DEFAULT_REQUESTS, *, sqpoll: bool = False, inline: bool = True
    ) -> None:
        self._max_requests = _max_requests(max_requests, _DEFAULT_REQUESTS)
        self._sqpoll = sqpoll
        self._core = _Core(self._max_requests, self.ENGINE, sqpoll=sqpoll, inline=inline)

    @property
    def max_requests(self) -> int:
        """How many operations may be in flight."""
        return self._max_requests

    @property
    def fileno(self) -> int:
        """A descriptor to wait for with select(2) and the like."""
        return self._core.context.fileno()

    @property
    def sqpoll(self) -> bool:
        """Whether a kernel thread looks for submissions."""
        return self._sqpoll

    def submit(self, *aio_operations: Operation) -> int:
        """Start operations; how many were accepted, in order: fewer when `max_requests` are in flight.

        An operation that was submitted before is passed over.
        """
        _check(aio_operations)
        return self._core.submit(aio_operations, self)

    def cancel(self, *aio_operations: Operation) -> int:
        """Ask operations to stop; how many will end with ECANCELED. Callbacks are called all the same."""
        if not aio_operations:
            raise TypeError("cancel() takes at least one operation")
        _check(aio_operations)
        return sum(self._core.cancel(operation) for operation in aio_operations)

    def poll(self) -> int:
        """Collect events without calling callbacks; how many wait for `process_events`."""
        self._core.collect(0, None, 0)
        return len(self._core.ended)

    def process_events(
        self, max_requests: int = 512, min_requests: int = 0, timeout: float | None = 0
    ) -> int:
        """Call the callbacks of what is done; how many.

        Timeout 0 takes what is there. A positive one waits that many seconds for `min_requests` (at least
        one); None or a negative one as long as it takes, but never for more than are in flight.
        """
        room = max_requests - len(self._core.ended)
        if room > 0:
            wanted = max(min_requests, 0 if timeout == 0 else 1) - len(self._core.ended)
            forever = timeout is None or timeout < 0
            self._core.collect(max(wanted, 0), room, None if forever else timeout)
        return self._core.finish(max(max_requests, 0))

    def flush(self) -> int:
        """Nothing is held back: the same as `process_events()`."""
        return self.process_events()

    def close(self) -> None:
        """Cancel reads, let writes end, call all callbacks. Twice is the same as once."""
        if not self._core.context.closed:
            self._core.drain()
            try:
                self._core.finish()
            finally:
                self._core.context.close()

    def __repr__(self) -> str:
        return f"<Context max_requests={self._max_requests} engine={self._core.context.engine}>"


class _Pump(threading.Thread):
    """The thread of a `ThreadContext`. It does not know it, so that a forgotten context ends its thread."""

    def __init__(self, max_requests: int, engine: str | None, pool_size: int) -> None:
        super().__init__(name="proactor-caio", daemon=True)
        self.max_requests, self.engine, self.pool_size = max_requests, engine, pool_size
        self.pid = os.getpid()
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.lock = threading.Lock()
        self.inbox: deque[Operation] = deque()
        self.in_flight = 0
        self.stopping = False
        self.ready = threading.Event()
        self.problem: BaseException | None = None

    def submit(self, operations: tuple[Operation, ...], owner: AbstractContext) -> int:
        with self.lock:
            if self.stopping:
                raise RuntimeError("the context is closed")
            if self.pid != os.getpid():
                raise RuntimeError("the context was made before a fork: make a new one in the child")
            fresh = [operation for operation in dict.fromkeys(operations) if operation._is_new]
            accepted = fresh[: self.max_requests - self.in_flight]
            if fresh and not accepted:
                raise RuntimeError("max_requests operations are in flight")
            for operation in accepted:
                operation._submitted(owner)
            self.inbox.extend(accepted)
            self.in_flight += len(accepted)
            if accepted:
                os.eventfd_write(self.wake, 1)
        return len(accepted)

    def stop(self) -> None:
        """Let all that was accepted end, then the thread."""
        if self.pid != os.getpid():
            return
        with self.lock:
            if self.stopping:
                return
            self.stopping = True
            os.eventfd_write(self.wake, 1)
        if threading.current_thread() is not self:
            self.join()

    def run(self) -> None:
        try:
            # One more than the operations: the poll of `wake`.
            core = _Core(self.max_requests + 1, self.engine, max_threads=self.pool_size)
        except BaseException as error:
            self.problem = error
            os.close(self.wake)
            return
        finally:
            self.ready.set()
        try:
            with core.context:
                self._work(core)
        finally:
            with self.lock:
                self.stopping = True
            os.close(self.wake)
            # Nothing is left, unless the thread dies of an error.
            lost = OSError(errno.EIO, "the context's thread has died")
            core.ended.extend((operation, 0, lost) for operation in (*core.flying.values(), *self.inbox))
            core.finish()

    def _work(self, core: _Core) -> None:
        waking = aio.Poll(self.wake, select.POLLIN)
        core.context.submit(waking)
        while True:
            for event in core.context.wait():
                if event.op is waking:
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_read(self.wake)
                    core.context.submit(waking)
                    continue
                core.ended.append((core.flying.pop(event.op), event.result, event.error))
            while self.inbox:
                self._start(core, self.inbox.popleft())
            while core.ended:
                try:
                    core.finish(1)
                except BaseException:
                    sys.excepthook(*sys.exc_info())
                with self.lock:
                    self.in_flight -= 1
            if self.stopping and not self.in_flight:
                return

    def _start(self, core: _Core, operation: Operation) -> None:
        try:
            op = operation._start()
            core.context.submit(op)
        except OSError as error:
            core.ended.append((operation, 0, error))
        except Exception as error:
            core.ended.append((operation, 0, OSError(errno.EINVAL, str(error))))
        else:
            core.flying[op] = operation


class ThreadContext(AbstractContext):
    """Callbacks come from the context's own thread; operations may be submitted from any."""

    ENGINE: ClassVar[str | None] = "threads"
    MAX_POOL_SIZE: ClassVar[int] = _MAX_POOL_SIZE

    def __init__(
        self, max_requests: int = _DEFAULT_THREAD_REQUESTS, pool_size: int = _DEFAULT_POOL_SIZE
    ) -> None:
        self._max_requests = _max_requests(max_requests, _DEFAULT_THREAD_REQUESTS)
        self._pool_size = operator.index(pool_size) or _DEFAULT_POOL_SIZE
        if not 0 < self._pool_size <= _MAX_POOL_SIZE:
            raise ValueError(f"pool_size must be between 1 and {_MAX_POOL_SIZE}, got {pool_size}")
        self._pump = _Pump(self._max_requests, self.ENGINE, self._pool_size)
        self._pump.start()
        self._pump.ready.wait()
        if self._pump.problem:
            raise self._pump.problem
        self._stop = weakref.finalize(self, self._pump.stop)
        # A read of an empty pipe would keep the interpreter from ending.
        self._stop.atexit = False

    @property
    def max_requests(self) -> int:
        """How many operations may be in flight."""
        return self._max_requests

    @property
    def pool_size(self) -> int:
        """How many threads may work at once."""
        return self._pool_size

    def submit(self, *aio_operations: Operation) -> int:
        """Start operations; how many were accepted. RuntimeError when there is room for none."""
        _check(aio_operations)
        return self._pump.submit(aio_operations, self)

    def cancel(self, *aio_operations: Operation) -> int:
        """Stops nothing, as there: 0."""
        return 0

    def close(self) -> None:
        """Let all operations end and their callbacks be called, then stop. Twice is the same as once."""
        self._stop()

    def __repr__(self) -> str:
        return f"<Context max_requests={self._max_requests} pool_size={self._pool_size}>"
