"""`os.path` for event loops.

What asks the file system, the password database or for the working directory is a coroutine. It does not
suspend where the answer is there: what `proactor.os.stat` knows, `abspath`, `relpath`, `expanduser` of one's
own `~`. The rest (`join`, `split`, `samestat` ...) is the standard library's own.
"""

from __future__ import annotations

import os
import os.path as _path
import sys
from os.path import (
    altsep,
    basename,
    commonpath,
    commonprefix,
    curdir,
    defpath,
    devnull,
    dirname,
    expandvars,
    extsep,
    isabs,
    join,
    normcase,
    normpath,
    pardir,
    pathsep,
    samestat,
    sep,
    split,
    splitdrive,
    splitext,
    supports_unicode_filenames,
)
from typing import TYPE_CHECKING, Any, AnyStr, overload

from proactor._native import exists, fstat, isdir, isfile, islink, lexists, stat
from proactor._pool import in_place, run

if TYPE_CHECKING:
    from os import PathLike

    from _typeshed import BytesPath, FileDescriptorOrPath, StrPath

__all__ = [
    "abspath",
    "altsep",
    "basename",
    "commonpath",
    "commonprefix",
    "curdir",
    "defpath",
    "devnull",
    "dirname",
    "exists",
    "expanduser",
    "expandvars",
    "extsep",
    "getatime",
    "getctime",
    "getmtime",
    "getsize",
    "isabs",
    "isdir",
    "isfile",
    "islink",
    "ismount",
    "join",
    "lexists",
    "normcase",
    "normpath",
    "pardir",
    "pathsep",
    "realpath",
    "relpath",
    "samefile",
    "sameopenfile",
    "samestat",
    "sep",
    "split",
    "splitdrive",
    "splitext",
    "supports_unicode_filenames",
]


async def ismount(path: FileDescriptorOrPath) -> bool:
    """Returns True if `path` is a mount point, as `os.path.ismount`, which is called in a thread."""
    return await run(_path.ismount, path)


async def getsize(filename: FileDescriptorOrPath) -> int:
    """The size in bytes. Raises OSError as `stat`."""
    return (await stat(filename)).st_size


async def getatime(filename: FileDescriptorOrPath) -> float:
    """When it was read last, in seconds since the epoch. Raises OSError as `stat`."""
    return (await stat(filename)).st_atime


async def getmtime(filename: FileDescriptorOrPath) -> float:
    """When it was written last, in seconds since the epoch. Raises OSError as `stat`."""
    return (await stat(filename)).st_mtime


async def getctime(filename: FileDescriptorOrPath) -> float:
    """When anything of it was changed last, in seconds since the epoch. Raises OSError as `stat`."""
    return (await stat(filename)).st_ctime


async def samefile(f1: FileDescriptorOrPath, f2: FileDescriptorOrPath) -> bool:
    """Whether both are the same file. Raises OSError as `stat`."""
    return samestat(await stat(f1), await stat(f2))


async def sameopenfile(fp1: int, fp2: int) -> bool:
    """Whether both descriptors are of the same file. Raises OSError as `fstat`."""
    return samestat(await fstat(fp1), await fstat(fp2))


if sys.version_info >= (3, 12):
    from os.path import splitroot

    # Linux has no junctions.
    isjunction = in_place(_path.isjunction)
    __all__ += ["isjunction", "splitroot"]

if sys.version_info >= (3, 13):
    # Nor volumes for developers.
    isdevdrive = in_place(_path.isdevdrive)
    __all__ += ["isdevdrive"]


@overload
async def abspath(path: PathLike[AnyStr]) -> AnyStr: ...
@overload
async def abspath(path: AnyStr) -> AnyStr: ...
async def abspath(path: Any) -> Any:
    """`os.path.abspath`. Does not suspend: the kernel knows the working directory."""
    return _path.abspath(path)  # noqa: ASYNC240 (no disk)


@overload
async def relpath(path: BytesPath, start: BytesPath | None = None) -> bytes: ...
@overload
async def relpath(path: StrPath, start: StrPath | None = None) -> str: ...
async def relpath(path: Any, start: Any = None) -> Any:
    """`os.path.relpath`. Does not suspend: the kernel knows the working directory."""
    return _path.relpath(path, start)  # noqa: ASYNC240 (no disk)


@overload
async def expanduser(path: PathLike[AnyStr]) -> AnyStr: ...
@overload
async def expanduser(path: AnyStr) -> AnyStr: ...
async def expanduser(path: Any) -> Any:
    """`os.path.expanduser`. Suspends only where the password database has to be asked."""
    plain = os.fspath(path)
    tilde, slash = ("~", "/") if isinstance(plain, str) else (b"~", b"/")
    if plain[:1] != tilde or (plain[1:2] in (plain[:0], slash) and "HOME" in os.environ):
        return _path.expanduser(path)  # noqa: ASYNC240 (no disk)
    return await run(_path.expanduser, path)


@overload
async def realpath(filename: PathLike[AnyStr], *, strict: bool = False) -> AnyStr: ...
@overload
async def realpath(filename: AnyStr, *, strict: bool = False) -> AnyStr: ...
async def realpath(filename: Any, *, strict: Any = False) -> Any:
    """`os.path.realpath`, with all that it asks of the file system in one call in a thread."""
    return await run(_path.realpath, filename, strict=strict)
