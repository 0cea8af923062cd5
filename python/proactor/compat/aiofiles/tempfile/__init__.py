"""Temporary files and directories: proactor's or, with an executor, the standard library's.

`async with` closes and removes them. An awaited one is removed when it is closed.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from proactor import tempfile as native
from proactor.compat.aiofiles.base import AiofilesContextManager, check_loop, run
from proactor.compat.aiofiles.tempfile.temptypes import AsyncSpooledTemporaryFile, AsyncTemporaryDirectory
from proactor.compat.aiofiles.threadpool import AsyncFileIO, wrap

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from proactor.compat.aiofiles.base import AsyncBase

__all__ = ["NamedTemporaryFile", "SpooledTemporaryFile", "TemporaryDirectory", "TemporaryFile"]


def TemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: str | None = None,
    prefix: str | None = None,
    dir: Any = None,  # noqa: A002
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[Any]:
    """A file without a name."""
    arguments = (mode, buffering, encoding, newline, suffix, prefix, dir)
    return AiofilesContextManager(_file(loop, executor, "TemporaryFile", *arguments))


def NamedTemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: str | None = None,
    prefix: str | None = None,
    dir: Any = None,  # noqa: A002
    delete: bool = True,
    delete_on_close: bool = True,
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[Any]:
    """A file with a name, which is removed when it is closed, unless `delete` is false.

    `delete_on_close=False` removes it at the end of `async with` instead.
    """
    arguments = (mode, buffering, encoding, newline, suffix, prefix, dir, delete)
    options: dict[str, Any] = {} if delete_on_close else {"delete_on_close": False}
    return AiofilesContextManager(_named(loop, executor, delete, *arguments, **options))


async def _named(
    loop: Any, executor: Executor | None, delete: bool, *arguments: Any, **options: Any
) -> AsyncBase[Any]:
    result: Any = await _file(loop, executor, "NamedTemporaryFile", *arguments, **options)
    # (A public name there.)
    result.delete = delete
    named: AsyncBase[Any] = result
    return named


async def _file(
    loop: Any,
    executor: Executor | None,
    name: str,
    mode: str,
    buffering: int,
    *arguments: Any,
    **options: Any,
) -> AsyncBase[Any]:
    check_loop(loop)
    if executor is None:
        file: Any = await getattr(native, name)(mode, buffering, *arguments, **options)
    else:
        file = await run(executor, getattr(tempfile, name), mode, buffering, *arguments, **options)
    if buffering == 0:
        return AsyncFileIO(file, None, executor)
    # A named one wraps the file that it is. What is asynchronous is chosen by that, and wraps the outer.
    kind = type(getattr(file, "file", file))
    return wrap.dispatch(kind)(file, executor=executor)


def SpooledTemporaryFile(
    max_size: int = 0,
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: str | None = None,
    prefix: str | None = None,
    dir: Any = None,  # noqa: A002
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManager[AsyncSpooledTemporaryFile]:
    """A file that is in memory until it is longer than `max_size` (0: any length)."""
    arguments = (max_size, mode, buffering, encoding, newline, suffix, prefix, dir)
    return AiofilesContextManager(_spooled(loop, executor, *arguments))


async def _spooled(
    loop: Any, executor: Executor | None, max_size: int, *arguments: Any
) -> AsyncSpooledTemporaryFile:
    check_loop(loop)
    # It touches no disk yet.
    file = tempfile.SpooledTemporaryFile(max_size, *arguments)  # noqa: SIM115
    return AsyncSpooledTemporaryFile(file, None, executor, max_size=max_size)


class AiofilesContextManagerTempDir(AiofilesContextManager[AsyncTemporaryDirectory]):
    """`async with` gives the directory's name."""

    async def __aenter__(self) -> str:  # type: ignore[override]
        return (await self).name


def TemporaryDirectory(
    suffix: str | None = None,
    prefix: str | None = None,
    dir: Any = None,  # noqa: A002
    loop: Any = None,
    executor: Executor | None = None,
) -> AiofilesContextManagerTempDir:
    """A directory that is removed at the end of `async with`, which gives its name."""
    return AiofilesContextManagerTempDir(_directory(loop, executor, suffix, prefix, dir))


async def _directory(loop: Any, executor: Executor | None, *arguments: Any) -> AsyncTemporaryDirectory:
    check_loop(loop)
    directory = await run(executor, tempfile.TemporaryDirectory, *arguments)
    return AsyncTemporaryDirectory(directory, None, executor)
