"""The context: blocks go in, events come out. One `proactor.aio.Context` does the work.

Any thread may call any method. A block is known before its op is submitted, as another thread may take
the event at once.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import stat
from types import TracebackType

from proactor import aio
from proactor.compat import _context
from proactor.compat.linux_aio.aio_event import AIOEvent
from proactor.compat.linux_aio.block import AIOBlock, PollBlock, RWBlock
from proactor.compat.linux_aio.block.base import Finish, os_error

__all__ = ["AIOContext"]

_NS_PER_S = 1e9
# io_setup(2) takes an unsigned int, and more bits of an integer are lost on the way, as with ctypes.
_UNSIGNED = 0xFFFF_FFFF
# How many events the kernel's ring may have at all.
_MAX_EVENTS = 8_388_608
# Of the pages that the kernel's ring of events is made of: `struct aio_ring`, then an event after the other.
_PAGE_BYTES, _HEAD_BYTES, _EVENT_BYTES = 4096, 32, 32


def _events(jobs: int) -> int:
    """How many events the kernel's ring is made for. It counts with an unsigned int, too."""
    return 2 * max(jobs, 4 * (os.cpu_count() or 1)) & _UNSIGNED


def _room(jobs: int) -> int:
    """How many blocks a kernel's context made for so many takes: its ring fills whole pages."""
    events = _events(jobs) + 2
    pages = -(-(_HEAD_BYTES + events * _EVENT_BYTES) // _PAGE_BYTES)
    return (pages * _PAGE_BYTES - _HEAD_BYTES) // _EVENT_BYTES - 1


def _system_limit() -> int | None:
    """fs.aio-max-nr, None where it cannot be read."""
    try:
        with open("/proc/sys/fs/aio-max-nr") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _check_jobs(jobs: int) -> None:
    """Refuses what io_setup(2) refuses, with its errors."""
    events = _events(jobs)
    if jobs == 0 or events > _MAX_EVENTS:
        raise os_error(errno.EINVAL)
    limit = _system_limit()
    if limit is not None and jobs > limit:
        raise OSError(errno.EAGAIN, f"{jobs} jobs are more than fs.aio-max-nr, which is {limit}")
    if events == 0:
        raise os_error(errno.EAGAIN)


def _context_for(jobs: int, engine: str | None) -> aio.Context:
    """A context for all threads, on the kernel's own AIO if it can be had; for one thread where io_uring
    is named.
    """
    named = engine or os.environ.get("PROACTOR_ENGINE") or "auto"
    if named != "auto":
        return _context.context(jobs, engine=engine, shared=named != "io_uring")
    try:
        return _context.context(jobs, engine="linux_aio", shared=True)
    except OSError:
        return _context.context(jobs, engine="threads", shared=True)


def _check(block: object) -> None:
    if not isinstance(block, AIOBlock):
        raise TypeError(f"a block is needed, not {type(block).__name__}")
    if block._deleted:
        raise ValueError(f"{block} has been changed into another block by change_cmd(): use that one")


def _can_be_cancelled(block: AIOBlock) -> bool:
    """Whether the kernel cancels such a block: not what is on its way to a disk."""
    if isinstance(block, PollBlock):
        return True
    if not isinstance(block, RWBlock):
        return False
    with contextlib.suppress(OSError):
        mode = os.fstat(block.fileno).st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISBLK(mode))
    return False


class AIOContext:
    """At least `max_jobs` blocks in flight, as many as the kernel's own context takes.

    OSError is io_setup's: EINVAL for none and for more than any kernel takes, EAGAIN for more than
    fs.aio-max-nr. Of `max_jobs` the lowest 32 bits count, as there.

    `engine` is ours: "linux_aio" unless named, or "threads" where that cannot be had. On "io_uring" a
    context belongs to the thread that made it.
    """

    __slots__ = ("__weakref__", "_context", "_flying")

    def __init__(self, max_jobs: int, *, engine: str | None = None) -> None:
        jobs = operator.index(max_jobs) & _UNSIGNED
        _check_jobs(jobs)
        self._context = _context_for(_room(jobs), engine)
        self._flying: dict[aio.Op, tuple[AIOBlock, Finish | None]] = {}

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._context.closed

    def submit(self, *blocks: AIOBlock) -> int:
        """Start the blocks; return how many were accepted, in order. The rest are untouched.

        Raises OSError only when not even the first was accepted: EAGAIN when there is no room, EBADF for a
        descriptor that is closed or open in the wrong mode, EINVAL for anything else that cannot be;
        ValueError
        for a block that `change_cmd` has made another of, whatever its place.
        """
        self._check_open()
        for block in blocks:
            _check(block)
        started: list[tuple[aio.Op, tuple[AIOBlock, Finish | None]]] = []
        refusal: OSError | None = None
        for block in blocks:
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
        self._flying.update(started)
        accepted = 0
        try:
            accepted = self._context.submit(*(op for op, _ in started))
        except (ValueError, OverflowError) as error:
            raise OSError(errno.EINVAL, str(error)) from error
        finally:
            for op, _ in started[accepted:]:
                self._flying.pop(op, None)
        if not accepted:
            raise os_error(errno.EAGAIN)
        return accepted

    def get_events(self, min_jobs: int, max_jobs: int, timeout_ns: int | None = 0) -> tuple[AIOEvent, ...]:
        """Wait for `min_jobs` events, return `max_jobs` at most, fewer than `min_jobs` after `timeout_ns`.

        Without a timeout, which 0, None and less mean, it waits as long as it takes, also for blocks
        that another thread will submit. Raises InterruptedError when a signal's handler has run
        meanwhile; no event is lost.
        """
        self._check_open()
        if not 0 <= min_jobs <= max_jobs:
            raise os_error(errno.EINVAL)
        timeout = timeout_ns / _NS_PER_S if timeout_ns is not None and timeout_ns > 0 else None
        try:
            events = self._context.wait(min_jobs, max_jobs, timeout, resume=False)
        except ValueError:  # closed by another thread meanwhile
            raise os_error(errno.EINVAL) from None
        return tuple(map(self._event, events))

    def cancel(self, block: AIOBlock) -> AIOEvent:
        """Ask a block to stop. It never returns, as there: `get_events` has the event.

        Raises OSError: EINPROGRESS when it was stopped, EINVAL when it is not in flight or cannot be stopped,
        which is the case for everything but polls, pipes and sockets.
        """
        self._check_open()
        _check(block)
        flying = reversed(list(self._flying.items()))
        op = next((op for op, (submitted, _) in flying if submitted is block), None)
        if op is None or not _can_be_cancelled(block):
            raise os_error(errno.EINVAL)
        if self._context.cancel(op) == aio.CancelOutcome.FINISHED:
            raise os_error(errno.EINVAL)
        raise os_error(errno.EINPROGRESS)

    def close(self) -> None:
        """Cancel what can be cancelled, wait for the rest, free the context. Twice is the same as once."""
        self._context.close()
        self._flying.clear()

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

    def _event(self, event: aio.Event) -> AIOEvent:
        block, finish = self._flying.pop(event.op)
        response = event.result if event.error is None else -(event.error.errno or errno.EIO)
        if finish and response > 0:
            finish(response)
        # A poll that the kernel has cancelled is one of a file that is ready for nothing.
        stopped = isinstance(block, PollBlock) and response == -errno.ECANCELED
        return AIOEvent(block, 0 if stopped else response)
