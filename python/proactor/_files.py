"""Whole files on an event loop."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, overload

from proactor._encoding import PIECE
from proactor._length import length_of
from proactor._native import ReadMany, read_bytes, write_bytes

if TYPE_CHECKING:
    from typing import TypeAlias

StrOrBytesPath: TypeAlias = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
P = TypeVar("P", bound=StrOrBytesPath | tuple[StrOrBytesPath, int, int])
V = TypeVar("V")
B = TypeVar("B")
G = TypeVar("G", bound=tuple[Any, ...])
Item = TypeVar("Item")

__all__ = ["read_bytes", "read_bytes_many", "read_many", "read_text", "write_bytes", "write_text"]


async def read_text(
    path: StrOrBytesPath,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    engine: str | None = None,
) -> str:
    """Reads a whole text file, as `open(path, encoding=..., errors=..., newline=...).read()` would.

    Raises what `read_bytes` raises, and UnicodeDecodeError, LookupError or ValueError as `open` does.
    """
    # Its EncodingWarning is to name the line that awaits us.
    encoding = io.text_encoding(encoding, 2)  # type: ignore[attr-defined]
    data = await read_bytes(path, engine=engine)
    # TextIOWrapper knows all of it: the locale's encoding, byte order marks, universal newlines.
    with io.TextIOWrapper(io.BytesIO(data), encoding=encoding, errors=errors, newline=newline) as text:
        if len(data) <= PIECE:
            return text.read()
        pieces = []
        try:
            while piece := text.read(PIECE):
                pieces.append(piece)
                await asyncio.sleep(0)
            return "".join(pieces)
        except UnicodeError:
            text.seek(0)
        # Again at once, for the error with positions in all of it.
        return text.read()


async def write_text(
    path: StrOrBytesPath,
    data: str,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    *,
    append: bool = False,
    exclusive: bool = False,
    mode: int = 0o666,
    sync: bool = False,
    engine: str | None = None,
) -> int:
    """Creates or truncates a text file and returns the number of characters written.

    The text is encoded before the file is touched. See `write_bytes` for the other arguments.
    """
    if not isinstance(data, str):
        raise TypeError(f"data must be str, not {type(data).__name__}")
    encoding = io.text_encoding(encoding, 2)  # type: ignore[attr-defined]
    buffer = io.BytesIO()
    text = io.TextIOWrapper(buffer, encoding=encoding, errors=errors, newline=newline)
    if len(data) <= PIECE:
        text.write(data)
    else:
        try:
            for start in range(0, len(data), PIECE):
                text.write(data[start : start + PIECE])
                await asyncio.sleep(0)
        except UnicodeError:
            # Again at once, for the error with positions in all of it.
            io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors, newline=newline).write(data)
            raise
    text.flush()
    await write_bytes(
        path, buffer.getbuffer(), append=append, exclusive=exclusive, mode=mode, sync=sync, engine=engine
    )
    return len(data)


class FileBatch(ReadMany[Item, V]):
    """What `read_many` gives: an asynchronous iterator, to be closed if it is left early."""

    _length: int | None

    def __len__(self) -> int:
        """The number of items that the batch was made for. TypeError if their iterable does not know it."""
        if self._length is None:
            raise TypeError(
                "this read_many() does not know how many files there are: its paths have no len()"
            )
        return self._length

    def __bool__(self) -> bool:
        return True

    async def __aenter__(self) -> FileBatch[Item, V]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Gives up the files that are in flight or were read ahead, as `async with` does at its end.

        There is no next file then. Raises RuntimeError while a task waits for one.
        """
        self._close()


def _batch(items: Iterable[Item], **arguments: Any) -> FileBatch[Item, Any]:
    batch: FileBatch[Item, Any] = FileBatch(items, **arguments)
    batch._length = length_of(items)
    return batch


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
    """Reads many whole files: `async for path, data in read_many(paths)`.

    - `paths`: any iterable of str, bytes or path-like; taken from as the files are used, so it may be
      endless. An item may also be a tuple `(path, offset, size)`, which reads the range of at most `size`
      bytes at `offset`; the pair then has the tuple in place of the path.
    - `concurrency`: the most files in flight or read ahead, at least 1; memory is bounded by that many files.
    - `ordered`: in the order of `paths`; otherwise as they arrive, which is faster where some files are
      cached.
    - `return_exceptions`: by default a file that cannot be read raises its exception (an OSError with
      filename), and the next step goes on with the next file. True gives the exception in place of the
      file's bytes.
    - `workers`: threads that help with cached files, at least 0. They take chunks of up to 8 files off the
      calling thread: with two processors one makes a batch of thousands of cached files 1.3 to 1.7 times as
      fast, for a fifth more processor time. It helps from a `concurrency` of 32 on, and needs 4. It has no
      effect with `into`: ValueError.
    - `engine`: as in `proactor.aio.Context`.
    - `into`: a function that gives a writable buffer for a number of bytes, such as `bytearray` or
      `lambda size: np.empty(size, np.uint8)`. The file is read into that buffer, which takes the place of
      the bytes. Of a buffer that is larger its first bytes are the file's.
    - `progress`: a function of the number of files and of bytes that have been handed out. It is called when
      the next file is asked for, and at the end.

    Without `workers` cached files are read in the calling thread, without suspending; the loop gets its turn
    every millisecond. A cancelled `__anext__` loses nothing: files in flight stay, and iterating goes on.
    A loop that is left early, or cancelled, gives up the files in flight when nobody has the batch any more;
    `async with read_many(...) as batch` does so at its end. `len(batch)` is the length of `paths`, if it has
    one.

    `await anext(batch)` gives the next file alone, as a pair. The batch itself cannot be awaited: TypeError.

    Raises TypeError if `paths` is one path or no iterable, and ValueError for a number out of its bounds.
    """
    return _batch(
        paths,
        concurrency=concurrency,
        ordered=ordered,
        return_exceptions=return_exceptions,
        workers=workers,
        engine=engine,
        into=into,
        progress=progress,
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
    """Reads files into the caller's buffers: `async for (path, buffer), count in read_bytes_many(items)`.

    - `items`: pairs `(path, buffer)`, each with a writable buffer of its own, or
      `(path, buffer, offset, size)` for the range of at most `size` bytes at `offset`. `count` is the number
      of bytes that were read.
    - The other arguments are those of `read_many`.

    A file, or range, that has more bytes than its buffer is an OSError (EFBIG). A buffer is exported, so that
    it cannot be resized, until its item is handed out.
    """
    return _batch(
        items,
        concurrency=concurrency,
        ordered=ordered,
        return_exceptions=return_exceptions,
        engine=engine,
        progress=progress,
        given=True,
    )
