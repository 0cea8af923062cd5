"""The methods that files of every kind have, as coroutines over one way to call them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterable, Coroutine, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any, AnyStr, Generic, TypeVar

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

# Lines that go to a thread together.
LINES_AT_ONCE = 1000

# Methods that do no I/O, and stay as they are.
PLAIN = frozenset({"fileno", "getbuffer", "getvalue", "isatty", "readable", "seekable", "writable"})

Self = TypeVar("Self", bound="Methods[Any]")


class Methods(Generic[AnyStr]):
    """A file's methods. Which of them it truly has, and what they do, is the file's affair underneath."""

    @abstractmethod
    async def _call(self, name: str, *arguments: Any) -> Any:
        """Calls the method of this name."""

    def read(self, size: int | None = -1, /) -> Coroutine[Any, Any, AnyStr]:
        """Reads at most `size` characters or bytes, or all that is left if it is None or negative."""
        return self._call("read", size)

    def read1(self: Methods[bytes], size: int = -1, /) -> Coroutine[Any, Any, bytes]:
        """Reads at most `size` bytes with at most one read of what is underneath."""
        return self._call("read1", size)

    def readinto(self: Methods[bytes], buffer: Buffer, /) -> Coroutine[Any, Any, int]:
        """Reads into a writable buffer and returns the number of bytes."""
        return self._call("readinto", buffer)

    def readinto1(self: Methods[bytes], buffer: Buffer, /) -> Coroutine[Any, Any, int]:
        """As `readinto`, with at most one read of what is underneath."""
        return self._call("readinto1", buffer)

    def peek(self: Methods[bytes], size: int = 0, /) -> Coroutine[Any, Any, bytes]:
        """What is in the buffer, after one read if it was empty; the position stays."""
        return self._call("peek", size)

    def readline(self, size: int = -1, /) -> Coroutine[Any, Any, AnyStr]:
        """Reads one line with its end, or at most `size` of it. Nothing is the end of the file."""
        return self._call("readline", size)

    def readlines(self, hint: int = -1, /) -> Coroutine[Any, Any, list[AnyStr]]:
        """Reads all lines that are left, or lines until they have more than `hint` together."""
        return self._call("readlines", hint)

    def write(self, data: AnyStr, /) -> Coroutine[Any, Any, int]:
        """Writes, and returns the number of characters or bytes written."""
        return self._call("write", data)

    async def writelines(self, lines: Iterable[AnyStr] | AsyncIterable[AnyStr], /) -> None:
        """Writes one after the other, from an iterable of either kind. No line ends are added."""
        if isinstance(lines, AsyncIterable):
            async for line in lines:
                await self._call("write", line)
            return
        left = iter(lines)
        while some := list(islice(left, LINES_AT_ONCE)):
            await self._call("writelines", some)

    def seek(self, offset: int, whence: int = 0, /) -> Coroutine[Any, Any, int]:
        """Goes to a place: from the start, the position (`whence` 1) or the end (2). Returns it."""
        return self._call("seek", offset, whence)

    def tell(self) -> Coroutine[Any, Any, int]:
        """The position."""
        return self._call("tell")

    def truncate(self, size: int | None = None, /) -> Coroutine[Any, Any, int]:
        """Sets the length to `size` bytes, by default the position. Returns it."""
        return self._call("truncate", size)

    def flush(self) -> Coroutine[Any, Any, None]:
        """Brings what was written to what is underneath."""
        return self._call("flush")

    def close(self) -> Coroutine[Any, Any, None]:
        """Flushes and closes; does nothing the second time."""
        return self._call("close")

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self: Self) -> Self:
        return self

    async def __anext__(self) -> AnyStr:
        line = await self.readline()
        if not line:
            raise StopAsyncIteration
        return line
