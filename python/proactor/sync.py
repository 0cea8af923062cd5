"""Many whole files without an event loop, for training code, data loaders and scripts.

`read_many` is `proactor.read_many` as an ordinary iterator::

    for path, data in proactor.sync.read_many(paths, concurrency=64):
        ...

The calling thread submits, waits and takes completions. While it waits it has released the interpreter's
lock, and Ctrl-C is a KeyboardInterrupt. Each thread has a driver of its own, which is made by the first file
and goes away with the thread. A process made by fork(2), as DataLoader's workers are, makes drivers of its
own.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Literal, TypeVar, overload

from proactor._length import length_of
from proactor._native import ReadMany

__all__ = ["FileBatch", "read_bytes_many", "read_many"]

P = TypeVar("P")
V = TypeVar("V")
B = TypeVar("B")
G = TypeVar("G", bound=tuple[Any, ...])


class _Loop:
    """The part of an event loop that a driver needs. It runs while a thread waits for a file."""

    def __init__(self) -> None:
        self._ready: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._readers: dict[int, tuple[Callable[..., object], tuple[object, ...]]] = {}
        self._poll = select.poll()

    def call_soon(self, callback: Callable[..., object], *args: object, context: object = None) -> None:
        self._ready.append((callback, args))

    def add_reader(self, fd: int, callback: Callable[..., object], *args: object) -> None:
        self._readers[fd] = (callback, args)
        self._poll.register(fd, select.POLLIN)

    def remove_reader(self, fd: int) -> bool:
        if self._readers.pop(fd, None) is None:
            return False
        self._poll.unregister(fd)
        return True

    def run_until_done(self, future: Any) -> None:
        while not future.done():
            for _ in range(len(self._ready)):
                callback, args = self._ready.popleft()
                callback(*args)
            if future.done():
                return
            for fd, _events in self._poll.poll(0 if self._ready else None):
                if reader := self._readers.get(fd):
                    callback, args = reader
                    callback(*args)


class _OfThread(threading.local):
    """The calling thread's loop."""

    loop: _Loop | None = None
    process = 0

    def get(self) -> _Loop:
        if self.loop is None or self.process != os.getpid():
            self.loop, self.process = _Loop(), os.getpid()
        return self.loop


_of_thread = _OfThread()


class FileBatch(Generic[P, V]):
    """What `read_many` gives: an iterator of pairs, to be closed if it is left early.

    It belongs to the thread that takes the first file, and to its process.
    """

    def __init__(self, batch: ReadMany[P, V], length: int | None) -> None:
        self._batch = batch
        self._length = length
        self._loop: _Loop | None = None
        self._thread = 0

    def __iter__(self) -> Iterator[tuple[P, V]]:
        return self

    def __next__(self) -> tuple[P, V]:
        if self._loop is None:
            self._loop, self._thread = _of_thread.get(), threading.get_ident()
        elif self._thread != threading.get_ident():
            raise RuntimeError("this read_many() belongs to the thread that took its first file")
        return self._batch._next(self._loop)

    def __len__(self) -> int:
        """The number of items that the batch was made for. TypeError if their iterable does not know it."""
        if self._length is None:
            raise TypeError(
                "this read_many() does not know how many files there are: its paths have no len()"
            )
        return self._length

    def __bool__(self) -> bool:
        return True

    def close(self) -> None:
        """Gives up the files that are in flight or were read ahead. There is no next file then."""
        self._batch._close()

    def __enter__(self) -> "FileBatch[P, V]":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@overload
def read_many(
    paths: Iterable[P],
    *,
    concurrency: int = ...,
    ordered: bool = ...,
    return_exceptions: Literal[False] = False,
    workers: int = ...,
    engine: str | None = ...,
    into: None = None,
    progress: Callable[[int, int], object] | None = ...,
) -> FileBatch[P, bytes]: ...
@overload
def read_many(
    paths: Iterable[P],
    *,
    concurrency: int = ...,
    ordered: bool = ...,
    return_exceptions: bool,
    workers: int = ...,
    engine: str | None = ...,
    into: None = None,
    progress: Callable[[int, int], object] | None = ...,
) -> FileBatch[P, bytes | Exception]: ...
@overload
def read_many(
    paths: Iterable[P],
    *,
    concurrency: int = ...,
    ordered: bool = ...,
    return_exceptions: Literal[False] = False,
    engine: str | None = ...,
    into: Callable[[int], B],
    progress: Callable[[int, int], object] | None = ...,
) -> FileBatch[P, B]: ...
@overload
def read_many(
    paths: Iterable[P],
    *,
    concurrency: int = ...,
    ordered: bool = ...,
    return_exceptions: bool,
    engine: str | None = ...,
    into: Callable[[int], B],
    progress: Callable[[int, int], object] | None = ...,
) -> FileBatch[P, B | Exception]: ...
def read_many(
    paths: Iterable[P],
    *,
    concurrency: int = 64,
    ordered: bool = True,
    return_exceptions: bool = False,
    workers: int = 0,
    engine: str | None = None,
    into: Callable[[int], Any] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> FileBatch[P, Any]:
    """Reads many whole files: `for path, data in proactor.sync.read_many(paths)`.

    The arguments are those of `proactor.read_many`. Files are read ahead while the caller uses the ones
    before them: up to `concurrency` files that are not cached are in flight at once.

    An iteration that is left early, or ends in an exception, gives up the files in flight when nothing refers
    to the iterator any more; `with read_many(...) as batch` does so at its end. Ctrl-C in a step loses no
    file: the next step goes on. `len(batch)` is the length of `paths`, if it has one.

    Raises TypeError if `paths` is one path or no iterable, and ValueError for a number out of its bounds. A
    step raises the OSError of its file, with filename, and RuntimeError in another thread than that of the
    first step.
    """
    return FileBatch(
        ReadMany(
            paths,
            concurrency=concurrency,
            ordered=ordered,
            return_exceptions=return_exceptions,
            workers=workers,
            engine=engine,
            into=into,
            progress=progress,
        ),
        length_of(paths),
    )


@overload
def read_bytes_many(
    items: Iterable[G],
    *,
    concurrency: int = ...,
    ordered: bool = ...,
    return_exceptions: Literal[False] = False,
    engine: str | None = ...,
    progress: Callable[[int, int], object] | None = ...,
) -> FileBatch[G, int]: ...
@overload
def read_bytes_many(
    items: Iterable[G],
    *,
    concurrency: int = ...,
    ordered: bool = ...,
    return_exceptions: bool,
    engine: str | None = ...,
    progress: Callable[[int, int], object] | None = ...,
) -> FileBatch[G, int | Exception]: ...
def read_bytes_many(
    items: Iterable[G],
    *,
    concurrency: int = 64,
    ordered: bool = True,
    return_exceptions: bool = False,
    engine: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> FileBatch[G, Any]:
    """Reads many files into the caller's buffers: `for (path, buffer), count in read_bytes_many(items)`.

    - `items`: pairs `(path, buffer)`, each with a writable buffer of its own, or
      `(path, buffer, offset, size)` for the range of at most `size` bytes at `offset`. `count` is the number
      of bytes that were read.
    - The other arguments are those of `proactor.read_many`.

    A file, or range, that has more bytes than its buffer is an OSError (EFBIG). A buffer is exported, so that
    it cannot be resized, until its item is handed out.
    """
    batch: ReadMany[G, Any] = ReadMany(
        items,
        concurrency=concurrency,
        ordered=ordered,
        return_exceptions=return_exceptions,
        engine=engine,
        progress=progress,
        given=True,
    )
    return FileBatch(batch, length_of(items))
