"""`AIOFile`: a file without a position, and the contexts that do its operations."""

from __future__ import annotations

import asyncio
import errno
import io
import operator
import os
import sys
import warnings
import weakref
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

from proactor import _pool
from proactor._open import BinaryFile
from proactor._open import open as open_file
from proactor.compat import caio
from proactor.compat.caio.asyncio_base import AsyncioContextBase
from proactor.compat.caio.operation import failure

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

__all__ = [
    "AIO_FILE_CLOSED",
    "AIO_FILE_NOT_OPENED",
    "DEFAULT_CONTEXT_STORE",
    "AIOFile",
    "FileMode",
    "create_context",
    "get_default_context",
    "parse_mode",
]

T = TypeVar("T")

AIO_FILE_NOT_OPENED = -1
AIO_FILE_CLOSED = -2

# Read at a time where the size is not known.
_BLOCK_BYTES = 1 << 16


class FileMode(NamedTuple):
    """What a mode such as "r+b" means."""

    readable: bool
    writable: bool
    plus: bool
    appending: bool
    created: bool
    flags: int
    binary: bool


def parse_mode(mode: str) -> FileMode:
    """What a mode means. ValueError for more than one of "r", "w" and "a", or two "+"."""
    if sum(map(mode.count, "rwa")) > 1 or mode.count("+") > 1:
        raise ValueError("Bad mode")
    plus, appending, created, truncating = "+" in mode, "a" in mode, "x" in mode, "w" in mode
    readable = "r" in mode or plus
    writable = appending or created or truncating or plus
    flags = os.O_RDWR if readable and writable else os.O_RDONLY if readable else os.O_WRONLY
    if appending or created or truncating:
        flags |= os.O_CREAT
    for given, flag in ((appending, os.O_APPEND), (created, os.O_EXCL), (truncating, os.O_TRUNC)):
        flags |= flag if given else 0
    return FileMode(readable, writable, plus, appending, created, flags, "b" in mode)


def create_context(max_requests: int = caio.AsyncioContext.MAX_REQUESTS_DEFAULT) -> caio.AsyncioContext:
    """A context of one's own, for the running loop. The caller closes it."""
    return caio.AsyncioContext(max_requests)


# A loop keeps its context alive, whose descriptor it watches; both end together.
_contexts: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[caio.AsyncioContext]] = (
    weakref.WeakKeyDictionary()
)

# The contexts that `get_default_context` has made, by the loop's id. For reading: each ends with its loop.
DEFAULT_CONTEXT_STORE: weakref.WeakValueDictionary[int, caio.AsyncioContext] = weakref.WeakValueDictionary()


def get_default_context() -> caio.AsyncioContext:
    """The running loop's context, made on first use."""
    loop = asyncio.get_running_loop()
    reference = _contexts.get(loop)
    context = reference() if reference is not None else None
    if context is None:
        context = create_context()
        _contexts[loop] = weakref.ref(context)
        DEFAULT_CONTEXT_STORE[id(loop)] = context
    return context


class _Native:
    """The operations of a context by the file itself, which needs no context."""

    def __init__(self, file: BinaryFile) -> None:
        self._file = file

    def read(self, nbytes: int, fd: int, offset: int) -> Awaitable[bytes]:
        return self._file.pread(nbytes, offset)

    def write(self, payload: bytes, fd: int, offset: int) -> Awaitable[int]:
        return self._file.pwrite(payload, offset)

    def fsync(self, fd: int) -> Awaitable[None]:
        return self._file.fsync()

    def fdsync(self, fd: int) -> Awaitable[None]:
        return self._file.fdatasync()


def _failure(error: OSError) -> OSError:
    """The same as an error of a context, which is a SystemError too."""
    if isinstance(error, io.UnsupportedOperation):
        # What the kernel says of a descriptor that was not opened for this.
        return failure(OSError(errno.EBADF, os.strerror(errno.EBADF)))
    return failure(error)


def warn_of_no_effect(argument: str, why: str) -> None:
    """Warns of the line that called into this package."""
    frame, level = sys._getframe(1), 1
    package = __name__.rpartition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(f"{package}."):
        frame, level = frame.f_back, level + 1
    warnings.warn(f"{argument} has no effect: {why}; leave it out", RuntimeWarning, stacklevel=level + 1)


class AIOFile:
    """A file without a position: each read and write says where.

    Await it, or `open`, or use it in `async with`. Operations run concurrently, those that the context has no
    room for after the others. A cancelled read or write may have happened.
    """

    def __init__(
        self,
        filename: str | bytes | os.PathLike[str] | os.PathLike[bytes],
        mode: str = "r",
        encoding: str = "utf-8",
        context: Any = None,
        executor: Any = None,
    ) -> None:
        if executor is not None:
            warn_of_no_effect("executor", "opening and closing take no thread of it")
        self._name: Any = os.fspath(filename)
        self._mode_text = mode
        self.mode: FileMode = parse_mode(mode)
        self._encoding = encoding
        self._context = context
        # What was opened here, or given by `from_fp`.
        self._file: BinaryFile | IO[Any] | None = None
        self._is_ours = True
        self._opening = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None
        self._clones = 0
        self._users = 0
        self._unused: asyncio.Event = asyncio.Event()

    @classmethod
    def from_fp(cls, fp: IO[Any], **kwargs: Any) -> Self:
        """The same over an open file, which `close` leaves open. Its position stays as it is."""
        file = cls("", fp.mode, **kwargs)
        # A path, or a descriptor.
        file._name = fp.name
        file._file = fp
        file._is_ours = False
        return file

    @property
    def name(self) -> Any:
        """Its path."""
        return self._name

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop."""
        return asyncio.get_running_loop()

    @property
    def encoding(self) -> str:
        """The name of the encoding of a text file."""
        return self._encoding

    @property
    def closed(self) -> bool:
        """Whether it is closed, or not open yet."""
        return self._file is None or self._file.closed

    def __repr__(self) -> str:
        return f"<AIOFile: {self._name!r}>"

    # Opening and closing

    async def open(self) -> int | None:
        """Opens it and returns the descriptor; None if it is open. Raises InvalidStateError if it was closed.

        OSError and, for a mode that is none, ValueError as of the built-in `open`.
        """
        async with self._opening:
            if self._closing is not None:
                raise asyncio.InvalidStateError("AIOFile closed")
            if self._file is not None:
                return None
            binary = self._mode_text if "b" in self._mode_text else self._mode_text.replace("t", "") + "b"
            self._file = await open_file(self._name, binary, 0)  # type: ignore[assignment]
            return self.fileno()

    def __await__(self) -> Generator[Any, Any, Self]:
        yield from self.open().__await__()
        return self

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self.close())

    async def clone(self) -> Self:
        """The same object; it needs one `close` more."""
        self._clones += 1
        return self

    async def close(self) -> None:
        """Waits for the operations in flight, brings what was written to the device, and closes.

        Does nothing the second time. When it is cancelled it goes on by itself.
        """
        if self._clones:
            self._clones -= 1
            return
        if self._file is None:
            return
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(self._file))
        if not self._closing.done():
            await asyncio.shield(self._closing)

    async def _close(self, file: BinaryFile | IO[Any]) -> None:
        while self._users:
            self._unused.clear()
            await self._unused.wait()
        fd = file.fileno()
        context = self._engine() if self.mode.writable else self._context
        try:
            if isinstance(context, AsyncioContextBase):
                await context._settled(fd)
            if self.mode.writable:
                await self._sync(context, fd)
        finally:
            if isinstance(file, BinaryFile):
                await file.close()
            else:
                # Not ours to close: it can be used on.
                self._closing = None

    @staticmethod
    async def _sync(context: Any, fd: int) -> None:
        try:
            await context.fdsync(fd)
        except OSError as error:
            # What has no device cannot be synchronised with it.
            if error.errno not in (errno.EINVAL, errno.EROFS, errno.ENOTSUP):
                raise

    def fileno(self) -> int:
        """The descriptor. InvalidStateError if it is not open yet, ValueError if it is closed."""
        if self._file is None:
            raise asyncio.InvalidStateError("AIOFile closed")
        if self._closing is not None:
            raise ValueError("I/O operation on closed file")
        return self._file.fileno()

    # Operations

    def _engine(self) -> Any:
        if self._context is None:
            file = self._file
            # (Only a context takes what has no positions, such as a pipe.)
            if isinstance(file, BinaryFile) and file.seekable():
                self._context = _Native(file)
            else:
                self._context = get_default_context()
        return self._context

    async def _use(self, operation: Callable[[int], Awaitable[T]]) -> T:
        """Does something with the descriptor, which is not closed meanwhile."""
        fd = self.fileno()
        self._users += 1
        try:
            return await operation(fd)
        except SystemError:
            raise
        except OSError as error:
            raise _failure(error) from error
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    async def read_bytes(self, size: int = -1, offset: int = 0) -> bytes:
        """Reads `size` bytes from `offset` on, fewer if there are fewer; all that follow if it is -1."""
        size = operator.index(size)
        if size < -1:
            raise ValueError(f"Unsupported value {size} for size")
        if size == 0:
            self.fileno()
            return b""
        if size > 0:
            return await self._use(lambda fd: self._engine().read(size, fd, offset))
        return await self._use(lambda fd: self._read_all(fd, offset))

    async def _read_all(self, fd: int, offset: int) -> bytes:
        # A byte more than there should be: a read that is short then was to the end. Where no size is stated
        # only a read of nothing is the end.
        left = os.fstat(fd).st_size - offset
        size = left + 1 if left > 0 else _BLOCK_BYTES
        blocks: list[bytes] = []
        while block := await self._engine().read(size, fd, offset):
            blocks.append(block)
            if left > 0 and len(block) < size:
                break
            offset += len(block)
            left, size = 0, _BLOCK_BYTES
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)

    async def read(self, size: int = -1, offset: int = 0) -> Any:
        """Reads `size` bytes from `offset` on; of a text file the string that they are.

        UnicodeDecodeError if they end within a character.
        """
        data = await self.read_bytes(size, offset)
        return data if self.mode.binary else self.decode_bytes(data)

    async def write_bytes(self, data: Buffer, offset: int = 0) -> int:
        """Writes all of it at `offset`, or at the end of a file that is appended to. Returns its length."""
        try:
            payload = data if isinstance(data, bytes) else memoryview(data).tobytes()
        except TypeError:
            raise ValueError(f"data must be bytes, not {type(data).__name__}") from None
        return await self._use(lambda fd: self._write_all(fd, payload, offset))

    async def _write_all(self, fd: int, data: bytes, offset: int) -> int:
        done = 0
        while done < len(data):
            # (The whole of bytes is the same object.)
            count = await self._engine().write(data[done:], fd, offset + done)
            # A context of somebody else's may answer so; to go on would be to try for ever.
            if count == 0:
                raise RuntimeError("Write operation returned 0", self, offset, done)
            if count < 0:
                raise OSError(-count, os.strerror(-count), self._name)
            done += count
        return done

    async def write(self, data: Any, offset: int = 0) -> int:
        """Writes a string, or to a binary file bytes, at `offset`. Returns how many bytes."""
        if not self.mode.binary:
            if not isinstance(data, str):
                raise ValueError("Data must be str in text mode")
            data = self.encode_bytes(data)
        elif isinstance(data, str):
            raise ValueError("Data must be bytes in binary mode")
        return await self.write_bytes(data, offset)

    def encode_bytes(self, data: str) -> bytes:
        """A string in the file's encoding."""
        return data.encode(self._encoding)

    def decode_bytes(self, data: bytes) -> str:
        """The string that bytes are in the file's encoding."""
        return data.decode(self._encoding)

    async def fsync(self) -> None:
        """Brings the file's data and metadata to its device."""
        await self._use(lambda fd: self._engine().fsync(fd))

    async def fdsync(self) -> None:
        """Brings the file's data to its device, and of its metadata what a read needs."""
        await self._use(lambda fd: self._engine().fdsync(fd))

    async def truncate(self, length: int = 0) -> None:
        """Sets the file's length."""
        await self._use(lambda fd: _pool.run(os.ftruncate, fd, length))
