"""What every variant's Context and Operation have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

__all__ = ["AbstractContext", "AbstractOperation"]


class AbstractContext(ABC):
    """Operations go in; their callbacks are called."""

    @property
    @abstractmethod
    def max_requests(self) -> int:
        """How many operations may be in flight."""

    @abstractmethod
    def submit(self, *aio_operations: Any) -> int:
        """Start operations; how many were accepted."""

    @abstractmethod
    def cancel(self, *aio_operations: Any) -> int:
        """Ask operations to stop; how many did."""


class AbstractOperation(ABC):
    """One operation, for one use."""

    __slots__ = ()

    @classmethod
    @abstractmethod
    def read(cls, nbytes: int, fd: int, offset: int = 0, priority: int = 0) -> Self:
        """Read up to `nbytes` bytes."""

    @classmethod
    @abstractmethod
    def write(cls, payload_bytes: Buffer, fd: int, offset: int = 0, priority: int = 0) -> Self:
        """Write the payload."""

    @classmethod
    @abstractmethod
    def fsync(cls, fd: int, priority: int = 0) -> Self:
        """Bring the file's data and metadata to its device."""

    @classmethod
    @abstractmethod
    def fdsync(cls, fd: int, priority: int = 0) -> Self:
        """Bring the file's data to its device."""

    @abstractmethod
    def get_value(self) -> bytes | int | None:
        """The result: what was read, how much was written, None for the rest. Raises what went wrong."""

    @property
    @abstractmethod
    def fileno(self) -> int:
        """The descriptor."""

    @property
    @abstractmethod
    def offset(self) -> int:
        """Where in the file."""

    @property
    @abstractmethod
    def payload(self) -> Buffer | None:
        """The memory read into, the object to write, or None."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """The size asked for; once done, what was moved."""

    @abstractmethod
    def set_callback(self, callback: Callable[[int], Any]) -> bool:
        """Call this with the result, -errno where it failed. The last one set is called; always True."""
