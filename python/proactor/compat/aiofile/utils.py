"""Files with a position over `AIOFile`, and helpers that read or write one piece after the other."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import operator
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, Generator, Mapping
from types import MappingProxyType, TracebackType
from typing import IO, TYPE_CHECKING, Any, Generic, TypeVar, overload

from proactor.compat.aiofile._ahead import Ahead, BytesAhead, TextAhead
from proactor.compat.aiofile.aio import AIOFile

if TYPE_CHECKING:
    from _typeshed import OpenBinaryMode, OpenTextMode, StrOrBytesPath
    from typing_extensions import Self

__all__ = (
    "BinaryFileWrapper",
    "FileIOCloner",
    "FileIOWrapperBase",
    "LineReader",
    "Reader",
    "TextFileWrapper",
    "Writer",
    "async_open",
    "clone",
    "unicode_reader",
)

Data = TypeVar("Data", str, bytes)
File = TypeVar("File", bound="FileIOWrapperBase[Any]")

# The most bytes of one character.
ENCODING_MAP: Mapping[str, int] = MappingProxyType({"utf-8": 4, "utf-16": 8, "UTF-8": 4, "UTF-16": 8})

# What the wrappers read at a time when less is asked for.
_BLOCK_BYTES = 1 << 15


async def unicode_reader(
    afp: AIOFile, chunk_size: int, offset: int, encoding: str = "utf-8"
) -> tuple[int, str]:
    """Reads `chunk_size` bytes at `offset` and as many more as the last character takes.

    Returns how many bytes it read and the string that they are: (0, "") at the end. UnicodeDecodeError for
    what is none, also if the file ends within a character.
    """
    return await _read_characters(codecs.getincrementaldecoder(encoding)(), afp, chunk_size, offset)


async def _read_characters(decoder: Any, afp: AIOFile, size: int, offset: int) -> tuple[int, str]:
    data = await afp.read_bytes(size, offset)
    text: str = decoder.decode(data, not data)
    count = len(data)
    while data and decoder.getstate()[0]:
        data = await afp.read_bytes(1, offset + count)
        text += decoder.decode(data, not data)
        count += len(data)
    return count, text


class Reader(AsyncIterable[Any]):
    """Chunk after chunk of a file: `async for chunk in Reader(file)`.

    A chunk has `chunk_size` bytes, of a text file up to the next end of a character; the last one may be
    shorter.
    """

    CHUNK_SIZE = 32 * 1024

    __slots__ = ("_chunk_size", "_decoder", "_lock", "_offset", "encoding", "file")

    def __init__(self, aio_file: AIOFile, offset: int = 0, chunk_size: int = CHUNK_SIZE) -> None:
        self.file: AIOFile = aio_file
        self.encoding: str = aio_file.encoding
        self._chunk_size = int(chunk_size)
        self._offset = int(offset)
        self._lock = asyncio.Lock()
        self._decoder: Any = None if aio_file.mode.binary else codecs.getincrementaldecoder(self.encoding)()

    async def read_chunk(self) -> Any:
        """The next chunk; empty at the end of the file."""
        async with self._lock:
            if self._decoder is None:
                data = await self.file.read_bytes(self._chunk_size, self._offset)
                self._offset += len(data)
                return data
            state = self._decoder.getstate()
            try:
                count, text = await _read_characters(self._decoder, self.file, self._chunk_size, self._offset)
            except BaseException:
                self._decoder.setstate(state)
                raise
            self._offset += count
            return text

    async def __anext__(self) -> Any:
        chunk = await self.read_chunk()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def __aiter__(self) -> Self:
        return self


class Writer:
    """Piece after piece into a file: `await writer(data)`."""

    __slots__ = ("_file", "_lock", "_offset")

    def __init__(self, aio_file: AIOFile, offset: int = 0) -> None:
        self._file = aio_file
        self._offset = int(offset)
        self._lock = asyncio.Lock()

    async def __call__(self, data: Any) -> None:
        """Writes bytes, or a string in the file's encoding, behind what it wrote last."""
        payload = self._file.encode_bytes(data) if isinstance(data, str) else data
        async with self._lock:
            self._offset += await self._file.write_bytes(payload, self._offset)


def _ahead(file: AIOFile, offset: int) -> Ahead[Any]:
    return BytesAhead(file, offset) if file.mode.binary else TextAhead(file, offset)


class LineReader(AsyncIterable[Any]):
    """Line after line of a file: `async for line in LineReader(file)`.

    It reads `chunk_size` bytes at a time, or more for longer lines. Any string can be the line's end.
    """

    CHUNK_SIZE = 4192

    def __init__(
        self,
        aio_file: AIOFile,
        offset: int = 0,
        chunk_size: int = CHUNK_SIZE,
        line_sep: str | bytes = "\n",
    ) -> None:
        self._chunk_size = int(chunk_size)
        self._ahead = _ahead(aio_file, int(offset))
        binary = aio_file.mode.binary and isinstance(line_sep, str)
        self.linesep: Any = aio_file.encode_bytes(line_sep) if binary else line_sep  # type: ignore[arg-type]
        self._lock = asyncio.Lock()
        # Whole lines, taken already.
        self._lines: deque[Any] = deque()

    async def readline(self) -> Any:
        """The next line with its end; empty at the end of the file."""
        if self._lines:
            return self._lines.popleft()
        async with self._lock:
            if not self._lines:
                self._lines.append(await self._ahead.line(self.linesep, self._chunk_size))
                self._lines.extend(self._ahead.lines_at_hand(self.linesep))
            return self._lines.popleft()

    async def __anext__(self) -> Any:
        line = self._lines.popleft() if self._lines else await self.readline()
        if not line:
            raise StopAsyncIteration
        return line

    def __aiter__(self) -> Self:
        return self


class FileIOWrapperBase(ABC, Generic[Data]):
    """A file with a position in bytes, which belongs to it and not to the descriptor.

    Reads and writes are done one after the other. A cancelled read consumes nothing.
    """

    def __init__(self, afp: AIOFile, *, offset: int = 0) -> None:
        self.file = afp
        self._lock = asyncio.Lock()
        self._go_to(offset)
        # Where iterating starts.
        self._sought = 0
        self._is_closed = False
        # Whether the position is the end of the file, wherever that is once the file is open.
        self._at_end = afp.mode.appending
        if self._at_end:
            # (What is wrong with the path is said by `open`.)
            with contextlib.suppress(OSError, ValueError):
                self._go_to(os.stat(afp.name).st_size)
            self._find_end()

    def _find_end(self) -> None:
        """To be called before the position is used: the file may have been opened by hand."""
        if self._at_end and not self.file.closed:
            self._at_end = False
            self._go_to(os.fstat(self.file.fileno()).st_size)

    def _go_to(self, offset: int) -> None:
        self._ahead: Ahead[Data] = _ahead(self.file, offset)

    @abstractmethod
    async def read(self, length: int = -1) -> Data:
        """Reads so much, less only at the end; all that is left if it is -1."""

    @abstractmethod
    async def write(self, data: Data) -> int:
        """Writes all of it, and returns how many bytes."""

    @abstractmethod
    async def readline(self, size: int = -1, newline: Data = ...) -> Data:
        """Reads a line with its end, or at most `size` of it if that is above 0. Empty at the end."""

    async def _read(self, length: int) -> Data:
        length = operator.index(length)
        async with self._lock:
            self._find_end()
            ahead = self._ahead
            if length < 0:
                return await ahead.rest()
            while (missing := length - ahead.left()) > 0 and await ahead.more(max(missing, _BLOCK_BYTES)):
                pass
            self.file.fileno()
            return ahead.take(length)

    async def _write(self, data: Data) -> int:
        async with self._lock:
            self._find_end()
            ahead = self._ahead
            offset = ahead.tell()
            count = await self.file.write(data, offset)
            # Unless somebody went elsewhere meanwhile.
            if self._ahead is ahead:
                self._go_to(offset + count)
            return count

    async def _read_line(self, size: int, end: Data) -> Data:
        if not end:
            raise ValueError("newline must not be empty")
        self.file.fileno()
        self._find_end()
        if size <= 0:
            size = -1
        if size < 0 and not self._lock.locked() and (line := self._ahead.line_at_hand(end)):
            return line
        async with self._lock:
            return await self._ahead.line(end, _BLOCK_BYTES, size)

    def seek(self, offset: int) -> None:
        """Goes to a byte. A ValueError if it is negative."""
        offset = operator.index(offset)
        if offset < 0:
            raise ValueError(f"negative seek position {offset}")
        self._at_end = False
        self._sought = offset
        self._go_to(offset)

    def tell(self) -> int:
        """The position in bytes."""
        self._find_end()
        return self._ahead.tell()

    @property
    def closed(self) -> bool:
        """Whether the file underneath is closed, or not open yet."""
        return self.file.closed

    async def flush(self, sync_metadata: bool = False) -> None:
        """Brings the data to the device, and all metadata too if asked."""
        await (self.file.fsync() if sync_metadata else self.file.fdsync())

    async def close(self) -> None:
        """Closes the file, once its clones are closed. See `AIOFile.close`."""
        if not self._is_closed:
            self._is_closed = True
            await self.file.close()

    def __await__(self) -> Generator[Any, Any, Self]:
        yield from self.file.open().__await__()
        self._find_end()
        return self

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> LineReader:
        return LineReader(self.file, self._sought, _BLOCK_BYTES)

    def iter_chunked(self, chunk_size: int = Reader.CHUNK_SIZE) -> Reader:
        """Chunks from the position on, which stays where it is."""
        return Reader(self.file, self.tell(), chunk_size)


class BinaryFileWrapper(FileIOWrapperBase[bytes]):
    """What `async_open` gives for a binary mode."""

    def __init__(self, afp: AIOFile) -> None:
        if not afp.mode.binary:
            raise ValueError("Expected file in binary mode")
        super().__init__(afp)

    async def read(self, length: int = -1) -> bytes:
        """Reads so many bytes, fewer only at the end; all that are left if it is -1."""
        return await self._read(length)

    async def write(self, data: Any) -> int:
        """Writes all bytes, and returns how many."""
        return await self._write(data)

    async def readline(self, size: int = -1, newline: bytes = b"\n") -> bytes:
        """Reads a line with its end, or at most `size` bytes of it if that is above 0. b"" at the end."""
        return await self._read_line(size, newline)


class TextFileWrapper(FileIOWrapperBase[str]):
    """What `async_open` gives for a text mode."""

    def __init__(self, afp: AIOFile) -> None:
        if afp.mode.binary:
            raise ValueError("Expected file in text mode")
        super().__init__(afp)
        self.encoding: str = afp.encoding

    async def read(self, length: int = -1) -> str:
        """Reads so many characters, fewer only at the end; all that are left if it is -1."""
        return await self._read(length)

    async def write(self, data: str) -> int:
        """Writes a string, and returns how many bytes it took."""
        return await self._write(data)

    async def readline(self, size: int = -1, newline: str = "\n") -> str:
        """Reads a line with its end, or at most `size` characters of it if that is above 0. "" at the end."""
        return await self._read_line(size, newline)


@overload
def async_open(
    file_specifier: StrOrBytesPath,
    mode: OpenTextMode = "r",
    encoding: str = "utf-8",
    context: Any = None,
    executor: Any = None,
) -> TextFileWrapper: ...
@overload
def async_open(
    file_specifier: StrOrBytesPath,
    mode: OpenBinaryMode,
    encoding: str = "utf-8",
    context: Any = None,
    executor: Any = None,
) -> BinaryFileWrapper: ...
@overload
def async_open(file_specifier: IO[str], mode: str = "r", *args: Any, **kwargs: Any) -> TextFileWrapper: ...
@overload
def async_open(
    file_specifier: IO[bytes], mode: str = "r", *args: Any, **kwargs: Any
) -> BinaryFileWrapper: ...
@overload
def async_open(file_specifier: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any: ...
def async_open(file_specifier: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
    """A file with a position: `async with async_open(path) as f:` or `f = await async_open(path)`.

    The arguments behind the path are those of `AIOFile`. An open file's own mode and descriptor are used, and
    it is left open: `mode` is not used then, and the others are taken by name, as of `AIOFile.from_fp`.
    """
    if isinstance(file_specifier, (str, bytes, os.PathLike)):
        file = AIOFile(file_specifier, mode, *args, **kwargs)
    elif args:
        raise ValueError("arguments behind the mode of an open file must be named")
    else:
        file = AIOFile.from_fp(file_specifier, **kwargs)
    return BinaryFileWrapper(file) if file.mode.binary else TextFileWrapper(file)


class FileIOCloner(Generic[File]):
    """What `clone` returns: await it, or use it in `async with`. It makes one clone, however often."""

    def __init__(self, file: File) -> None:
        self.source_afp = file
        self.cloned_afp: File | None = None
        self._lock = asyncio.Lock()

    async def _make(self) -> File:
        async with self._lock:
            if self.cloned_afp is None:
                file = self.source_afp.file
                await file.open()
                self.cloned_afp = type(self.source_afp)(await file.clone())
            return self.cloned_afp

    def __await__(self) -> Generator[Any, Any, File]:
        return self._make().__await__()

    async def __aenter__(self) -> File:
        return await self._make()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.cloned_afp is not None:
            await self.cloned_afp.close()


def clone(afp: File) -> FileIOCloner[File]:
    """The same open file with a position of its own, from the start on. It needs a `close` of its own."""
    return FileIOCloner(afp)
