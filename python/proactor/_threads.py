"""A pool of threads that can be used for as long as Python code runs.

`concurrent.futures.ThreadPoolExecutor` refuses calls once the main thread has ended, though other threads and
atexit functions still run then, and its module cannot even be imported any more.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

# True once the main thread has ended: a thread that has nothing to do ends then, since the interpreter
# waits for it.
_ending = False


class _Work:
    """The calls of one pool.

    Its threads hold this and not the pool, so that they end when the pool is collected.
    """

    def __init__(self, most: int, name: str) -> None:
        self.most = most
        self.name = name
        # A reentrant lock: garbage may be collected, and `close` called, by a thread that holds it.
        self.ready = threading.Condition()
        self.calls: deque[Callable[[], object]] = deque()
        self.threads = 0
        # Threads that wait and have not been notified.
        self.idle = 0
        self.closed = False
        _all.add(self)

    def put(self, call: Callable[[], object]) -> None:
        with self.ready:
            if self.idle == 0 and self.threads < self.most:
                self._start(call)
                return
            self.calls.append(call)
            if self.idle > 0:
                self.idle -= 1
                self.ready.notify()

    def _start(self, call: Callable[[], object]) -> None:
        self.threads += 1
        try:
            threading.Thread(target=_serve, args=(self, [call]), name=self.name).start()
        except RuntimeError:
            self.threads -= 1
            if self.threads > 0:
                # Another thread takes it when it is through.
                self.calls.append(call)
            elif _ending:
                # From 3.12 on, no thread can be started by an atexit function.
                call()
            else:
                raise

    def close(self, *, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        """Lets the threads end when they have made the calls that are there.

        `is_finalizing` is an argument, for the module's names may be gone when this is called.
        """
        if is_finalizing():
            # They have ended, and one of them may have held the lock.
            return
        with self.ready:
            self.closed = True
            self.idle = 0
            self.ready.notify_all()


_all: weakref.WeakSet[_Work] = weakref.WeakSet()
# A thread of the parent may have held a lock of theirs.
os.register_at_fork(after_in_child=_all.clear)


def _serve(work: _Work, first: list[Callable[[], object]]) -> None:
    """Makes calls until the pool is gone.

    `first` is a list, so that the thread's arguments do not keep the call.
    """
    call: Any = first.pop()
    while True:
        call()
        # What the call holds may be the caller's alone by now.
        call = None
        with work.ready:
            while not work.calls:
                if work.closed or _ending:
                    work.threads -= 1
                    return
                work.idle += 1
                work.ready.wait()
            call = work.calls.popleft()


def _end() -> None:
    global _ending
    _ending = True
    for work in list(_all):
        with work.ready:
            work.idle = 0
            work.ready.notify_all()


try:
    # Called when the main thread has ended, before the interpreter waits for the other threads.
    threading._register_atexit(_end)  # type: ignore[attr-defined]
except RuntimeError:
    _ending = True


class Threads:
    """At most `most` threads, made when they are needed, which take calls in order."""

    def __init__(self, most: int, name: str) -> None:
        self._work = _Work(most, name)
        self._finalize = weakref.finalize(self, self._work.close)
        self._finalize.atexit = False

    def put(self, call: Callable[[], object]) -> None:
        """Has a thread make the call, which must not raise.

        Where no thread can be started any more because the interpreter ends, the call is made before this
        returns.

        Raises:
            RuntimeError: the system gives no thread, and the pool has none.
        """
        self._work.put(call)

    def forget(self) -> None:
        """In a child of fork: the threads are the parent's, and one of them may have held the lock."""
        self._finalize.detach()


def start_alone(call: Callable[[], object], name: str) -> None:
    """Makes a call, which must not raise, in a thread of its own.

    Where no thread can be started any more because the interpreter ends, it is made before this returns.

    Raises:
        RuntimeError: the system gives no thread.
    """
    try:
        threading.Thread(target=call, name=name).start()
    except RuntimeError:
        if not _ending:
            raise
        call()
