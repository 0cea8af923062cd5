"""`open`, `wrap` and the standard streams.

Tests that replace `sync_open` here get files of what it returns, wrapped by `wrap`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import singledispatch
from typing import TYPE_CHECKING, Any, Literal, overload

from proactor import _stdio
from proactor._open import BinaryFile, TextFile
from proactor._open import open as open_natively
from proactor.compat.aiofiles.base import AiofilesContextManager, AsyncBase, check_loop, run
from proactor.compat.aiofiles.threadpool.binary import (
    AsyncBufferedIOBase,
    AsyncBufferedReader,
    AsyncFileIO,
    AsyncIndirectBufferedIOBase,
)
from proactor.compat.aiofiles.threadpool.text import AsyncTextIndirectIOWrapper, AsyncTextIOWrapper

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from _typeshed import (
        FileDescriptorOrPath,
        OpenBinaryMode,
        OpenBinaryModeReading,
        OpenBinaryModeUpdating,
        OpenBinaryModeWriting,
        OpenTextMode,
    )

__all__ = (
    "AsyncBufferedIOBase",
    "AsyncBufferedReader",
    "AsyncFileIO",
    "AsyncIndirectBufferedIOBase",
    "AsyncTextIOWrapper",
    "AsyncTextIndirectIOWrapper",
    "open",
    "stderr",
    "stderr_bytes",
    "stdin",
    "stdin_bytes",
    "stdout",
    "stdout_bytes",
    "sync_open",
    "wrap",
)

# Replaced by tests: then files are what it returns.
sync_open: Callable[..., Any] = io.open


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
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[AsyncTextIOWrapper]: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryMode,
    buffering: Literal[0],
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[AsyncFileIO]: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryModeReading | OpenBinaryModeUpdating,
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[AsyncBufferedReader]: ...
@overload
def open(
    file: FileDescriptorOrPath,
    mode: OpenBinaryModeWriting,
    buffering: Literal[-1, 1] = -1,
    encoding: None = None,
    errors: None = None,
    newline: None = None,
    closefd: bool = True,
    opener: Callable[[str, int], int] | None = None,
    *,
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[AsyncBufferedIOBase]: ...
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
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[Any]: ...
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
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[Any]:
    """Opens a file: `async with aiofiles.open(path) as f:` or `f = await aiofiles.open(path)`.

    The arguments are those of the built-in `open`; a bad one raises its error when this is awaited. With an
    `executor` the file is the standard library's, and each of its methods runs there.
    """
    arguments = {
        "mode": mode,
        "buffering": buffering,
        "encoding": encoding,
        "errors": errors,
        "newline": newline,
        "closefd": closefd,
        "opener": opener,
    }
    return AiofilesContextManager(_open(file, arguments, loop, executor))


async def _open(file: Any, arguments: dict[str, Any], loop: Any, executor: Executor | None) -> Any:
    check_loop(loop)
    if executor is not None or sync_open is not io.open:
        return wrap(await run(executor, sync_open, file, **arguments), loop=loop, executor=executor)
    opened: Any = await open_natively(file, **arguments)
    if arguments["buffering"] == 0:
        return AsyncFileIO(opened)
    return wrap(opened)


@singledispatch
def wrap(file: Any, *, loop: Any = None, executor: Executor | None = None) -> AsyncBase[Any]:
    """The asynchronous file over an open one: those of `io`, those of proactor, and what is registered here.

    TypeError for any other.
    """
    raise TypeError(f"Unsupported io type: {file}.")


@wrap.register(TextFile)
@wrap.register(io.TextIOBase)
def _(file: Any, *, loop: Any = None, executor: Executor | None = None) -> AsyncTextIOWrapper:
    return AsyncTextIOWrapper(file, loop, executor)


@wrap.register(io.BufferedIOBase)
def _(file: Any, *, loop: Any = None, executor: Executor | None = None) -> AsyncBufferedIOBase:
    return AsyncBufferedIOBase(file, loop, executor)


@wrap.register(io.BufferedReader)
@wrap.register(io.BufferedRandom)
def _(file: Any, *, loop: Any = None, executor: Executor | None = None) -> AsyncBufferedReader:
    return AsyncBufferedReader(file, loop, executor)


@wrap.register(io.FileIO)
def _(file: Any, *, loop: Any = None, executor: Executor | None = None) -> AsyncFileIO:
    return AsyncFileIO(file, loop, executor)


@wrap.register(BinaryFile)
def _(file: BinaryFile, *, loop: Any = None, executor: Executor | None = None) -> AsyncBufferedIOBase:
    return AsyncBufferedReader(file) if file.readable() else AsyncBufferedIOBase(file)


stdin: AsyncTextIndirectIOWrapper = AsyncTextIndirectIOWrapper("sys.stdin", None, None, lambda: _stdio.stdin)
stdout: AsyncTextIndirectIOWrapper = AsyncTextIndirectIOWrapper(
    "sys.stdout", None, None, lambda: _stdio.stdout
)
stderr: AsyncTextIndirectIOWrapper = AsyncTextIndirectIOWrapper(
    "sys.stderr", None, None, lambda: _stdio.stderr
)
stdin_bytes: AsyncIndirectBufferedIOBase = AsyncIndirectBufferedIOBase(
    "sys.stdin.buffer", None, None, lambda: _stdio.stdin_bytes
)
stdout_bytes: AsyncIndirectBufferedIOBase = AsyncIndirectBufferedIOBase(
    "sys.stdout.buffer", None, None, lambda: _stdio.stdout_bytes
)
stderr_bytes: AsyncIndirectBufferedIOBase = AsyncIndirectBufferedIOBase(
    "sys.stderr.buffer", None, None, lambda: _stdio.stderr_bytes
)
