"""`open`: the built-in's names and rules, for event loops."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, suppress
from operator import index
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from proactor._encoding import resolve
from proactor._limiter import check
from proactor._native import BinaryFile, Opening, open_binary
from proactor._refuse import refuse
from proactor._text import TextFile

if TYPE_CHECKING:
    from _typeshed import FileDescriptorOrPath, OpenBinaryMode, OpenTextMode

__all__ = ["BinaryFile", "TextFile", "open"]


def start_close(file: BinaryFile) -> None:
    """Closes a file without waiting: what is left to do goes on by itself."""
    call = file.close()
    with suppress(StopIteration):
        call.send(None)
        call.close()


class TextOpening(Coroutine[Any, Any, TextFile]):
    """What `open` returns for a text mode: await it, or use it in `async with`. Nothing is opened before."""

    def __init__(self, opening: Opening, wrap: Callable[[BinaryFile], TextFile]) -> None:
        self._opening = opening
        self._wrap = wrap
        self._file: TextFile | None = None
        self._coroutine: Coroutine[Any, Any, TextFile] | None = None

    async def _open(self) -> TextFile:
        file = self._wrap(await self._opening)
        try:
            await file._begin()
        except BaseException:
            # Nobody will ever have it.
            start_close(file.buffer)
            raise
        self._file = file
        return file

    def _start(self) -> Coroutine[Any, Any, TextFile]:
        if self._coroutine is None:
            self._coroutine = self._open()
        return self._coroutine

    def __await__(self) -> Generator[Any, Any, TextFile]:
        return self._start().__await__()

    def send(self, value: Any) -> Any:
        return self._start().send(value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        if self._coroutine is None:
            # A task that is cancelled before it begins: nobody has forgotten to await this.
            self._opening.close()
        if val is None and tb is None:
            return self._start().throw(typ)
        return self._start().throw(typ, val, tb)

    def close(self) -> None:
        if self._coroutine is not None:
            self._coroutine.close()
        self._opening.close()

    async def __aenter__(self) -> TextFile:
        return await self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            await self._file.close()


@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenTextMode = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    direct: bool = False,
    engine: str | None = None,
    limiter: AbstractAsyncContextManager[Any] | None = None,
) -> TextOpening: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: int = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    direct: bool = False,
    engine: str | None = None,
    limiter: AbstractAsyncContextManager[Any] | None = None,
) -> Opening: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: str,
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    direct: bool = False,
    engine: str | None = None,
    limiter: AbstractAsyncContextManager[Any] | None = None,
) -> TextOpening | Opening: ...
def open(
    file: FileDescriptorOrPath,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    direct: bool = False,
    engine: str | None = None,
    limiter: AbstractAsyncContextManager[Any] | None = None,
) -> TextOpening | Opening:
    """Opens a file: `async with proactor.open(path) as f:` or `f = await proactor.open(path)`.

    All arguments but the last three are those of the built-in `open`, with the same modes and the same errors
    for bad values; OSError comes when it is awaited. `opener` is called in the calling thread. `engine`: see
    `proactor.aio.Context`.

    `direct=True` opens with O_DIRECT: reads and writes go past the kernel's cache, in blocks that are aligned
    here, so any size and position will do. Who reads on has the next block read ahead, at most 1 MiB of it;
    not with `limiter`. An OSError (EINVAL) says so where the file system cannot; a descriptor must have been
    opened with O_DIRECT; appending is a ValueError.

    `limiter`, for instance an `asyncio.Semaphore` or an anyio `CapacityLimiter`, bounds what this and other
    files opened with it ask of a disk at the same time: a call holds it (`async with limiter`) while it waits
    for the engine, opening included, and not when a buffer or the kernel's cache has the answer. Closing, and
    what may wait for a peer (pipes, locks, `sendfile`), does without it. A TypeError if it cannot be entered.

    It gives a `TextFile` or, for a binary mode, a `BinaryFile`: the methods of `io`'s files as coroutines. A
    file belongs to the loop that opened it.
    """
    check(limiter)
    asked = file, mode, buffering, encoding, errors, newline, closefd
    if type(buffering) is not int or type(closefd) is not bool:
        refuse(*asked)
        buffering, closefd = index(buffering), bool(closefd)
    try:
        if not isinstance(mode, str):
            raise TypeError("a mode is a str")
        binary = "b" in mode
        if binary and not encoding is errors is newline is None:
            raise ValueError("a binary mode takes no encoding, errors or newline")
        if binary and buffering == 1:
            warnings.warn(
                "line buffering (buffering=1) isn't supported in binary mode, "
                "the default buffer size will be used",
                RuntimeWarning,
                stacklevel=2,
            )
        block = -1 if buffering in (0, 1) and not binary else buffering
        opening = open_binary(
            file, mode, block, closefd, opener, engine=engine, direct=direct, limiter=limiter
        )
        if binary:
            return opening
        try:
            if buffering == 0:
                raise ValueError("can't have unbuffered text I/O")
            if isinstance(errors, str) and b"\0" in errors.encode():
                # Before Python 3.11 a text file itself does not look, or fails without an exception.
                raise ValueError("embedded null character")
            encoding = io.text_encoding(encoding, 2)  # type: ignore[attr-defined]
            settings = resolve(encoding, errors, newline)
        except BaseException:
            opening.close()
            raise
    except (TypeError, ValueError, OverflowError):
        refuse(*asked)
        raise

    def wrap(buffer: BinaryFile) -> TextFile:
        # As `io` does on a terminal, which has no positions: other files need not be asked.
        by_lines = buffering == 1 or (buffering < 0 and not buffer.seekable() and buffer.isatty())
        return TextFile(buffer, *settings, newline, mode=mode, line_buffering=by_lines, buffering=buffering)

    return TextOpening(opening, wrap)
