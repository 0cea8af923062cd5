"""Temporary files and directories: the names and arguments of `tempfile`, for event loops.

The loop's engine creates files, each when there is a descriptor for it, and threads do the rest. Each is
awaited for its object or used in `async with`; whatever way its context ends, and wherever making it is
cancelled, neither a descriptor nor a file stays behind.
"""

# ruff: noqa: A002 (`dir` is the standard library's name)

from __future__ import annotations

import os
import tempfile
from tempfile import gettempprefix, gettempprefixb
from typing import TYPE_CHECKING, Any, overload

from proactor import _pool
from proactor._native import BinaryFile
from proactor._spooled import SpooledFile, spooled_file
from proactor._temporary import (
    Directory,
    Making,
    NamedFile,
    Settings,
    empty_directory,
    make_file,
    named_file,
    temporary_directory,
    temporary_file,
)
from proactor._text import TextFile

if TYPE_CHECKING:
    from typing import AnyStr

    from _typeshed import GenericPath, OpenBinaryMode, OpenTextMode

__all__ = [
    "Directory",
    "NamedFile",
    "NamedTemporaryFile",
    "SpooledFile",
    "SpooledTemporaryFile",
    "TemporaryDirectory",
    "TemporaryFile",
    "gettempdir",
    "gettempdirb",
    "gettempprefix",
    "gettempprefixb",
    "mkdtemp",
    "mkstemp",
]


@overload
def TemporaryFile(
    mode: OpenTextMode,
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    *,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[TextFile, TextFile]: ...
@overload
def TemporaryFile(
    mode: OpenBinaryMode = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    *,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[BinaryFile, BinaryFile]: ...
@overload
def TemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    *,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[Any, Any]: ...
def TemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    *,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[Any, Any]:
    """A file without a name (O_TMPFILE where the file system has it), gone when it is closed.

    It gives a `TextFile` or `BinaryFile`. All arguments but `engine` (see `proactor.aio.Context`) are those
    of `tempfile.TemporaryFile`. Bad values are refused at once, OSError comes when it is awaited. Cancelled,
    it leaves nothing.
    """
    settings = Settings(mode, buffering, encoding, errors, newline, engine)
    return Making(temporary_file(settings, suffix, prefix, dir))


@overload
def NamedTemporaryFile(
    mode: OpenTextMode,
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    delete: bool = True,
    *,
    errors: str | None = None,
    delete_on_close: bool = True,
    engine: str | None = None,
) -> Making[NamedFile[str], NamedFile[str]]: ...
@overload
def NamedTemporaryFile(
    mode: OpenBinaryMode = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    delete: bool = True,
    *,
    errors: str | None = None,
    delete_on_close: bool = True,
    engine: str | None = None,
) -> Making[NamedFile[bytes], NamedFile[bytes]]: ...
@overload
def NamedTemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    delete: bool = True,
    *,
    errors: str | None = None,
    delete_on_close: bool = True,
    engine: str | None = None,
) -> Making[NamedFile[Any], NamedFile[Any]]: ...
def NamedTemporaryFile(
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    delete: bool = True,
    *,
    errors: str | None = None,
    delete_on_close: bool = True,
    engine: str | None = None,
) -> Making[NamedFile[Any], NamedFile[Any]]:
    """A file with a name, which only its owner may open.

    It is deleted when it is closed or, with `delete_on_close=False`, at the end of `async with`; never with
    `delete=False`. One that is forgotten warns (ResourceWarning) and is deleted when it is collected.
    Arguments and errors are as for `TemporaryFile`; all work on every Python version.
    """
    settings = Settings(mode, buffering, encoding, errors, newline, engine)
    return Making(named_file(settings, suffix, prefix, dir, delete=delete, delete_on_close=delete_on_close))


@overload
def SpooledTemporaryFile(
    max_size: int,
    mode: OpenTextMode,
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    *,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[SpooledFile[str], SpooledFile[str]]: ...
@overload
def SpooledTemporaryFile(
    max_size: int = 0,
    *,
    mode: OpenTextMode,
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[SpooledFile[str], SpooledFile[str]]: ...
@overload
def SpooledTemporaryFile(
    max_size: int = 0,
    mode: OpenBinaryMode = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    *,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[SpooledFile[bytes], SpooledFile[bytes]]: ...
@overload
def SpooledTemporaryFile(
    max_size: int = 0,
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: AnyStr | None = None,
    prefix: AnyStr | None = None,
    dir: GenericPath[AnyStr] | None = None,
    *,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[SpooledFile[Any], SpooledFile[Any]]: ...
def SpooledTemporaryFile(
    max_size: int = 0,
    mode: str = "w+b",
    buffering: int = -1,
    encoding: str | None = None,
    newline: str | None = None,
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    *,
    errors: str | None = None,
    engine: str | None = None,
) -> Making[SpooledFile[Any], SpooledFile[Any]]:
    """A file in memory, which moves to a `TemporaryFile` when a write makes it larger than `max_size` bytes.

    So do `rollover()`, `fileno()` (a coroutine here) and a `truncate` beyond `max_size`. With the default, 0,
    no write does. Making it does not suspend. Arguments and errors are as for `TemporaryFile`.
    """
    settings = Settings(mode, buffering, encoding, errors, newline, engine)
    return Making(spooled_file(settings, max_size, suffix, prefix, dir))


@overload
def TemporaryDirectory(
    suffix: str | None = None,
    prefix: str | None = None,
    dir: GenericPath[str] | None = None,
    ignore_cleanup_errors: bool = False,
    *,
    delete: bool = True,
) -> Making[Directory[str], str]: ...
@overload
def TemporaryDirectory(
    suffix: bytes | None = None,
    prefix: bytes | None = None,
    dir: GenericPath[bytes] | None = None,
    ignore_cleanup_errors: bool = False,
    *,
    delete: bool = True,
) -> Making[Directory[bytes], bytes]: ...
def TemporaryDirectory(
    suffix: Any = None,
    prefix: Any = None,
    dir: Any = None,
    ignore_cleanup_errors: bool = False,
    *,
    delete: bool = True,
) -> Making[Any, Any]:
    """A directory, removed with all that is in it at the end of `async with`, which gives its name.

    Awaited, it gives an object with `name` and `cleanup()`. With `delete=False` only `cleanup()` removes it.
    One that is forgotten warns (ResourceWarning) and is removed when it is collected. A removal that has been
    cancelled goes on in the background.
    """
    return Making(
        temporary_directory(suffix, prefix, dir, ignore_cleanup_errors=ignore_cleanup_errors, delete=delete)
    )


@overload
async def mkstemp(
    suffix: str | None = None,
    prefix: str | None = None,
    dir: GenericPath[str] | None = None,
    text: bool = False,
) -> tuple[int, str]: ...
@overload
async def mkstemp(
    suffix: bytes | None = None,
    prefix: bytes | None = None,
    dir: GenericPath[bytes] | None = None,
    text: bool = False,
) -> tuple[int, bytes]: ...
async def mkstemp(
    suffix: Any = None, prefix: Any = None, dir: Any = None, text: bool = False
) -> tuple[int, Any]:
    """Creates a file that only its owner may open, and returns its descriptor and absolute path.

    Both are the caller's. Cancelled, it leaves nothing. `text` means nothing on Linux.
    """
    created, path = await make_file(suffix, prefix, dir)
    return created.detach(), path


@overload
async def mkdtemp(
    suffix: str | None = None, prefix: str | None = None, dir: GenericPath[str] | None = None
) -> str: ...
@overload
async def mkdtemp(
    suffix: bytes | None = None, prefix: bytes | None = None, dir: GenericPath[bytes] | None = None
) -> bytes: ...
async def mkdtemp(suffix: Any = None, prefix: Any = None, dir: Any = None) -> Any:
    """Creates a directory that only its owner may use, and returns its absolute path.

    It is the caller's. Cancelled, it leaves nothing.
    """
    return await empty_directory(suffix, prefix, dir)


async def gettempdir() -> str:
    """The directory for temporary files; the first call looks for one that can be written to."""
    return await _pool.run(tempfile.gettempdir)


async def gettempdirb() -> bytes:
    """As `gettempdir`, in bytes."""
    return os.fsencode(await gettempdir())
