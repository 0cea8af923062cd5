"""What every file of aiofiles is: an object whose methods are awaited.

`_file` is a file of proactor, whose methods are awaited already, or any synchronous file, whose methods run
in threads.
"""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from proactor import _pool
from proactor._open import BinaryFile, TextFile
from proactor._stdio import StandardStream
from proactor._temporary import NamedFile

if TYPE_CHECKING:
    from concurrent.futures import Executor
__all__ = ["AiofilesContextManager", "AsyncBase", "AsyncIndirectBase", "wrap"]

T = TypeVar("T")
Data = TypeVar("Data", str, bytes)
File = TypeVar("File")


def run(executor: Executor | None, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Awaitable[T]:
    """Starts a call in the executor, or in a thread of proactor's pool."""
    if executor is None:
        return _pool.run(function, *args, **kwargs)
    # Without the context variables: the executor may be of processes, to which they cannot be sent.
    call = partial(function, *args, **kwargs)
    return asyncio.get_running_loop().run_in_executor(executor, call)


def check_loop(loop: Any) -> None:
    """Refuses another loop than the running one: nothing could be awaited there."""
    if loop is not None and loop is not asyncio.get_running_loop():
        raise RuntimeError(f"loop: {loop!r} is not the running loop, in which files are used: leave it out")


def wrap(func: Callable[..., T]) -> Callable[..., Coroutine[Any, Any, T]]:
    """A coroutine function that calls `func` in a thread. It takes `loop` and `executor` as well.

    Cancelled before a thread has taken the call, it is never made. Later it runs to its end, unheard.
    """

    @wraps(func)
    async def call(*args: Any, loop: Any = None, executor: Executor | None = None, **kwargs: Any) -> T:
        check_loop(loop)
        return await run(executor, func, *args, **kwargs)

    return call


def nothing_underneath(what: str) -> io.UnsupportedOperation:
    return io.UnsupportedOperation(f"{what}: no synchronous file is underneath; open it with an executor")


# Files of proactor.
_NATIVE = (BinaryFile, TextFile, NamedFile, StandardStream)


def is_native(file: Any) -> bool:
    """Whether it is a file of proactor."""
    return isinstance(file, _NATIVE)


# Files that are closed behind what was detached of them.
_closing: set[asyncio.Task[None]] = set()


def _now(call: Coroutine[Any, Any, T]) -> T:
    """The value of a call that need not wait."""
    try:
        call.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    call.close()
    raise nothing_underneath("detach, while something is to be waited for")


def _detached(*args: Any, **kwargs: Any) -> Any:
    raise ValueError("raw stream has been detached")


class _Detached:
    """In the place of a file that was detached."""

    def __getattr__(self, name: str) -> Any:
        _detached()


class AsyncBase(Generic[Data]):
    """A file whose methods are coroutines. What they do is what the methods of `io`'s files do."""

    _file: Any

    def __init__(self, file: Any, loop: Any = None, executor: Executor | None = None) -> None:
        if asyncio._get_running_loop() is not None:
            check_loop(loop)
        self._file = file
        self._executor = executor
        if is_native(file):
            ours = [name for name, method in self._HOT.items() if getattr(type(self), name) is method]
            self.__dict__.update({name: getattr(file, name) for name in ours})

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def _call(self, name: str, /, *args: Any, **kwargs: Any) -> T:
        method = getattr(self._file, name)
        if not is_native(self._file):
            return await run(self._executor, method, *args, **kwargs)
        value = method(*args, **kwargs)
        result: T = await value if isawaitable(value) else value
        return result

    async def _leave(self, *exc_info: Any) -> None:
        """The end of `async with`."""
        await self._call("__aexit__" if is_native(self._file) else "__exit__", *exc_info)

    async def close(self) -> None:
        """Flushes and closes; does nothing the second time."""
        await self._call("close")

    async def flush(self) -> None:
        """Brings what was written to the kernel (not to the device)."""
        await self._call("flush")

    async def isatty(self) -> bool:
        """Whether it is a terminal."""
        return await self._call("isatty")

    async def read(self, *args: Any, **kwargs: Any) -> Data:
        """Reads as many bytes or characters as asked for, by default all that is left."""
        return await self._call("read", *args, **kwargs)

    async def readline(self, *args: Any, **kwargs: Any) -> Data:
        """Reads one line with its end. Empty is the end of the file."""
        return await self._call("readline", *args, **kwargs)

    async def readlines(self, *args: Any, **kwargs: Any) -> list[Data]:
        """Reads all lines that are left, or until they have more than so many bytes or characters."""
        return await self._call("readlines", *args, **kwargs)

    async def seek(self, *args: Any, **kwargs: Any) -> int:
        """Goes to a position, and returns it."""
        return await self._call("seek", *args, **kwargs)

    async def seekable(self) -> bool:
        """Whether it has positions."""
        return await self._call("seekable")

    async def tell(self) -> int:
        """The position."""
        return await self._call("tell")

    async def truncate(self, *args: Any, **kwargs: Any) -> int:
        """Sets the file's length, by default to the position. Returns it."""
        return await self._call("truncate", *args, **kwargs)

    async def writable(self) -> bool:
        """Whether it can be written."""
        return await self._call("writable")

    async def write(self, *args: Any, **kwargs: Any) -> int:
        """Writes, and returns how many bytes or characters."""
        return await self._call("write", *args, **kwargs)

    async def writelines(self, *args: Any, **kwargs: Any) -> None:
        """Writes from an iterable, one after the other. No line ends are added."""
        await self._call("writelines", *args, **kwargs)

    # What may be called once a line. An object over a file of proactor has its methods of these names for its
    # own, so that calling them costs no frame of Python; but not where a subclass or a patch has another one.
    _HOT: ClassVar[dict[str, Callable[..., Any]]] = {
        "read": read,
        "readline": readline,
        "readlines": readlines,
        "seek": seek,
        "tell": tell,
        "write": write,
        "writelines": writelines,
    }

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        closed: bool = self._file.closed
        return closed

    @property
    def name(self) -> Any:
        """The file's name as it was given to `open`: a path, or a descriptor."""
        return self._file.name

    @property
    def mode(self) -> Any:
        """The mode in which it was opened."""
        return self._file.mode

    def fileno(self) -> int:
        """The descriptor."""
        fd: int = self._file.fileno()
        return fd

    def detach(self) -> Any:
        """Separates the raw file and returns it; this one raises ValueError from then on.

        Of a file of proactor it is a new `io.FileIO` at the same position. A text file has none, nor has
        one with so much unwritten that it has to be waited for: `flush` it before.
        """
        if not is_native(self._file):
            return self._file.detach()
        file = self._file
        if not isinstance(file, BinaryFile):
            raise nothing_underneath("detach")
        if file.writable():
            _now(file.flush())
        place = _now(file.tell()) if file.seekable() else None
        raw = io.FileIO(os.dup(file.fileno()), file.mode.replace("b", ""))
        if place is not None:
            raw.seek(place)
        closing = asyncio.get_running_loop().create_task(file.close())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)
        self.__dict__.update(dict.fromkeys(self._HOT, _detached), _file=_Detached())
        return raw

    def __aiter__(self) -> Any:
        # Which has lines of its own, unless they are to be `readline`'s.
        kind = type(self)
        has_ours = kind.readline is self._HOT["readline"] and kind.__anext__ is _NEXT
        return aiter(self._file) if is_native(self._file) and has_ours else self

    async def __anext__(self) -> Data:
        line = await self.readline()
        if line:
            return line
        raise StopAsyncIteration

    def __repr__(self) -> str:
        return f"{super().__repr__()} wrapping {self._file!r}"


# As in `_HOT`.
_NEXT = AsyncBase.__anext__


class AsyncIndirectBase(AsyncBase[Data]):
    """A file that is looked up each time it is used, as `sys.stdin` must be."""

    def __init__(self, name: str, loop: Any, executor: Executor | None, indirect: Callable[[], Any]) -> None:
        self._name = name
        self._executor = executor
        self._indirect = indirect

    @property
    def _file(self) -> Any:
        return self._indirect()


class AiofilesContextManager(Awaitable[File], AbstractAsyncContextManager[File]):
    """What `open` returns: await it, once or more often, or use it in `async with`."""

    __slots__ = ("_coro", "_obj")

    def __init__(self, coro: Coroutine[Any, Any, File]) -> None:
        self._coro = coro
        self._obj: File | None = None

    def __await__(self) -> Generator[Any, Any, File]:
        if self._obj is None:
            self._obj = yield from self._coro.__await__()
        return self._obj

    async def __aenter__(self) -> File:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        file, self._obj = self._obj, None
        leave = getattr(type(file), "_leave", _leave_unknown)
        await leave(file, kind, error, traceback)


async def _leave_unknown(file: Any, *exc_info: Any) -> None:
    """The end of `async with` for a type that a user has registered with `threadpool.wrap`."""
    await run(None, file._file.__exit__, *exc_info)
