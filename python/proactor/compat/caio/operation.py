"""One read, write, fsync or fdsync: made, submitted once, asked for its value. All variants have this one."""

from __future__ import annotations

import errno
import operator
import os
from collections.abc import Callable
from fcntl import F_GETFL, fcntl
from typing import TYPE_CHECKING, Any

from proactor import aio
from proactor.compat import _files
from proactor.compat.caio.abstract import AbstractContext, AbstractOperation

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

__all__ = ["Operation", "failure"]

_READ, _WRITE, _FSYNC, _FDSYNC = "read", "write", "fsync", "fdsync"
_NEW, _SUBMITTED, _DONE = range(3)


_failures: dict[type[OSError], type[OSError]] = {}


def failure(error: OSError) -> OSError:
    """The same error, also a SystemError.

    caio's native variants raise SystemError and its Python variant OSError: code that catches either works.
    """
    kind = type(error)
    if kind not in _failures:
        _failures[kind] = type(kind.__name__, (kind, SystemError), {"__module__": kind.__module__})
    named = () if error.filename is None else (error.filename,)
    result = _failures[kind](error.errno, error.strerror, *named)
    result.__cause__ = error
    return result


class Operation(AbstractOperation):
    """Made by its class methods only."""

    __slots__ = (
        "__weakref__",
        "_callback",
        "_context",
        "_error",
        "_fd",
        "_kind",
        "_nbytes",
        "_offset",
        "_payload",
        "_priority",
        "_result",
        "_state",
    )

    def __init__(self, kind: str, fd: int, offset: int, payload: Any, nbytes: int, priority: int) -> None:
        self._kind = kind
        self._fd = operator.index(fd)
        self._offset = operator.index(offset)
        self._payload = payload
        self._nbytes = nbytes
        self._priority = operator.index(priority)
        self._callback: Callable[[int], Any] | None = None
        self._context: AbstractContext | None = None
        self._error: OSError | None = None
        self._result = 0
        self._state = _NEW

    @classmethod
    def read(cls, nbytes: int, fd: int, offset: int = 0, priority: int = 0) -> Self:
        """Read up to `nbytes` bytes from `offset`, which pipes and sockets ignore."""
        nbytes = operator.index(nbytes)
        if nbytes < 0:
            raise OverflowError("nbytes must not be negative")
        return cls(_READ, fd, offset, memoryview(bytearray(nbytes)), nbytes, priority)

    @classmethod
    def write(cls, payload_bytes: Buffer, fd: int, offset: int = 0, priority: int = 0) -> Self:
        """Write any object with contiguous memory. It must not change until the operation is done."""
        try:
            view = memoryview(payload_bytes)
        except TypeError:
            raise ValueError(f"payload_bytes must be bytes or a buffer, not {payload_bytes!r}") from None
        if not view.c_contiguous:
            raise ValueError("payload_bytes must be contiguous")
        return cls(_WRITE, fd, offset, payload_bytes, view.nbytes, priority)

    @classmethod
    def fsync(cls, fd: int, priority: int = 0) -> Self:
        """Bring the file's data and metadata to its device."""
        return cls(_FSYNC, fd, 0, None, 0, priority)

    @classmethod
    def fdsync(cls, fd: int, priority: int = 0) -> Self:
        """Bring the file's data to its device, and of its metadata what a read needs."""
        return cls(_FDSYNC, fd, 0, None, 0, priority)

    def get_value(self) -> bytes | int | None:
        """What was read, how much was written, None for the rest and before it was submitted.

        Raises the operation's OSError, which is a SystemError too; RuntimeError while it is in flight.
        """
        if self._state == _SUBMITTED:
            raise RuntimeError("get_value() is not available while the operation is in flight")
        if self._error is not None:
            raise failure(self._error)
        if self._state == _NEW:
            return None
        if self._kind == _READ:
            return bytes(self._payload[: self._result])
        return self._result if self._kind == _WRITE else None

    @property
    def fileno(self) -> int:
        """The descriptor."""
        return self._fd

    @property
    def offset(self) -> int:
        """Where in the file."""
        return self._offset

    @property
    def payload(self) -> Any:
        """A read's memory as a memoryview, the object to write, or None."""
        return self._payload

    @property
    def nbytes(self) -> int:
        """The size asked for; once done, what was moved."""
        return self._nbytes

    @property
    def priority(self) -> int:
        """Kept, and like there without effect."""
        return self._priority

    @property
    def context(self) -> AbstractContext | None:
        """The context it was submitted to."""
        return self._context

    @property
    def result(self) -> int:
        """What the callback is called with."""
        return self._result

    @property
    def error(self) -> int:
        """The errno of a failure, or 0."""
        return 0 if self._error is None else self._error.errno or errno.EIO

    def set_callback(self, callback: Callable[[int], Any]) -> bool:
        """Call this with the result, -errno where it failed. The last one set is called; always True."""
        if not callable(callback):
            raise ValueError(f"callback must be callable, not {callback!r}")
        self._callback = callback
        return True

    def __repr__(self) -> str:
        return f"<Operation {self._kind} fd={self._fd} offset={self._offset} nbytes={self._nbytes}>"

    # For the contexts

    def _start(self) -> aio.Op:
        """The op to submit. A descriptor that is not open is the op's failure, not this one's."""
        fd, kind = self._fd, self._kind
        if kind == _FSYNC:
            return aio.Fsync(fd)
        if kind == _FDSYNC:
            return aio.Fdatasync(fd)
        try:
            direct = fcntl(fd, F_GETFL) & os.O_DIRECT
        except OSError:
            direct = 0
        if kind == _READ:
            if direct:
                self._payload = aio.aligned(self._nbytes, _files.DIRECT_ALIGNMENT_BYTES)
            return aio.Read(fd, self._payload, self._offset)
        payload = _files.aligned_copy(self._payload) if direct else self._payload
        return aio.Write(fd, payload, self._offset)

    def _read_cached(self, context: AbstractContext) -> bool | None:
        """Do a read now if all of it is in the page cache; whether it was, and None if it cannot be told.

        Files that are read past the cache, pipes and what the system refuses are left to the engine.
        """
        if self._kind != _READ or not self._nbytes or self._offset < 0:
            return None
        try:
            if fcntl(self._fd, F_GETFL) & os.O_DIRECT:
                return None
            count = os.preadv(self._fd, (self._payload,), self._offset, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except (OSError, OverflowError):
            return None
        # Less may be the end of the file, or of what is cached: the engine finds out.
        if count < self._nbytes:
            return None
        # An awaited operation calls no callback but the await's own.
        self._callback = None
        self._submitted(context)
        self._finish(count, None)
        return True

    def _submitted(self, context: AbstractContext) -> None:
        self._context = context
        self._state = _SUBMITTED

    def _finish(self, result: int, error: OSError | None) -> None:
        """The end: the result is there before the callback is called. What that raises is the caller's."""
        self._error = error
        self._result = result if error is None else -(error.errno or errno.EIO)
        if error is None and self._kind in (_READ, _WRITE):
            self._nbytes = result
        self._state = _DONE
        if self._callback is not None:
            self._callback(self._result)

    @property
    def _is_new(self) -> bool:
        return self._state == _NEW
