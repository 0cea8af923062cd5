"""The context: blocks go in, events come out. One `proactor.aio.Context` does the work."""

from __future__ import annotations

import contextlib
import errno
import operator
from collections import deque
from types import TracebackType

from proactor import aio
from proactor.compat import _context
from proactor.compat.linux_aio.aio_event import AIOEvent
from proactor.compat.linux_aio.block import AIOBlock
from proactor.compat.linux_aio.block.base import Finish, os_error

__all__ = ["AIOContext"]

_NS_PER_S = 1e9
# What io_setup(2) takes for a number of requests at all.
_MAX_JOBS = 8_388_608


def _check(block: object) -> None:
    if not isinstance(block, AIOBlock):
        raise TypeError(f"a block is needed, not {type(block).__name__}")


class AIOContext:
    """At most `max_jobs` blocks in flight. `engine` is ours: proactor's own choice unless named."""

    __slots__ = ("__weakref__", "_context", "_flying", "_ready")

    def __init__(self, max_jobs: int, *, engine: str | None = None) -> None:
        max_jobs = operator.index(max_jobs)
        if not 1 <= max_jobs <= _MAX_JOBS:
            raise os_error(errno.EINVAL)
        self._context = _context.context(max_jobs, engine=engine)
        self._flying: dict[aio.Op, tuple[AIOBlock, Finish | None]] = {}
        self._ready: deque[tuple[aio.Op, AIOEvent]] = deque()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._context.closed

    def submit(self, *blocks: AIOBlock) -> int:
        """Start the blocks; return how many were accepted, in order. The rest are untouched.

        Raises OSError only when not even the first was accepted: EAGAIN when `max_jobs` are in flight, EBADF
        for a descriptor that is closed or open in the wrong mode, EINVAL for anything else that cannot be.
        """
        self._check_open()
        started: list[tuple[aio.Op, tuple[AIOBlock, Finish | None]]] = []
        refusal: OSError | None = None
        for block in blocks:
            _check(block)
            try:
                op, finish = block._start()
            except OSError as error:
                refusal = error
                break
            except (ValueError, OverflowError) as error:
                refusal = OSError(errno.EINVAL, str(error))
                break
            started.append((op, (block, finish)))
        if not started:
            if refusal:
                raise refusal
            return 0
        try:
            accepted = self._context.submit(*(op for op, _ in started))
        except (ValueError, OverflowError) as error:
            raise OSError(errno.EINVAL, str(error)) from error
        if not accepted:
            raise os_error(errno.EAGAIN)
        self._flying.update(started[:accepted])
        return accepted

    def get_events(self, min_jobs: int, max_jobs: int, timeout_ns: int | None = None) -> tuple[AIOEvent, ...]:
        """Wait for `min_jobs` events, return `max_jobs` at most.

        Without a timeout it waits as long as it takes, but never for more than are in flight; 0 takes what
        is there.
        """
        self._check_open()
        if not 0 <= min_jobs <= max_jobs or (timeout_ns is not None and timeout_ns < 0):
            raise os_error(errno.EINVAL)
        room, lacking = max_jobs - len(self._ready), min_jobs - len(self._ready)
        if room > 0:
            timeout = None if timeout_ns is None else timeout_ns / _NS_PER_S
            self._take(max(lacking, 0), room, timeout)
        return tuple(self._ready.popleft()[1] for _ in range(min(max_jobs, len(self._ready))))

    def cancel(self, block: AIOBlock) -> AIOEvent:
        """Stop a block, return its event; `get_events` does not give it again.

        Raises OSError: EINPROGRESS when it was asked to stop but may still end either way, with an event from
        `get_events`; EINVAL when it is not in flight.
        """
        self._check_open()
        _check(block)
        op = next((op for op, (flying, _) in reversed(self._flying.items()) if flying is block), None)
        outcome = aio.CancelOutcome.FINISHED if op is None else self._context.cancel(op)
        if op is None or outcome == aio.CancelOutcome.FINISHED:
            raise os_error(errno.EINVAL)
        if outcome == aio.CancelOutcome.RUNNING:
            raise os_error(errno.EINPROGRESS)
        while op in self._flying:
            self._take(1, None, None)
        at = next(at for at, (done, _) in enumerate(self._ready) if done is op)
        event = self._ready[at][1]
        del self._ready[at]
        return event

    def close(self) -> None:
        """Cancel what can be cancelled, wait for the rest, free the context. Twice is the same as once."""
        self._context.close()
        self._flying.clear()
        self._ready.clear()

    def __enter__(self) -> AIOContext:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # Collected by another thread, or in a fork's child: the engine looks after itself then.
        with contextlib.suppress(AttributeError, RuntimeError):
            self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise os_error(errno.EINVAL)

    def _take(self, least: int, most: int | None, timeout: float | None) -> None:
        for event in self._context.wait(least, most, timeout):
            block, finish = self._flying.pop(event.op)
            response = event.result if event.error is None else -(event.error.errno or errno.EIO)
            if finish and response > 0:
                finish(response)
            self._ready.append((event.op, AIOEvent(block, response)))
